"""A plain, slow reference for the sums, and tables in every layout that rows accept."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.objectives import Hinge, Huber, HuberHinge, Logistic, Pinball, Poisson, Squared

LOSSES = [Logistic(), Hinge(), HuberHinge(), Huber(0.7), Squared(), Poisson(0.8), Pinball(0.3)]
LAYOUTS = ["C", "F", "float32", "strided", "reversed", "read-only", "memmap", "float32-F"]
LAYOUTS += ["csr-int32", "csr-int64", "csr-float32", "csr-matrix"]

# Pairs instead of products: every layout with one loss, every loss with a dense and a sparse table.
LAYOUTS_AND_LOSSES = [(layout, Logistic()) for layout in LAYOUTS]
LAYOUTS_AND_LOSSES += [(layout, loss) for layout in ("C", "csr-int32") for loss in LOSSES[1:]]


class Reference:
    """The sums, written as their definitions, one row after the other."""

    def __init__(self, X, y, fit_intercept=True, row_norm=None):
        X = X.toarray() if sp.issparse(X) else np.asarray(X)
        self.rows = []
        for x in X.astype(np.float64):
            norm = math.sqrt(math.fsum(v * v for v in x))
            if row_norm is not None and norm > row_norm:
                x = x * (row_norm / norm)
            self.rows.append(np.append(x, 1.0) if fit_intercept else x)
        self.targets = np.asarray(y, dtype=float)

    def margins(self, weights):
        return np.array([math.fsum(x * weights) for x in self.rows])

    def gradient_sum(self, weights, loss, clip):
        total = np.zeros(len(weights))
        for x, y in zip(self.rows, self.targets, strict=True):
            gradient = float(loss.derivative(math.fsum(x * weights), y)) * x
            norm = np.linalg.norm(gradient)
            total += gradient if norm <= clip else gradient * (clip / norm)
        return total

    def line_losses(self, weights, direction, steps, loss, clip):
        totals = []
        for step in steps:
            margins = self.margins(weights - step * direction)
            totals.append(sum(np.minimum(loss.value(margins, self.targets), clip)))
        return np.array(totals)


def layout_of(name, X, folder):
    """Return X in another layout (values may be rounded to float32)."""
    match name:
        case "C":
            return X.copy()
        case "F":
            return np.asfortranarray(X)
        case "float32":
            return X.astype(np.float32)
        case "float32-F":
            return np.asfortranarray(X, dtype=np.float32)
        case "strided":
            wide = np.full((2 * X.shape[0], 3 * X.shape[1]), np.nan)
            wide[::2, ::3] = X
            return wide[::2, ::3]
        case "reversed":
            return X[::-1, ::-1].copy()[::-1, ::-1]
        case "read-only":
            X = X.copy()
            X.flags.writeable = False
            return X
        case "memmap":
            np.save(folder / "table.npy", X)
            return np.load(folder / "table.npy", mmap_mode="r")
        case "csr-int32":
            return sp.csr_array(X)
        case "csr-int64":
            out = sp.csr_array(X)
            out.indices, out.indptr = out.indices.astype(np.int64), out.indptr.astype(np.int64)
            return out
        case "csr-float32":
            return sp.csr_array(X.astype(np.float32))
        case "csr-matrix":
            return sp.csr_matrix(X)
    raise AssertionError(name)


@pytest.fixture(scope="module", autouse=True)
def small_tiles():
    """Give tables of tests several tiles, and copied ones several blocks, as large ones have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("discreet.rows.table.TILE_ENTRIES", 2**9)
        yield


@pytest.fixture(scope="session")
def reference():
    return Reference


@pytest.fixture(scope="session")
def to_layout(tmp_path_factory):
    """A function of the name of a layout and a table."""
    return lambda name, X: layout_of(name, X, tmp_path_factory.mktemp("table"))


@pytest.fixture(params=LAYOUTS)
def make_layout(request, tmp_path):
    """A function that puts a table into one of the layouts."""
    return lambda X: layout_of(request.param, X, tmp_path)


@pytest.fixture(params=LOSSES, ids=lambda loss: loss.name)
def loss(request):
    return request.param


@pytest.fixture(params=LAYOUTS_AND_LOSSES, ids=lambda pair: f"{pair[0]}-{pair[1].name}")
def layout_and_loss(request, tmp_path):
    """A function that puts a table into a layout, and a loss."""
    layout, loss = request.param
    return lambda X: layout_of(layout, X, tmp_path), loss


@pytest.fixture(scope="session")
def small_table():
    """A table with zeros, long rows and an empty row, and targets ±1."""
    generator = np.random.default_rng(7)
    X = generator.standard_normal((201, 11)) * generator.choice([0.1, 1, 5], (201, 1))
    X[generator.random(X.shape) < 0.5] = 0
    X[3] = 0
    return X, np.where(generator.random(201) < 0.4, -1.0, 1.0)
