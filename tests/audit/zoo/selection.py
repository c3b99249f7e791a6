"""Bugs in private choices."""

import numpy as np

from .planting import Promise, apart, column, gaussian_scale, plant

CANDIDATES = 21


def first_chosen(outputs):
    return (outputs[:, 0] == 0).astype(float)


@plant(
    "negative exponential noise in a selection",
    Promise(1.0),
    "equal candidates; a row added that likes the first alone",
    trials=40_000,
    statistics={"whether the first was chosen": first_chosen},
)
def negative_exponential(rng, world, count, sound):
    """Exponential noise is subtracted from the scores, not added: DP-AGD's public code."""
    scores = np.zeros(CANDIDATES)
    if world:
        scores[1:] -= 1.0  # a row's losses; all scores move the same way
    noise = rng.exponential(1.0, (count, CANDIDATES))
    return column(np.argmax(scores + (noise if sound else -noise), axis=1))


@plant(
    "selection noise without the factor 2",
    Promise(1.0, relation="replace_one"),
    "a row that likes all candidates but the first, or the first alone",
    trials=40_000,
    statistics={"whether the first was chosen": first_chosen},
)
def not_monotone(rng, world, count, sound):
    """Replacing a row moves scores apart by 2Δ, the noise is for Δ: DP-AGD under replace-one."""
    scores = np.zeros(2 * CANDIDATES)
    if world:
        scores[1:] -= 1.0
    else:
        scores[0] -= 1.0
    noise = rng.gumbel(0.0, 2.0 if sound else 1.0, (count, scores.size))
    return column(np.argmax(scores + noise, axis=1))


@plant(
    "sparse vector without noise on its queries",
    Promise(1.0),
    "two queries of 0 and 1, or of 1 and 0",
    trials=40_000,
    statistics={"which query was above": apart},
)
def noiseless_queries(rng, world, count, sound):
    """Only the threshold is noisy: a published variant, shown to be broken by Lyu et al. 2017."""
    queries = np.array([0.0, 1.0]) if world else np.array([1.0, 0.0])
    threshold = 0.5 + rng.laplace(0.0, 2.0, (count, 1))
    noise = rng.laplace(0.0, 4.0, (count, 2)) if sound else 0.0
    above = queries + noise >= threshold
    if sound:  # it ends at the first answer that it pays for
        above[:, 1] &= ~above[:, 0]
    return above.astype(float)


@plant(
    "sparse vector that goes on after its answer",
    Promise(1.0),
    "a hundred queries that a row lifts and a hundred that it lowers",
    trials=60_000,
    statistics={
        "how many more of the first were above": apart,
        "whether the very first was": lambda outputs: outputs[:, 2],
    },
)
def endless_queries(rng, world, count, sound):
    """Noise for one answer above the threshold, but all are given: another of that list."""
    queries = np.repeat([1.0, 0.0] if world else [0.0, 1.0], 100)
    threshold = 0.5 + rng.laplace(0.0, 2.0, (count, 1))
    above = queries + rng.laplace(0.0, 4.0, (count, 200)) >= threshold
    if sound:
        above &= np.cumsum(above, axis=1) == 1
    lifted, lowered = above[:, :100].sum(axis=1), above[:, 100:].sum(axis=1)
    return np.stack([lifted, lowered, above[:, 0]], axis=1).astype(float)


@plant(
    "the best of many private runs",
    Promise(1.0),
    "a count of 0 or 1",
    trials=40_000,
)
def best_of_many(rng, world, count, sound):
    """Of fifty runs that are private each, the best by exact score is kept: tuning for free."""
    runs = world + rng.laplace(0.0, 1.0, (count, 50))
    best = np.abs(runs - world).argmin(axis=1)
    return column(runs[:, 0] if sound else runs[np.arange(count), best])


TUNED = Promise(1.0, 1e-3)


@plant(
    "half the noise in tuning scores",
    TUNED,
    "a validation row that all settings get right, or none",
    trials=40_000,
    statistics={"sum of all scores": lambda outputs: outputs.sum(axis=1)},
)
def half_noise(rng, world, count, sound):
    """Settings are compared by noisy counts of correct rows; the noise is for half a row.

    Three settings share the budget, and all scores are published.
    """
    scale = np.sqrt(3) * gaussian_scale(TUNED) * (1.0 if sound else 0.5)
    return 50.0 + world + scale * rng.standard_normal((count, 3))
