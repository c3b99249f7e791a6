"""Internal names of the library that audit tests use or patch, in one place."""

import functools
import importlib
from contextlib import contextmanager

import pytest

from discreet.core import Account, Accountant, Curator, PrivacyFilter
from discreet.core.bits import SeededBits, SystemBits
from discreet.core.histogram import StabilityHistogram, noisy_limit, numeric_vote
from discreet.core.mechanisms import AdditiveMechanism, SelectionMechanism
from discreet.core.noise import Noise, from_grid, on_grid
from discreet.core.noisy_max import LaplaceNoisyMax
from discreet.core.ranges import edges, lengths
from discreet.estimators.scoring import score_classes, score_numbers
from discreet.preparation.norms import Lengths
from discreet.preparation.steps import Step
from discreet.rows.base import Rows

__all__ = [
    "Account",
    "Accountant",
    "AdditiveMechanism",
    "Curator",
    "LaplaceNoisyMax",
    "Lengths",
    "Noise",
    "PrivacyFilter",
    "Rows",
    "SeededBits",
    "SelectionMechanism",
    "StabilityHistogram",
    "Step",
    "SystemBits",
    "cached_calibration",
    "edges",
    "from_grid",
    "lengths",
    "noisy_limit",
    "numeric_vote",
    "on_grid",
    "score_classes",
    "score_numbers",
]

CALIBRATION = (
    "discreet.solvers.perturbed:noise_ratio",
    "discreet.solvers.perturbed:true_epsilon",
    "discreet.solvers.perturbed:ObjectivePerturbation.gaussian",
    "discreet.solvers:ObjPert._tilt",
    "discreet.solvers:AMP._tilt",
    "discreet.solvers:AMPHF._tilt",
    "discreet.solvers.minibatch:MinibatchSolver.plan",
    "discreet.solvers.minibatch:MinibatchSolver._schedule",
)
"""Slow functions of public numbers. A name that does not exist is skipped: this only saves time."""


@contextmanager
def cached_calibration():
    """Compute each noise scale once while the block runs."""
    with pytest.MonkeyPatch.context() as patch:
        for place in CALIBRATION:
            module, _, path = place.partition(":")
            *owners, name = path.split(".")
            try:
                owner = functools.reduce(getattr, owners, importlib.import_module(module))
                patch.setattr(owner, name, functools.cache(getattr(owner, name)))
            except (ImportError, AttributeError):
                continue
        yield
