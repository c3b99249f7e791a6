"""Bugs in the choice of pairs of columns by sums of residuals in cells."""

import numpy as np

from discreet.rows import as_rows
from discreet.rows.pair_sums import pair_scores, pair_sums

from .planting import Promise, column, plant

CELLS = (np.arange(2),) * 4
PAIRS = ((0, 1), (2, 3))
ROWS = np.array([[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]], dtype=float)
"""The last row is in a cell of negative sum of the first pair, of positive sum of the second."""


def scores(last, clipped=True):
    """Scores of two pairs, by the library's kernel: 8 rows with −1, 8 with 1, and the last row."""
    X = np.repeat(ROWS, [8, 8, 1], axis=0)
    y = np.concatenate([np.full(8, -1.0), np.full(8, 1.0), [last]])
    if not clipped:  # the kernel clips: in a unit in which nothing is
        return 8 * kernel(X, y / 8)
    return kernel(X, y)


def kernel(X, y):
    """The library's scores of the pairs."""
    sums = pair_sums(as_rows(X, y, fit_intercept=False), CELLS, PAIRS)
    return pair_scores(sums, CELLS, PAIRS).values


def chosen(rng, exact, scale, count):
    return column(np.argmax(exact + rng.gumbel(0.0, scale, (count, exact.size)), axis=1))


def second(outputs):
    return outputs[:, 0]


@plant(
    "pairs: noise as if scores were monotone",
    Promise(1.0),
    "a row whose residual lowers one score and raises the other, or none",
    trials=20_000,
    statistics={"whether the second was chosen": second},
)
def monotone(rng, world, count, sound):
    """Half of the noise: a row raises the score of one pair and lowers that of another."""
    return chosen(rng, scores(1.0 if world else 0.0), 2.0 if sound else 1.0, count)


@plant(
    "pairs: replace-one with the noise of add/remove",
    Promise(1.0, relation="replace_one"),
    "a row whose residual is 1, or −1",
    trials=20_000,
    statistics={"whether the second was chosen": second},
)
def relation(rng, world, count, sound):
    """The relation is forgotten: a replaced row moves each score by 2, not by 1."""
    ahead = np.array([6.0, 0.0])  # the second is chosen rarely, which reveals most
    return chosen(rng, scores(1.0 if world else -1.0) + ahead, 4.0 if sound else 2.0, count)


@plant(
    "pairs: residuals that are not clipped",
    Promise(1.0),
    "a row whose residual is 4, or none",
    trials=20_000,
    statistics={"whether the second was chosen": second},
)
def unclipped(rng, world, count, sound):
    """Residuals of a regression enter scores as they are, with the noise for residuals of 1."""
    return chosen(rng, scores(4.0 if world else 0.0, clipped=sound), 2.0, count)
