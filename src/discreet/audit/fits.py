"""Runs of whole estimators, as a user fits them, on either table of a pair."""

from __future__ import annotations

import itertools
import warnings
import zlib
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from discreet.audit.pairs import Pair
from discreet.audit.trials import trace_numbers
from discreet.estimators.base import PrivateLinearModel

__all__ = ["Fits", "counts_rows", "released_numbers"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Fits:
    """Fits of copies of an estimator, one by one.

    Attributes
    ----------
    estimator
        Any estimator with ``coef_`` and ``intercept_``; never fitted itself.
    pair
        The two tables.
    seeds
        A stream of seeds for repeatable trials; None for noise as it is in use.
    """

    estimator: Any
    pair: Pair
    seeds: itertools.count[int] | None = None

    def draw(self, world: int, count: int) -> FloatArray:
        """All numbers that ``count`` fits on the table of a world release."""
        X, y = self.pair.tables[world]
        outputs = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tiny tables, worker processes, seeds: all meant
            for _ in range(count):
                model = clone(self.estimator)
                if self.seeds is not None:
                    model.set_params(random_state=next(self.seeds))
                outputs.append(released_numbers(model.fit(X, y)))
        return np.array(outputs)


def released_numbers(model: Any) -> FloatArray:
    """What a fitted model holds, as numbers: weights, trace, choice of solver, and preparation."""
    chosen = zlib.crc32(str(getattr(model, "solver_", "")).encode())
    parts = [np.ravel(model.coef_), np.ravel(model.intercept_)]
    parts += [np.array([chosen]), trace_numbers(getattr(model, "trace_", ()))]
    for step in getattr(model, "preparation_", ()):
        if is_dataclass(step):
            parts += [
                np.ravel(value).astype(np.float64)
                for value in (getattr(step, field.name) for field in fields(step))
                if isinstance(value, (int, float, np.ndarray))
                and np.asarray(value).dtype.kind in "iuf"
            ]
    return np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])


ADDERS = frozenset(
    {"gd", "sgd", "sgd-adv", "sgd-ma", "agd", "objpert", "amp", "amp-hf", "outpert"}
    | {"frank-wolfe", "privgene"}
)
"""Solvers that only add up gradients or losses, to which a row of zeros adds nothing that tells."""


def counts_rows(estimator: Any) -> bool:
    """Whether a row of zeros may differ from no row at all: where rows are counted or compared."""
    if not isinstance(estimator, PrivateLinearModel):
        return False  # its promise is taken for one about sums
    name = getattr(estimator.solver, "name", estimator.solver)
    return name not in ADDERS or estimator.preparation is not None
