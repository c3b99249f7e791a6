"""Constants of proofs: one home each, tied to what the code does."""

import ast
import math
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet.objectives import Logistic
from discreet.rows import AffineMap, as_rows, bounds
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


def test_blocks_are_as_large_as_bounds_say(monkeypatch):
    """The bound of a sum is that of blocks of BLOCK_ROWS, and tables use such blocks."""
    rows = as_rows(np.ones((9000, 2)), np.ones(9000))
    assert rows.table.block_rows == bounds.BLOCK_ROWS
    sizes, gradient = [], LOSS_KERNELS.gradient

    def counted(code, parameter, part, *rest):
        sizes.append(len(part[0]))
        gradient(code, parameter, part, *rest)

    monkeypatch.setattr(LOSS_KERNELS, "gradient", counted)
    total = rows.gradient_sum(np.zeros(3), Logistic(), 1.0)
    assert sizes == [4096, 4096, 808]
    assert total.error == bounds.gradient_error(9000, bounds.BLOCK_ROWS, 1.0)


@pytest.mark.parametrize("layout", ["C", "F", "float32", "csr-int32"])
def test_every_entry_counts_in_norms_and_margins_whatever_the_width(layout, to_layout):
    generator, huge = np.random.default_rng(3), 2.0 ** (100 if layout == "float32" else 600)
    for width in range(1, 26):
        X = generator.standard_normal((7, width)).astype(np.float32).astype(np.float64)
        weights, units = generator.standard_normal(width), 2.0 ** (np.arange(width) % 5)
        rows = as_rows(to_layout(layout, X), np.ones(7), fit_intercept=False)
        far = as_rows(to_layout(layout, X * huge), np.ones(7), fit_intercept=False)
        map = AffineMap.to_norm(99.0, width).scaled(units)
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
