"""Bugs before the fit: what is done to a table without being paid for."""

from functools import cache

import numpy as np
from sklearn.preprocessing import StandardScaler

from discreet.core import Gaussian
from discreet.objectives import Logistic
from discreet.rows import as_rows
from discreet.rows.sums import gradient_sum

from .planting import Promise, column, gaussian_scale, plant, seeded
from .vector_noise import release

PROMISE = Promise(1.0, 1e-3)
REPLACE = Promise(1.0, 1e-3, "replace_one")


@plant(
    "feature bounds taken from the data",
    REPLACE,
    "a value of 0 or of 1000 among nineteen of 1",
    trials=40_000,
)
def bounds_from_data(rng, world, count, sound):
    """Columns are scaled by their own largest value: the code of DP-AGD and of AMP's benchmark."""
    values = np.ones(20)
    values[0] = 1000.0 * world
    scaled = np.clip(values / (1.0 if sound else values.max()), 0.0, 1.0)
    return column(scaled.sum() + gaussian_scale(REPLACE) * rng.standard_normal(count))


@cache
def scaled_gradient(world, sound):
    """The exact sum of clipped gradients at 0 of a table that scikit-learn has scaled."""
    x = np.tile([1.0, -1.0], 15)
    y = x.copy()
    x[0] = 1e4 if world else -1.0
    X = x[:, None]
    if not sound:
        X = StandardScaler().fit_transform(X)
    rows = as_rows(X, y, fit_intercept=False)
    return gradient_sum(rows, np.zeros(1), Logistic(), 0.5).values


@plant(
    "StandardScaler before the private fit",
    REPLACE,
    "an ordinary row, or an outlier",
    trials=40_000,
)
def standard_scaler(rng, world, count, sound):
    """A pipeline scales columns by exact means and deviations, and only its last step is private.

    One noisy gradient of the library's own rows, clipped to 0.5.
    """
    mechanism = Gaussian(gaussian_scale(REPLACE))
    return release(mechanism, scaled_gradient(world, sound), count, 2 * 0.5, seeded(rng))


@plant(
    "missing cells filled with the mean",
    REPLACE,
    "a value of 0 or 1 in a column where most are missing",
    trials=40_000,
)
def mean_imputation(rng, world, count, sound):
    """Missing cells get the exact mean of the others, so one row stands in many cells."""
    values = np.full(40, np.nan)
    values[:2] = world, 0.0
    filled = np.where(np.isnan(values), 0.5 if sound else np.nanmean(values), values)
    return column(filled.sum() + gaussian_scale(REPLACE) * rng.standard_normal(count))


@plant(
    "the exact number of rows after a filter",
    PROMISE,
    "a row that passes the filter, or none",
    trials=40_000,
    statistics={"noisy sum": lambda o: o[:, 0], "number of rows": lambda o: o[:, 1]},
)
def exact_count(rng, world, count, sound):
    """The number of rows that pass a filter on a private column is used as a public size."""
    values = np.append(np.zeros(9), np.ones(world))
    noisy = values.sum() + gaussian_scale(PROMISE) * rng.standard_normal(count)
    return np.stack([noisy, np.full(count, 10.0 if sound else len(values))], axis=1)


@plant(
    "categories found in the data",
    PROMISE,
    "a row of a category that nobody else has, or none",
    trials=40_000,
    statistics={
        "weight of the category": lambda o: o[:, 1],
        "whether it has one": lambda o: (o[:, 1] != 0).astype(float),
    },
)
def found_categories(rng, world, count, sound):
    """An encoder makes a column for each category that occurs, and so says that it does."""
    exact = np.array([9.0, float(world)])
    noisy = exact + gaussian_scale(PROMISE) * rng.standard_normal((count, 2))
    return noisy if sound else np.where(exact > 0, noisy, 0.0)
