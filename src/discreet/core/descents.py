"""Whole passes of noisy descent over single rows or small batches, in one question.

Proof: docs/proofs/descents.md.
"""

from __future__ import annotations

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

Order = Literal["one_row", "pass"]

NOISE_VALUES = 2**18
"""Noise values that are drawn ahead (2 MB): the noise of a whole pass may not fit."""


def check_descent(
    mechanism: Mechanism, order: Order, batch: int, updates: int, n_rows: int, relation: Relation
) -> None:
    """Refuse a descent that the proof does not cover, before anything is charged."""
    choice("order", order, get_args(Order))
    integer("batch_size", batch, most=n_rows)
    if relation is not Relation.REPLACE_ONE:
        raise PrivacyError(
            "Descent by batches has a proof for relation='replace_one' only: with one row more or "
            "fewer, all batches would be others."
        )
    if order == "pass":
        if not isinstance(mechanism, (Gaussian, L2Norm)):
            raise TypeError(
                f"order='pass' needs a Gaussian or L2Norm mechanism; got {mechanism!r}."
            )
        if updates != n_rows // batch:
            raise ValueError(
                f"a pass over {n_rows} rows in batches of {batch} needs one step size for each "
                f"whole batch; got {updates}."
            )
        return
    if not isinstance(mechanism, SampledGaussian) or mechanism.sampling != "one_row":
        raise TypeError(
            "order='one_row' needs a SampledGaussian mechanism with sampling='one_row'; got "
            f"{mechanism!r}."
        )
    if mechanism.relation is not relation or mechanism.rate < 1 / n_rows:
        raise PrivacyError(
            f"The mechanism is accounted for rate={mechanism.rate:g} under "
            f"{str(mechanism.relation)!r}; one of {n_rows} rows is drawn, under {str(relation)!r}."
        )
    if batch != 1 or updates < 1:
        raise ValueError("order='one_row' has batch_size=1 and at least one step size.")


def descend(
    rows: Rows,
    loss: Any,
    weights: FloatArray,
    steps: FloatArray,
    mechanism: Mechanism,
    batch: int,
    noise: Noise,
    **settings: Any,
) -> tuple[FloatArray, FloatArray]:
    """Take steps that were checked and charged; returns the last weights and their mean.

    ``settings`` are the clip, alpha and radius of `Rows.descend`. A pass has an additive mechanism,
    single rows have a `SampledGaussian`.
    """
    updates, size, clip = steps.size, weights.size, settings["clip"]
    error = rows.batch_error(batch, clip)
    if isinstance(mechanism, SampledGaussian):
        additive: AdditiveMechanism = Gaussian(mechanism.noise_multiplier)
        sensitivity = clip + error
        index = uniform_index(updates, rows.n_rows, noise.bits)[:, None]
    else:
        assert isinstance(mechanism, AdditiveMechanism)
        additive, sensitivity = mechanism, Relation.REPLACE_ONE.rows_changed * clip + 2 * error
        index = permutation(rows.n_rows, noise.bits)[: updates * batch].reshape(updates, batch)
    magnitude = batch * clip + error
    total = np.zeros(size)
    height = max(1, NOISE_VALUES // size)
    for first in range(0, updates, height):
        part = slice(first, min(first + height, updates))
        integers, grid, _ = additive.draw_block(
            noise, part.stop - first, size, sensitivity=sensitivity, magnitude=magnitude
        )
        drawn = GridNoise(integers, grid, magnitude)
        path = rows.descend(
            weights, loss, order=index[part], steps=steps[part], noise=drawn, **settings
        )
        weights, total = path.weights, total + path.total
        if not np.isfinite(weights).all():  # a function of noisy sums: no leak
            raise ValueError(
                "The noisy descent left the range of numbers; what was charged is spent. Use "
                "smaller steps, or a radius to stay within."
            )
    return weights, total / updates
