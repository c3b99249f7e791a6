"""Whole passes of noisy descent over single rows or small batches, in one question.

Proof: docs/proofs/descents.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from discreet.accounting.budget import Relation
from discreet.accounting.subsampling import SampledGaussian
from discreet.core.account import Mechanism
from discreet.core.bits import permutation, uniform_index
from discreet.core.mechanisms import AdditiveMechanism, Gaussian, L2Norm
from discreet.core.noise import Noise
from discreet.errors import NotSupported, PrivacyError
from discreet.rows import Rows
from discreet.rows.bounds import CLIP_RANGE
from discreet.rows.descents import GridNoise
from discreet.validate import (
    FloatArray,
    check_fields,
    choice,
    integer,
    number,
    positive,
    vector,
)

Order = Literal["one_row", "pass"]

NOISE_VALUES = 2**18
"""Noise values that are drawn ahead (2 MB): the noise of a whole pass may not fit."""


@dataclass(frozen=True, eq=False)
class Descent:
    """Noisy steps of gradient descent over single rows or batches of them, as data.

    w ← w − step·((Σ clipped gradients of a batch + noise)/b + alpha·w), projected to the ball of
    ``radius`` if there is one; with ``average``, the result is the mean of the weights after each
    update. ``start`` may depend on all earlier answers. In the order ``"pass"``, a fresh random
    permutation of the rows is cut into n // b batches of exactly b = ``batch_size`` rows, the rest
    is not used, and a `Gaussian` or `L2Norm` is charged once for the whole pass. In the order
    ``"one_row"``, each update takes one row, drawn uniformly and independently, and a
    `SampledGaussian` is charged per update.

    Privacy
    -------
    Under replace only. *pass*: a replaced row is in one batch at most, whose sum then moves by
    2·clip plus twice its rounding error; the other sums are computed from the same rows at weights
    that are functions of earlier noisy sums. So the whole pass costs the mechanism once. Under
    add/remove this does not follow: one row more shifts the batches of all. *one_row*: every
    update is a use of the mechanism; its amplification rests on the secrecy and uniformity of the
    draws, which come from the noise's own bits.
    """

    loss: Any
    start: FloatArray
    clip: float
    step_sizes: FloatArray
    order: Order
    batch_size: int = 1
    alpha: float = 0.0
    radius: float | None = None
    average: bool = False

    def __post_init__(self) -> None:
        check_fields(self, vector, "start", "step_sizes")
        check_fields(self, number, "clip", least=CLIP_RANGE[0], most=CLIP_RANGE[1])
        check_fields(self, number, "alpha", least=0.0)
        check_fields(self, positive, "radius", optional=True)
        choice("order", self.order, get_args(Order))
        if getattr(self.loss, "n_outputs", 1) > 1:
            raise NotSupported("descent by batches needs a loss with one output per row.")

    @property
    def uses(self) -> int:
        """Number of uses of the mechanism that are charged."""
        return 1 if self.order == "pass" else self.step_sizes.size

    def check(self, rows: Rows, mechanism: Mechanism, relation: Relation, n_rows: int) -> None:
        """Refuse a descent that the proof does not cover, before anything is charged."""
        vector("start", self.start, rows.n_parameters)
        rows.check_batches()
        if rows.n_rows != n_rows:
            raise PrivacyError("Descent by batches needs all rows, not a sample of them.")
        integer("batch_size", self.batch_size, most=n_rows)
        if relation is not Relation.REPLACE_ONE:
            raise PrivacyError(
                "Descent by batches has a proof for relation='replace_one' only: with one row more "
                "or fewer, all batches would be others."
            )
        if self.order == "pass":
            self._check_pass(mechanism, n_rows)
        else:
            self._check_single_rows(mechanism, relation, n_rows)

    def _check_pass(self, mechanism: Mechanism, n_rows: int) -> None:
        if not isinstance(mechanism, (Gaussian, L2Norm)):
            raise TypeError(
                f"order='pass' needs a Gaussian or L2Norm mechanism; got {mechanism!r}."
            )
        updates = self.step_sizes.size
        if updates != n_rows // self.batch_size:
            raise ValueError(
                f"a pass over {n_rows} rows in batches of {self.batch_size} needs one step size "
                f"for each whole batch; got {updates}."
            )

    def _check_single_rows(self, mechanism: Mechanism, relation: Relation, n_rows: int) -> None:
        if not isinstance(mechanism, SampledGaussian) or mechanism.sampling != "one_row":
            raise TypeError(
                "order='one_row' needs a SampledGaussian mechanism with sampling='one_row'; got "
                f"{mechanism!r}."
            )
        if mechanism.relation is not relation or mechanism.rate < 1 / n_rows:
            raise PrivacyError(
                f"The mechanism is accounted for rate={mechanism.rate:g} under "
                f"{str(mechanism.relation)!r}; one of {n_rows} rows is drawn, under "
                f"{str(relation)!r}."
            )
        if self.batch_size != 1 or self.step_sizes.size < 1:
            raise ValueError("order='one_row' has batch_size=1 and at least one step size.")

    def run(self, rows: Rows, mechanism: Mechanism, noise: Noise) -> FloatArray:
        """Take the steps, which were checked and charged; returns the last or mean weights."""
        updates = self.step_sizes.size
        error = rows.batch_error(self.batch_size, self.clip)
        if isinstance(mechanism, SampledGaussian):
            additive: AdditiveMechanism = Gaussian(mechanism.noise_multiplier)
            sensitivity = self.clip + error
            index = uniform_index(updates, rows.n_rows, noise.bits)[:, None]
        else:
            assert isinstance(mechanism, AdditiveMechanism)
            additive = mechanism
            sensitivity = Relation.REPLACE_ONE.rows_changed * self.clip + 2 * error
            drawn = permutation(rows.n_rows, noise.bits)[: updates * self.batch_size]
            index = drawn.reshape(updates, self.batch_size)
        magnitude = self.batch_size * self.clip + error
        weights = self.start
        total = np.zeros(weights.size)
        height = max(1, NOISE_VALUES // weights.size)
        for first in range(0, updates, height):
            part = slice(first, min(first + height, updates))
            integers, grid, _ = additive.draw_block(
                noise,
                part.stop - first,
                weights.size,
                sensitivity=sensitivity,
                magnitude=magnitude,
            )
            path = rows.descend(
                weights,
                self.loss,
                order=index[part],
                steps=self.step_sizes[part],
                noise=GridNoise(integers, grid, magnitude),
                clip=self.clip,
                alpha=self.alpha,
                radius=self.radius,
            )
            weights = path.weights
            total += path.total
            if not np.isfinite(weights).all():  # a function of noisy sums: no leak
                raise ValueError(
                    "The noisy descent left the range of numbers; what was charged is spent. Use "
                    "smaller steps, or a radius to stay within."
                )
        return total / updates if self.average else weights
