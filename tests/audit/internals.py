"""Internal names of the library that audit tests use or patch, in one place."""

import functools
import importlib
from contextlib import contextmanager

import pytest

from discreet import core, exact
from discreet.core import (
    Account,
    Curator,
    LaplaceNoisyMax,
    PrivacyFilter,
    SelectionMechanism,
)
from discreet.core.bits import SeededBits, SystemBits
from discreet.core.mechanisms import AdditiveMechanism
from discreet.core.noise import Noise, from_grid, on_grid
from discreet.core.questions import NoisySum, Question
from discreet.estimators.scoring import (
    Subgroups,
    Terms,
    count_confusion,
    count_errors,
    score_classifier,
    score_histogram,
    score_regressor,
)
from discreet.exact.histogram import StabilityHistogram, noisy_limit
from discreet.preparation import RowNorms, Step
from discreet.rows.moments import edges, norm_candidates

__all__ = [
    "Account",
    "AdditiveMechanism",
    "Curator",
    "LaplaceNoisyMax",
    "Noise",
    "NoisySum",
    "PrivacyFilter",
    "Question",
    "RowNorms",
    "SeededBits",
    "SelectionMechanism",
    "StabilityHistogram",
    "Step",
    "Subgroups",
    "SystemBits",
    "Terms",
    "bits_of_fits",
    "cached_calibration",
    "core",
    "count_confusion",
    "count_errors",
    "edges",
    "exact",
    "from_grid",
    "noisy_limit",
    "norm_candidates",
    "on_grid",
    "score_classifier",
    "score_histogram",
    "score_regressor",
]

CALIBRATION = (
    "discreet.exact.calibration:noise_ratio",
    "discreet.exact.calibration:Headroom.true_epsilon",
    "discreet.exact.perturbed:ObjectivePerturbation.gaussian",
    "discreet.solvers:ObjPert._calibrate",
    "discreet.solvers:AMP._calibrate",
    "discreet.solvers:AMPHF._calibrate",
    "discreet.solvers:SGD._plan",
)
"""Slow functions of public numbers, each computed once."""


@contextmanager
def cached_calibration():
    """Compute each noise scale once while the block runs."""
    with pytest.MonkeyPatch.context() as patch:
        for place in CALIBRATION:
            module, _, path = place.partition(":")
            *owners, name = path.split(".")
            owner = functools.reduce(getattr, owners, importlib.import_module(module))
            patch.setattr(owner, name, functools.cache(getattr(owner, name)))
        yield


@contextmanager
def bits_of_fits(source):
    """Take the random bits of every fit from ``source()`` while the block runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("discreet.core.session.SystemBits", source)
        yield
