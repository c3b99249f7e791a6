"""The trusted core: budgets, filters, mechanisms, noise, the curator and the guarantee."""

from discreet.accounting.budget import Budget, GDPBudget, PrivacyLoss, Relation, ZCDPBudget
from discreet.core.account import Account
from discreet.core.accountant import Accountant
from discreet.core.curator import Curator, NoisyGradient
from discreet.core.filters import PrivacyFilter
from discreet.core.guarantee import Guarantee
from discreet.core.mechanisms import (
    ExponentialMechanism,
    Gaussian,
    L2Norm,
    Laplace,
    PermuteAndFlip,
)

__all__ = [
    "Account",
    "Accountant",
    "Budget",
    "Curator",
    "ExponentialMechanism",
    "GDPBudget",
    "Gaussian",
    "Guarantee",
    "L2Norm",
    "Laplace",
    "NoisyGradient",
    "PermuteAndFlip",
    "PrivacyFilter",
    "PrivacyLoss",
    "Relation",
    "ZCDPBudget",
]
