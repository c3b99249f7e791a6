"""The trusted core: budgets, filters, mechanisms, noise, the curator and the guarantee."""

from discreet.privacy.account import Account
from discreet.privacy.accountant import Accountant
from discreet.privacy.budget import Budget, GDPBudget, Relation, ZCDPBudget
from discreet.privacy.curator import Curator, NoisyGradient
from discreet.privacy.filters import PrivacyFilter, PrivacyLoss
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.mechanisms import (
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
