"""Constants of proofs: one home each, tied to what the code does."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet.objectives import Logistic, Softmax
from discreet.rows import AffineMap, as_rows, bounds
from discreet.rows.sums import gradient_sum
from discreet.rows.table import LOSS_KERNELS

SOURCES = Path(discreet.__file__).parent
# Numbers that proofs rest on. Packages that must take them from bounds.py:
OWN = (bounds.BLOCK_ROWS, *(2.0**k for k in (-53, -500, -800, -900, -1000, -48)), 2.0**1000)
PACKAGES = ("rows", "objectives", "exact")


def constants(path):
    """Yield numbers of a file: literals, and powers of literals."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            try:
                yield eval(compile(ast.Expression(node), "constant", "eval"), {}, {})
            except NameError:
                continue
        elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            yield node.value


def test_constants_of_proofs_have_one_home():
    found = {
        (path.relative_to(SOURCES).as_posix(), value)
        for package in PACKAGES
        for path in (SOURCES / package).rglob("*.py")
        for value in constants(path)
        if value in OWN
    }
    elsewhere = {(name, value) for name, value in found if name != "rows/bounds.py"}
    assert elsewhere == set()
    assert {value for name, value in found if name == "rows/bounds.py"} == set(OWN)


@pytest.mark.parametrize("n_rows", [1, 4096, 10**6, 10**9])
def test_a_descents_error_covers_its_sums(n_rows):
    """outpert.md: the mean of gradients, in the blocks that sums over rows really have."""
    allowed = bounds.descent_error(10, 2.0)
    assert allowed >= bounds.gradient_error(n_rows, bounds.BLOCK_ROWS, 2.0) / n_rows
    wide = bounds.descent_error(9001, 2.0)  # sparse tables have blocks of max(B, d) rows
    assert wide >= bounds.gradient_error(n_rows, max(bounds.BLOCK_ROWS, 9000), 2.0) / n_rows
    assert allowed == 4 * (bounds.BLOCK_ROWS + 128 + 26) * 2.0**-53 * 2.0


@pytest.mark.parametrize(("name", "loss"), [("gradient", Logistic()), ("output", Softmax(3))])
def test_blocks_are_as_large_as_bounds_say(name, loss, monkeypatch):
    """The bound of a sum is that of blocks of BLOCK_ROWS, and tables use such blocks."""
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((9000, 2)), generator.integers(0, 2, 9000).astype(float)
    rows, weights = as_rows(X, y), generator.standard_normal(3 * loss.n_outputs)
    assert rows.table.block_rows == bounds.BLOCK_ROWS
    name = "gradient" if name == "gradient" else "output_gradient"
    found, kernel = [], getattr(LOSS_KERNELS, name)

    def kept(*arguments):
        kernel(*arguments)
        found.append(arguments[-1].copy())

    monkeypatch.setattr(LOSS_KERNELS, name, kept)
    total = gradient_sum(rows, weights, loss, 1.0)
    assert total.error == bounds.gradient_error(9000, bounds.BLOCK_ROWS, 1.0)
    (sums,) = found
    assert len(sums) == 3
    for values, start in zip(sums, range(0, 9000, 4096), strict=True):
        at = slice(start, start + 4096)
        alone = gradient_sum(as_rows(X[at], y[at]), weights, loss, 1.0).values
        np.testing.assert_array_equal(values.ravel(), alone)


@pytest.mark.parametrize("layout", ["C", "F", "float32", "csr-int32"])
def test_every_entry_counts_in_norms_and_margins_whatever_the_width(layout, to_layout):
    generator, huge = np.random.default_rng(3), 2.0 ** (100 if layout == "float32" else 600)
    for width in range(1, 26):
        X = generator.standard_normal((7, width)).astype(np.float32).astype(np.float64)
        weights, units = generator.standard_normal(width), 2.0 ** (np.arange(width) % 5)
        rows = as_rows(to_layout(layout, X), np.ones(7), fit_intercept=False)
        far = as_rows(to_layout(layout, X * huge), np.ones(7), fit_intercept=False)
        map = AffineMap.to_norm(99.0, width).then(units)
        mapped = rows.with_row_norm(99.0).transformed(map, fit_intercept=False)
        np.testing.assert_allclose(rows.margins(weights), X @ weights, rtol=1e-12, atol=1e-12)
        for found, table in (
            (rows.norms(), X),
            (far.norms() / huge, X),
            (rows.with_units(units).norms(), X * units),
            (mapped.norms(), X * units),
        ):
            exact = np.array([math.sqrt(math.fsum(row * row)) for row in table])
            assert (found >= exact).all()
            np.testing.assert_allclose(found, exact, rtol=1e-3)
