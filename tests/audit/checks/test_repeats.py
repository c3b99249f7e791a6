"""Repeated noise is found wherever it occurs; ours is never repeated."""

import dataclasses

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.multiclass import OneVsRestClassifier

from tests.audit.internals import SeededBits, bits_of_fits

from .all import (
    repeated_in_classes,
    repeated_in_copies,
    repeated_in_fits,
    repeated_in_folds,
    repeated_in_processes,
    repeated_in_threads,
)
from .streams import (
    GivenStream,
    Noisy,
    OneSeed,
    OwnStream,
    SeededByRows,
    SharedByClasses,
    ThreadStream,
)
from .tables import PRIVATE, QUICK, SLOW, TABLE, logistic

CHECKS = [repeated_in_fits, repeated_in_copies, repeated_in_threads, repeated_in_folds]


@pytest.mark.parametrize("estimator", [*QUICK, Noisy()], ids=lambda e: type(e).__name__)
def test_ours_never_repeat(estimator):
    for check in CHECKS:
        found = check(estimator, TABLE)
        assert found.passed, found


@pytest.mark.process
@pytest.mark.parametrize("estimator", [*QUICK[::2], Noisy()], ids=lambda e: type(e).__name__)
def test_forked_processes_do_not_share_noise(estimator):
    assert repeated_in_processes(estimator, TABLE, method="fork").passed


@pytest.mark.parametrize("name", [name for name in PRIVATE if name not in {"sgd", *SLOW}])
def test_classes_do_not_share_noise(name):
    found = repeated_in_classes(logistic(name, epsilon=20.0))
    assert found.passed, found


@pytest.mark.process
def test_spawned_processes_do_not_share_noise(spawned):
    ours = repeated_in_processes(logistic("outpert"), TABLE, method="spawn", processes=1)
    assert ours.passed, ours
    found = repeated_in_processes(spawned.ModuleStream(), TABLE, method="spawn", processes=1)
    assert not found.passed
    assert "spawn" in found.check


@pytest.mark.process
def test_forked_processes_that_share_a_stream_are_seen(spawned):
    assert repeated_in_fits(spawned.ModuleStream(), TABLE).passed  # nothing is wrong here yet
    found = repeated_in_processes(spawned.ModuleStream(), TABLE, method="fork")
    assert not found.passed
    assert "cancel the noise" in found.text


@pytest.fixture
def spawned(monkeypatch):
    """The module of planted estimators, under a name that other processes can import."""
    import importlib
    from pathlib import Path

    here = Path(__file__).parent
    monkeypatch.syspath_prepend(str(here))
    monkeypatch.syspath_prepend(str(here.parents[2]))  # for the checks themselves
    return importlib.reload(importlib.import_module("streams"))


def test_one_seed_for_all_fits_is_seen():
    for check in CHECKS:
        assert not check(OneSeed(), TABLE).passed
        assert not check(SeededByRows(), TABLE).passed


def test_a_stream_that_copies_carry_along_is_seen():
    assert repeated_in_fits(OwnStream(), TABLE).passed
    assert not repeated_in_copies(OwnStream(), TABLE).passed


def test_a_stream_that_clone_copies_is_seen():
    planted = GivenStream(stream=np.random.default_rng(5))
    assert repeated_in_fits(planted, TABLE).passed
    for check in (repeated_in_copies, repeated_in_threads, repeated_in_folds):
        assert not check(planted, TABLE).passed


def test_threads_with_one_seed_are_seen():
    assert repeated_in_fits(ThreadStream(), TABLE).passed
    assert not repeated_in_threads(ThreadStream(), TABLE).passed


def test_classes_with_one_noise_are_seen():
    assert repeated_in_classes(Noisy()).passed
    found = repeated_in_classes(SharedByClasses())
    assert not found.passed
    assert "classes 0 and 1" in found.text


def test_wrappers_that_fit_one_model_a_class_are_looked_into():
    assert repeated_in_classes(OneVsRestClassifier(Noisy())).passed
    assert repeated_in_classes(OneVsRestClassifier(logistic("outpert"))).passed
    assert not repeated_in_classes(OneVsRestClassifier(OneSeed())).passed


@dataclasses.dataclass(frozen=True)
class _Copied:
    """Hands every class a stream of the same seed, which is fresh in each fit."""

    seed: int = dataclasses.field(default_factory=lambda: np.random.SeedSequence().entropy)
    secure = False

    def spawn(self, count):
        return [SeededBits(self.seed) for _ in range(count)]


@pytest.mark.parametrize("solver", ["frank-wolfe", "outpert"])
def test_classes_of_ours_with_one_stream_are_seen(solver):
    with bits_of_fits(_Copied):
        assert repeated_in_fits(logistic(solver, epsilon=20.0), TABLE).passed
        found = repeated_in_classes(logistic(solver, epsilon=20.0))
    assert not found.passed
    assert "random words" in found.text


def test_a_model_of_zeros_says_nothing_of_its_noise():
    class Zeros(Noisy):
        def fit(self, X, y):
            self.coef_, self.intercept_ = np.zeros(3), 0.5
            return self

    found = repeated_in_fits(Zeros(), TABLE)
    assert found.passed
    assert "0 outputs" in found.text


def test_regressors_have_no_classes():
    assert repeated_in_classes(QUICK[-1]) is None


def test_what_cannot_be_pickled_is_not_spawned():
    found = repeated_in_processes(
        GivenStream(stream=_Unpicklable()), TABLE, method="spawn", processes=1
    )
    assert found.passed
    assert "pickled" in found.text


class _Unpicklable:
    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError("stays here")

    def normal(self, size):
        return np.random.default_rng().normal(size=size)


@pytest.mark.process
def test_errors_of_a_child_are_raised():
    class Fails(BaseEstimator):
        fits = 0

        def fit(self, X, y):
            Fails.fits += 1
            if Fails.fits > 1 and __import__("multiprocessing").parent_process() is not None:
                raise ValueError("no child may fit")
            self.coef_ = np.random.default_rng().normal(size=2)
            return self

    with pytest.raises(RuntimeError, match="no child may fit"):
        repeated_in_processes(Fails(), TABLE, method="fork")
