"""Solvers: optimisers that ask a curator and never see a row.

A solver holds settings, a plan and a loop. Computations on exact rows, and their proofs, are in
`discreet.exact`.
"""

from discreet.solvers.agd import AGD
from discreet.solvers.amp import AMP, AMPHF
from discreet.solvers.base import (
    Plan,
    Progress,
    Recorder,
    Solution,
    Solver,
    TraceEntry,
    part_of,
    true_budget,
)
from discreet.solvers.baselines import Majority, NonPrivate
from discreet.solvers.frank_wolfe import FrankWolfe
from discreet.solvers.gd import GD
from discreet.solvers.laplace_sgd import LaplaceSGD
from discreet.solvers.newton import Newton
from discreet.solvers.objpert import ObjPert
from discreet.solvers.outpert import OutPert
from discreet.solvers.permutation_sgd import PermutationSGD
from discreet.solvers.privgene import PrivGene
from discreet.solvers.registry import AUTO, Auto, Description, describe, names, resolve
from discreet.solvers.rrpsgd import RRPSGD
from discreet.solvers.sgd import SGD
from discreet.solvers.shrunk_gd import ShrunkGD

__all__ = [
    "AGD",
    "AMP",
    "AMPHF",
    "AUTO",
    "GD",
    "RRPSGD",
    "SGD",
    "Auto",
    "Description",
    "FrankWolfe",
    "LaplaceSGD",
    "Majority",
    "Newton",
    "NonPrivate",
    "ObjPert",
    "OutPert",
    "PermutationSGD",
    "Plan",
    "PrivGene",
    "Progress",
    "Recorder",
    "ShrunkGD",
    "Solution",
    "Solver",
    "TraceEntry",
    "describe",
    "names",
    "part_of",
    "resolve",
    "true_budget",
]
