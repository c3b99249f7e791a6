"""The trusted core: filters, accounts, mechanisms, noise, the curator and the guarantee."""

from discreet.accounting.budget import Budget, GDPBudget, PrivacyLoss, Relation, ZCDPBudget
from discreet.core.account import Account, PrivacyFilter
from discreet.core.bits import SeededBits, SystemBits
from discreet.core.curator import Curator
from discreet.core.guarantee import Guarantee
from discreet.core.mechanisms import (
    AdditiveMechanism,
    ExponentialMechanism,
    Gaussian,
    L2Norm,
    Laplace,
    LaplaceNoisyMax,
    PermuteAndFlip,
    SelectionMechanism,
)
from discreet.core.noise import Noise
from discreet.core.questions import NoisySum, Question

__all__ = [
    "Account",
    "AdditiveMechanism",
    "Budget",
    "Curator",
    "ExponentialMechanism",
    "GDPBudget",
    "Gaussian",
    "Guarantee",
    "L2Norm",
    "Laplace",
    "LaplaceNoisyMax",
    "Noise",
    "NoisySum",
    "PermuteAndFlip",
    "PrivacyFilter",
    "PrivacyLoss",
    "Question",
    "Relation",
    "SeededBits",
    "SelectionMechanism",
    "SystemBits",
    "ZCDPBudget",
]
