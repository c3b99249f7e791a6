"""Whole passes of noisy descent over single rows or small batches, in one question.

Proof: docs/proofs/descents.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from discreet.accounting.budget import Relation
from discreet.accounting.subsampling import SampledGaussian
from discreet.core.bits import permutation, uniform_index
from discreet.core.filters import Mechanism
from discreet.core.mechanisms import AdditiveMechanism, Gaussian, L2Norm
from discreet.core.noise import Noise
from discreet.core.rows import GridNoise, Rows
from discreet.errors import PrivacyError
from discreet.validate import FloatArray, choice, integer

__all__ = ["Descent", "Order"]

Order = Literal["one_row", "pass"]

NOISE_VALUES = 2**18
"""Noise values that are drawn ahead (2 MB): the noise of a whole pass may not fit."""


@dataclass(frozen=True, eq=False)
class Descent:
    """The updates of `Curator.descend`, refused here where the proof does not cover them.

    Attributes
    ----------
    mechanism, order, batch_size, steps
        The arguments of `Curator.descend`; ``steps`` are its step sizes.
    n_rows, relation
        Those of the curator.
    """

    mechanism: Mechanism
    order: Order
    batch_size: int
    steps: FloatArray
    n_rows: int
    relation: Relation

    def __post_init__(self) -> None:
        """Refuse what the proof does not cover, before anything is charged."""
        choice("order", self.order, get_args(Order))
        integer("batch_size", self.batch_size, most=self.n_rows)
        if self.relation is not Relation.REPLACE_ONE:
            raise PrivacyError(
                "Descent by batches has a proof for relation='replace_one' only: with one row "
                "more or fewer, all batches would be others."
            )
        if self.order == "pass":
            self._check_pass()
        else:
            self._check_one_row()

    def _check_pass(self) -> None:
        if not isinstance(self.mechanism, (Gaussian, L2Norm)):
            raise TypeError(
                "order='pass' needs a Gaussian or L2Norm mechanism; got "
                f"{type(self.mechanism).__name__}."
            )
        if self.steps.size != self.n_rows // self.batch_size:
            raise ValueError(
                f"a pass over {self.n_rows} rows in batches of {self.batch_size} needs one step "
                f"size for each whole batch; got {self.steps.size}."
            )

    def _check_one_row(self) -> None:
        mechanism = self.mechanism
        if not isinstance(mechanism, SampledGaussian) or mechanism.sampling != "one_row":
            raise TypeError(
                "order='one_row' needs a SampledGaussian mechanism with sampling='one_row'; got "
                f"{mechanism!r}."
            )
        if mechanism.relation is not self.relation or mechanism.rate < 1 / self.n_rows:
            raise PrivacyError(
                f"The mechanism is accounted for rate={mechanism.rate:g} under "
                f"{str(mechanism.relation)!r}; one of {self.n_rows} rows is drawn, under "
                f"{str(self.relation)!r}."
            )
        if self.batch_size != 1 or self.steps.size < 1:
            raise ValueError(
                "order='one_row' has batch_size=1 and at least one step size; got "
                f"{self.batch_size} and {self.steps.size}."
            )

    @property
    def uses(self) -> int:
        """Number of uses of the mechanism: one per pass, or one per single row."""
        return 1 if self.order == "pass" else self.steps.size

    def run(
        self,
        rows: Rows,
        loss: Any,
        weights: FloatArray,
        noise: Noise,
        clip: float,
        alpha: float,
        radius: float | None,
        average: bool,
    ) -> FloatArray:
        """Take the steps, after they were charged; returns the last weights or their mean."""
        additive, batch, updates = self.mechanism, self.batch_size, self.steps.size
        error = rows.batch_error(batch, clip)
        if isinstance(additive, AdditiveMechanism):
            sensitivity = self.relation.rows_changed * clip + 2 * error
            index = permutation(self.n_rows, noise.bits)
            index = index[: updates * batch].reshape(updates, batch)
        else:
            assert isinstance(additive, SampledGaussian)
            additive = Gaussian(additive.noise_multiplier)
            sensitivity = clip + error
            index = uniform_index(updates, self.n_rows, noise.bits)[:, None]
        magnitude = batch * clip + error
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
                loss,
                order=index[part],
                steps=self.steps[part],
                clip=clip,
                alpha=alpha,
                radius=radius,
                noise=GridNoise(integers, grid, magnitude),
            )
            weights, total = path.weights, total + path.total
            if not np.isfinite(weights).all():  # a function of noisy sums: no leak
                raise ValueError(
                    "The noisy descent left the range of numbers; what was charged is spent. Use "
                    "smaller steps, or a radius to stay within."
                )
        return total / updates if average else weights
