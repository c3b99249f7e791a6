"""Parts of a table in threads give what the whole gives, up to rounding within the bound."""

import numpy as np
import pytest
import scipy.sparse as sp

from discreet.objectives import Hinge, Logistic
from discreet.rows import as_rows
from discreet.rows import table as tables
from discreet.rows.sums import gradient_sum, line_losses


@pytest.fixture
def split_everything(monkeypatch):
    monkeypatch.setattr(tables, "ENTRIES_WORTH_A_THREAD", 1)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")


def sums(X, y, loss):
    rows = as_rows(X, y)
    w = np.linspace(-1, 1, rows.n_parameters)
    gradient = gradient_sum(rows, w, loss, 3.0)
    losses = line_losses(rows, w, w[::-1], np.linspace(0, 2, 21), loss, 3.0)
    return rows.margins(w), gradient, losses


@pytest.mark.parametrize("make", [np.ascontiguousarray, np.asfortranarray, sp.csr_array])
@pytest.mark.parametrize("loss", [Logistic(), Hinge()])
@pytest.mark.parametrize("n", [1, 4096, 20_000])
def test_threads_change_nothing_that_matters(make, loss, n, request):
    rng = np.random.default_rng(0)
    X = make(rng.normal(size=(n, 7)))
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    margins, gradient, losses = sums(X, y, loss)
    request.getfixturevalue("split_everything")
    again, gradient_again, losses_again = sums(X, y, loss)
    assert np.array_equal(margins, again)  # a row's margin is its own, to the last bit
    distance = np.linalg.norm(gradient.values - gradient_again.values)
    assert distance <= gradient.error + gradient_again.error
    assert np.abs(losses.values - losses_again.values).max() <= losses.error + losses_again.error


def test_parts_cover_all_rows_once(split_everything):
    for n in (1, 10, 11, 12, 100):
        seen = tables.in_parts(lambda at: list(range(at.start, at.stop)), n, 10**9, block_rows=4)
        assert [i for part in seen for i in part] == list(range(n))


def test_an_error_in_a_thread_reaches_the_caller(split_everything):
    def work(at):
        if at.start:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tables.in_parts(work, 100, 10**9, block_rows=4)


def test_small_tables_are_not_split(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert len(tables.in_parts(lambda at: 0, 1000, 1000, 4)) == 1


def test_the_environment_limits_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert tables.threads() == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert tables.threads() >= 1
