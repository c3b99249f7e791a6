"""Bugs in where random numbers come from."""

from functools import cache

import numpy as np

from discreet import LinearSVC
from discreet.solvers import GD
from tests.audit.internals import SeededBits, bits_of_fits

from .planting import Promise, apart, plant

PROMISE = Promise(1.0)
COPIES = 200


@cache
def all_noises():
    """Return all draws of a generator seeded with one byte."""
    return np.array([np.random.default_rng(seed).laplace(0.0, 2.0, 2) for seed in range(256)])


def known_noise(outputs):
    """Return 1 if the output is one of the 256 noise values on the table without the row."""
    gaps = np.abs(outputs[:, None, :] - all_noises()).max(axis=2)
    return (gaps.min(axis=1) < 1e-9).astype(float)


@plant(
    "a one-byte seed",
    PROMISE,
    "a vector at 0 or at 1",
    trials=4_000,
    statistics={
        "whether it is a known noise": known_noise,
        "first coordinate": lambda outputs: outputs[:, 0],
    },
)
def one_byte_seed(rng, world, count, sound):
    """The noise is seeded with one byte, so there are 256 of it: the AMP benchmark's code."""
    if sound:
        return world + rng.laplace(0.0, 2.0, (count, 2))
    return world + all_noises()[rng.integers(256, size=count)]


@plant(
    "the same seed in every fold",
    PROMISE,
    "a row in the first of two folds, or in none",
    trials=20_000,
    statistics={"difference of the folds": apart, "the first fold": lambda outputs: outputs[:, 0]},
)
def same_seed(rng, world, count, sound):
    """Two disjoint folds, each fitted with random_state=0: their noise cancels."""
    noise = rng.laplace(0.0, 1.0, (count, 2))
    if not sound:
        noise[:, 1] = noise[:, 0]
    return np.array([float(world), 0.0]) + noise


class RepeatedBits(SeededBits):
    """Each task gets a copy of one stream, as workers that unpickle a generator do."""

    def spawn(self, count):
        (child,) = self._sequence.spawn(1)
        return [SeededBits(child) for _ in range(count)]


@plant(
    "the same noise for all one-vs-rest classes",
    Promise(1.0, 1e-3, "replace_one"),
    "a row of the first class or of the second",
    trials=40_000,
    statistics={"difference of two classes' weights": apart},
)
def same_noise(rng, world, count, sound):
    """Parallel workers copy one generator, so noise cancels between classes: diffprivlib, n_jobs=2.

    Three classes of the library's own estimator, fitted for real, with bits that repeat. Each
    column has a row of its own, and noise of its own: one fit is as many runs as columns.
    """
    X = np.vstack([np.eye(COPIES), np.zeros((3, COPIES))])
    y = np.append(np.full(COPIES, world), [0, 1, 2])
    outputs = []
    for _ in range(-(-count // COPIES)):
        model = LinearSVC(
            epsilon=1.0,
            delta=1e-3,
            relation="replace_one",
            solver=GD(iterations=1, step_size=1.0),
            data_norm=1.0,
            fit_intercept=False,
            classes=[0, 1, 2],
        )
        bits = (SeededBits if sound else RepeatedBits)(int(rng.integers(2**62)))
        with bits_of_fits(lambda bits=bits: bits):
            outputs.append(model.fit(X, y).coef_[:2].T)
    return np.concatenate(outputs)[:count]
