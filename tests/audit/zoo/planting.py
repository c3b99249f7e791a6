"""How a bug is planted: one mechanism, as it was found and repaired, on one pair of tables."""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.conversions import mu_from_epsilon
from discreet.audit import Attack
from discreet.audit.attack import Statistic
from tests.audit.internals import Noise, SeededBits

FloatArray = NDArray[np.float64]

Mechanism = Callable[[np.random.Generator, int, int, bool], FloatArray]
"""``mechanism(rng, world, count, sound)``: outputs of ``count`` runs on table 0 or 1."""


@dataclass(frozen=True)
class Promise:
    """What the code would state."""

    epsilon: float
    delta: float = 0.0
    relation: str = "add_remove"


@dataclass(frozen=True)
class Bug:
    """A mechanism that claims more than it gives, and its repaired twin with the same claim.

    Attributes
    ----------
    name
        For people.
    wrong
        What is wrong, and where such code was seen.
    broken, sound
        Attacks on the mechanism with the bug and without it, each on new runs of a fixed seed.
    trials
        With which the bug is refuted, with some margin.
    sharp
        Whether so many trials would also have refuted a twin twice as bad as it promises to be.
    """

    name: str
    wrong: str
    broken: Callable[..., Attack]
    sound: Callable[..., Attack]
    trials: int
    sharp: bool = True


def plant(
    name: str,
    promise: Promise,
    pair: str,
    *,
    trials: int,
    statistics: Mapping[str, Statistic] | None = None,
    learn: bool = False,
    sharp: bool = True,
) -> Callable[[Mechanism], Bug]:
    """Make a bug of a mechanism; the first line of its docstring says what is wrong."""

    def attack(mechanism: Mechanism, sound: bool, seed: int = 0) -> Attack:
        rng = np.random.default_rng([zlib.crc32(name.encode()), int(sound), seed])
        return Attack(
            subject=f"{name}, repaired" if sound else name,
            pair=pair,
            epsilon=promise.epsilon,
            delta=promise.delta,
            relation=promise.relation,
            draw=lambda world, count: mechanism(rng, world, count, sound),
            statistics=statistics or {},
            learn=learn,
        )

    def planted(mechanism: Mechanism) -> Bug:
        return Bug(
            name,
            (inspect.getdoc(mechanism) or "").split("\n\n")[0],
            partial(attack, mechanism, False),
            partial(attack, mechanism, True),
            trials,
            sharp,
        )

    return planted


def gaussian_scale(promise: Promise) -> float:
    """The least Gaussian noise that keeps a promise at sensitivity 1."""
    return 1 / mu_from_epsilon(promise.epsilon, promise.delta)


def seeded(rng: np.random.Generator) -> Noise:
    """The library's own noise, from bits that can be repeated."""
    return Noise(SeededBits(int(rng.integers(2**62))))


def column(values: NDArray[np.generic]) -> FloatArray:
    """One number a run."""
    return np.asarray(values, dtype=np.float64).reshape(-1, 1)


def total(outputs: FloatArray) -> FloatArray:
    """The projection on a row of ones."""
    return outputs.sum(axis=1)


def apart(outputs: FloatArray) -> FloatArray:
    """The first number less the second."""
    return outputs[:, 0] - outputs[:, 1]


def size(outputs: FloatArray) -> FloatArray:
    """The size of the first number."""
    return np.abs(outputs[:, 0])
