"""Generated data sets: public, and the same for the same seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["HIGH_BOUND", "LOW_BOUND", "plane", "sphere", "synthetic_high", "synthetic_low"]

Generated = tuple[NDArray[np.float64], NDArray[np.int64]]


LOW_BOUND = 100.0
"""Public bound of a value of Synthetic-L; its largest is 66.2."""

HIGH_BOUND = 20.0
"""Public bound of a value of Synthetic-H; its largest is 10.9."""

INFORMATIVE_SHARE = 0.75
"""Share of the columns of Synthetic-L that tell the classes apart: 30 of 40 in the release."""


def synthetic_low(
    n_rows: int = 10_000, n_features: int = 40, *, bound: float = LOW_BOUND, seed: int = 1000
) -> Generated:
    """Synthetic-L: a low-dimensional two-class problem of overlapping normal clusters.

    The set of this name in Iyengar et al. 2019, by the settings of the code that the paper names:
    scikit-learn's ``make_classification`` with 40 columns, 30 of them informative, classes 2 apart
    and the seed 1000. The paper's table I has 20 columns. Values beyond ``bound`` are cut; there
    are none in the set itself.

    Parameters
    ----------
    n_rows, n_features : int
        Size; three quarters of the columns are informative, and two are mixtures of those.
    bound : float
        Public bound of a value.
    seed : int
        Seed of the generator; the data are the same for the same seed (and scikit-learn).

    Returns
    -------
    X : ndarray of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,), of 0 and 1
    """
    from sklearn.datasets import make_classification

    informative = max(2, int(INFORMATIVE_SHARE * n_features))
    X, y = make_classification(
        n_samples=n_rows,
        n_features=n_features,
        n_informative=informative,
        n_redundant=min(2, n_features - informative),
        class_sep=2.0,
        random_state=seed,
    )
    np.clip(X, -bound, bound, out=X)
    return X, y.astype(np.int64)


def synthetic_high(
    n_rows: int = 5_000,
    n_features: int = 5_000,
    *,
    n_informative: int = 10,
    bound: float = HIGH_BOUND,
    seed: int = 1,
) -> Generated:
    """Synthetic-H: as many columns as rows, of which ten tell the classes apart.

    Size and sparsity are those of the set of this name in Iyengar et al. 2019 (5,000 × 5,000, ten
    columns that matter). Their published code draws it with scikit-learn's
    ``make_classification``: two classes of two normal clusters each, around corners of a cube with
    edges of length 4, one label in a hundred drawn at random, no redundant columns. Values beyond
    ``bound`` are cut; there are none in the set itself.

    Parameters
    ----------
    n_rows, n_features : int
        Size.
    n_informative : int
        Columns that matter.
    bound : float
        Public bound of a value.
    seed : int
        Seed of the generator; the data are the same for the same seed (and scikit-learn).

    Returns
    -------
    X : ndarray of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,), of 0 and 1
    """
    from sklearn.datasets import make_classification

    X, y = make_classification(
        n_samples=n_rows,
        n_features=n_features,
        n_informative=n_informative,
        n_redundant=0,
        class_sep=2.0,
        random_state=seed,
    )
    np.clip(X, -bound, bound, out=X)
    return X, y.astype(np.int64)


def plane(
    n_rows: int = 10_000, n_features: int = 20, *, flip: float = 0.05, seed: int = 0
) -> Generated:
    """Points of a cube on two sides of a plane, with some wrong labels.

    A direction u is drawn uniformly on the unit sphere; each feature is uniform in [-1, 1]; a
    row's label is whether x·u > 0, and is flipped with probability ``flip``, so that no model can
    be right more often than 1 - ``flip`` on average.

    Parameters
    ----------
    n_rows, n_features : int
        Size.
    flip : float
        Share of labels that are wrong.
    seed : int
        Seed of the generator; the data are the same for the same seed.

    Returns
    -------
    X : ndarray of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,), of 0 and 1
    """
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(n_features)
    X = rng.uniform(-1.0, 1.0, size=(n_rows, n_features))
    labels = X @ direction > 0
    labels ^= rng.random(n_rows) < flip
    return X, labels.astype(np.int64)


def sphere(
    n_rows: int = 10_000, n_features: int = 5, *, margin: float = 0.001, seed: int = 0
) -> Generated:
    """Points of a sphere on two sides of a plane, with a gap between them.

    The set of Hardwarsing 2018, after Song et al. 2013: 10,000 points of a sphere in five
    dimensions that a plane separates with margin 0.001. A hidden direction u is drawn uniformly;
    points are uniform on the unit sphere, those nearer to the plane than ``margin`` are drawn
    again, and a point's label is whether x·u > 0.

    Parameters
    ----------
    n_rows, n_features : int
        Size.
    margin : float
        Half the width of the gap, at least 0 and at most 0.5.
    seed : int
        Seed of the generator; the data are the same for the same seed.

    Returns
    -------
    X : ndarray of shape (n_rows, n_features), rows of norm 1
    y : ndarray of shape (n_rows,), of 0 and 1
    """
    if not 0 <= margin <= 0.5:
        raise ValueError(f"margin must be at least 0 and at most 0.5; got {margin}.")
    rng = np.random.default_rng(seed)
    direction = _unit(rng.standard_normal((1, n_features)))[0]
    X = np.empty((n_rows, n_features))
    wanted = np.arange(n_rows)
    while len(wanted):
        X[wanted] = _unit(rng.standard_normal((len(wanted), n_features)))
        wanted = wanted[np.abs(X[wanted] @ direction) < margin]
    return X, (X @ direction > 0).astype(np.int64)


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
