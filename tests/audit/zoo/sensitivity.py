"""Bugs in how far one row can move a sum."""

import numpy as np

from discreet.core import Laplace

from .planting import Promise, column, gaussian_scale, plant, seeded, size
from .vector_noise import release

PROMISE = Promise(1.0, 1e-3)
REPLACE = Promise(1.0, 1e-3, "replace_one")


@plant(
    "the bias column left out of the row norm",
    PROMISE,
    "a row at the bound, or none",
    trials=40_000,
    statistics={"projection on the row": lambda outputs: outputs @ np.array([0.5, 1.0])},
)
def bias_left_out(rng, world, count, sound):
    """Rows are scaled to norm 0.5 and then get a constant 1, so gradients are longer."""
    row = np.array([0.5, 1.0])  # the slope of a row's loss is 1 at most
    bound = np.linalg.norm(row) if sound else 0.5
    return world * row + gaussian_scale(PROMISE) * bound * rng.standard_normal((count, 2))


@plant(
    "rows longer than the constant that is used",
    PROMISE,
    "a row of norm 3.6, or none",
    trials=40_000,
)
def longer_rows(rng, world, count, sound):
    """L = 1 is taken for granted on rows of norm up to 3.6 that nobody scales: DP-AGD's OutPert."""
    row = 3.6
    if sound:
        row /= max(1.0, row)
    return column(world * row + gaussian_scale(PROMISE) * rng.standard_normal(count))


@plant(
    "the batch's mean clipped, not each row",
    PROMISE,
    "ten rows of which one is huge, or is not there",
    trials=40_000,
)
def clipped_mean(rng, world, count, sound):
    """Frameworks clip the gradient of a batch's mean loss; one huge row moves all of it."""
    gradients = np.full(10, -1.0)
    gradients[0] = 1e6 * world
    if not sound:
        gradients[:] = gradients.mean()
    exact = np.clip(gradients, -1, 1).sum()
    return column(exact + gaussian_scale(PROMISE) * rng.standard_normal(count))


@plant(
    "replace-one promised, add/remove noise",
    REPLACE,
    "a row at the clip, one way or the other",
    trials=60_000,
)
def half_the_noise(rng, world, count, sound):
    """A replaced row moves a clipped sum by 2C, the noise is for C: relations left unnamed."""
    scale = gaussian_scale(REPLACE) * (2.0 if sound else 1.0)
    return column((1.0 if world else -1.0) + scale * rng.standard_normal(count))


@plant(
    "targets that nobody clipped",
    REPLACE,
    "a row with target -50 or 50",
    trials=40_000,
)
def wild_targets(rng, world, count, sound):
    """Squared loss on scaled rows, targets as given: a gradient is as long as its target is far."""
    target = 50.0 if world else -50.0
    if sound:
        target = np.clip(target, -1.0, 1.0)
    scale = 2 * gaussian_scale(REPLACE)
    return column(-target + scale * rng.standard_normal(count))


@plant(
    "the clip at the exact median norm",
    REPLACE,
    "five rows with two long ones, or three",
    trials=100_000,
    statistics={"size of the answer": size, "its value": lambda outputs: outputs[:, 0]},
)
def median_clip(rng, world, count, sound):
    """The clip, and so the noise, follows the exact median of the gradients' norms."""
    gradients = np.array([0.1, -0.1, -0.1, -10.0, 10.0])
    if world:
        gradients[0] = 10.0
    clip = 1.0 if sound else float(np.median(np.abs(gradients)))
    exact = np.clip(gradients, -clip, clip).sum()
    return column(exact + 2 * clip * gaussian_scale(REPLACE) * rng.standard_normal(count))


@plant(
    "a rare class repeated",
    PROMISE,
    "a row of the rare class, or none",
    trials=40_000,
)
def repeated_rows(rng, world, count, sound):
    """Rows of a rare class are repeated to balance it, and each copy is clipped on its own."""
    copies = 1 if sound else 8
    return column(world * copies + gaussian_scale(PROMISE) * rng.standard_normal(count))


@plant(
    "noise divided by the number of workers",
    PROMISE,
    "a row at the clip, or none",
    trials=40_000,
)
def shared_noise(rng, world, count, sound):
    """Each of 16 workers adds 1/16 of the noise: their variances add up, to 1/16 of what it was."""
    workers = 16
    scale = gaussian_scale(PROMISE) / (np.sqrt(workers) if sound else workers)
    noise = scale * rng.standard_normal((count, workers))
    return column(world + noise.sum(axis=1))


def blocked_scores(X, weights):
    """Scores as an optimised matrix product gives them: in blocks of four rows, then the rest.

    Rows of the rest are added up in another order, as in OpenBLAS, so the last bits of a row's
    score depend on the number of rows.
    """
    products = X * weights
    blocks = len(X) - len(X) % 4
    return np.concatenate([added_up(products[:blocks]), added_up(products[blocks:, ::-1])])


def added_up(products):
    """Sums of rows, from left to right."""
    return np.add.accumulate(products, axis=1)[:, -1]


@plant(
    "private scores of predictions by BLAS",
    Promise(1.0),
    "1003 equal rows at a tie, or 1004",
    trials=20_000,
    statistics={
        "rows predicted as class 1": lambda outputs: outputs[:, 1],
        "rows predicted as class 0": lambda outputs: outputs[:, 0],
    },
)
def blas_scores(rng, world, count, sound):
    """Noisy counts of predicted classes, one per row; but one row more changes others' scores.

    This library's own `evaluate` had it: a count moves by 4 where the noise is for 1. Repaired,
    each row's score is computed from that row alone.
    """
    X = np.tile([2.0**53, 1.0, -(2.0**53)], (1003 + world, 1))  # adds up to 0, or in reverse to 1
    scores = (lambda X, w: added_up(X * w)) if sound else blocked_scores
    counts = np.bincount((scores(X, np.ones(3)) > 0.5).astype(int), minlength=2)
    return release(Laplace(1.0), counts.astype(float), count, 1.0, seeded(rng))
