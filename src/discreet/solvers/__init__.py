"""Solvers: ordinary optimisers that talk to a curator and never see a row."""

from discreet.solvers import settings
from discreet.solvers.agd import AGD
from discreet.solvers.amp import AMP, AMPHF
from discreet.solvers.base import (
    Progress,
    Solution,
    Solver,
    TraceEntry,
    part_of,
    true_budget,
)
from discreet.solvers.frank_wolfe import FrankWolfe
from discreet.solvers.gd import GD
from discreet.solvers.laplace_sgd import LaplaceSGD
from discreet.solvers.majority import Majority
from discreet.solvers.newton import Newton
from discreet.solvers.nonprivate import NonPrivate
from discreet.solvers.objpert import ObjPert
from discreet.solvers.outpert import OutPert
from discreet.solvers.permutation_sgd import PermutationSGD
from discreet.solvers.privgene import PrivGene
from discreet.solvers.registry import Description, describe, names, resolve
from discreet.solvers.rrpsgd import RRPSGD
from discreet.solvers.sgd import SGD
from discreet.solvers.sgd_adv import SGDAdv
from discreet.solvers.sgd_ma import SGDMA
from discreet.solvers.shrunk_gd import ShrunkGD

__all__ = [
    "AGD",
    "AMP",
    "AMPHF",
    "GD",
    "RRPSGD",
    "SGD",
    "SGDMA",
    "Description",
    "FrankWolfe",
    "LaplaceSGD",
    "Majority",
    "Newton",
    "NonPrivate",
    "ObjPert",
    "OutPert",
    "PermutationSGD",
    "PrivGene",
    "Progress",
    "SGDAdv",
    "ShrunkGD",
    "Solution",
    "Solver",
    "TraceEntry",
    "describe",
    "names",
    "part_of",
    "resolve",
    "settings",
    "true_budget",
]
