"""Bugs in noise on vectors."""

import math

import numpy as np

from discreet.core.mechanisms import L2Norm, Laplace
from tests.audit.internals import from_grid, on_grid

from .planting import Promise, gaussian_scale, plant, seeded, total

PROMISE = Promise(1.0, 1e-3)


def release(mechanism, values, count, sensitivity, noise):
    """Many releases of one vector by a mechanism of the library."""
    drawn, grid, _ = mechanism.draw_block(
        noise, count, values.size, sensitivity=sensitivity, magnitude=1e3
    )
    return from_grid(on_grid(values, grid) + drawn, grid)


class BallNorm(L2Norm):
    """The library's noise, its direction drawn from the ball."""

    def _draw(self, noise, count, size, scale, grid):
        drawn = super()._draw(noise, count, size, scale, grid)
        inside = (noise.bits.words(count) / 2.0**64) ** (1 / size)
        return np.rint(drawn * inside[:, None]).astype(np.int64)


def nearer(outputs):
    """By how much an output is nearer to 0 than to (1, 0)."""
    return np.linalg.norm(outputs - [1.0, 0.0], axis=1) - np.linalg.norm(outputs, axis=1)


@plant(
    "direction from the unit ball",
    Promise(1.0),
    "a vector at 0, or one away from it",
    trials=40_000,
    statistics={"how much nearer it is to 0": nearer},
)
def ball(rng, world, count, sound):
    """Gamma length, but a direction from the unit ball, not the sphere: a paper on Laplace SGD."""
    mechanism = L2Norm(1.0) if sound else BallNorm(1.0)
    return release(mechanism, np.array([float(world), 0.0]), count, 1.0, seeded(rng))


@plant(
    "Laplace noise for the L2 sensitivity",
    Promise(1.0),
    "a vector at 0, or of norm 1 in all coordinates alike",
    trials=40_000,
    statistics={"least coordinate": lambda outputs: outputs.min(axis=1)},
)
def laplace_for_l2(rng, world, count, sound):
    """Rows are clipped in the L2 norm, but Laplace noise needs the L1 norm: a common slip."""
    d = 4
    values = np.full(d, world / math.sqrt(d))
    sensitivity = math.sqrt(d) if sound else 1.0
    return release(Laplace(1.0), values, count, sensitivity, seeded(rng))


@plant(
    "clipping by coordinate, noise for a norm",
    PROMISE,
    "a row at the bound in every coordinate, or none",
    trials=40_000,
    statistics={"projection on the row": total},
)
def clipped_by_coordinate(rng, world, count, sound):
    """np.clip(gradient, -C, C) bounds coordinates, the noise is for the norm C: a common slip."""
    d = 16
    row = np.full(d, 5.0)
    row = row / np.linalg.norm(row) if sound else np.clip(row, -1.0, 1.0)
    return world * row + gaussian_scale(PROMISE) * rng.standard_normal((count, d))
