"""Fits on a Dask cluster of processes, one of which is killed."""

import os
import signal
import warnings

import numpy as np
import pandas as pd
import pytest

from discreet import Ledger, LogisticRegression, PrivacyError
from discreet.engines import open_table
from discreet.errors import EngineError

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")

pytestmark = pytest.mark.process

N, D = 20_000, 6
KILLED_AT = 5
SECRET = 31415.926


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) + 1
    return X, (X @ [2.0, -1.0, 1.0, 0.0, 0.5, 0.0] > 2.5).astype(int)


@pytest.fixture
def client():
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(**settings) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


class Killer:
    """Kills the worker that holds the most blocks at an iteration of a fit."""

    def __init__(self, client):
        self.client, self.calls, self.killed = client, 0, None

    def __call__(self, progress):
        self.calls += 1
        if self.calls == KILLED_AT:
            held, workers = self.client.has_what(), self.client.cluster.workers.values()
            worker = max(workers, key=lambda each: len(held.get(each.worker_address, ())))
            self.killed = worker.pid
            os.kill(worker.pid, signal.SIGKILL)


def fit(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def test_a_fit_goes_on_when_a_worker_is_killed(data, client):
    X, y = data
    settings = {"classes": [0, 1], "random_state": 0}
    expected = fit(LogisticRegression(**settings), X, y)
    lazy = da.from_array(X, chunks=(2500, D))
    whole = fit(LogisticRegression(**settings), lazy, y)
    np.testing.assert_allclose(whole.coef_, expected.coef_, rtol=1e-9)
    killer = Killer(client)
    ledger = Ledger().create("rows")
    model = LogisticRegression(progress=killer, ledger=ledger, **settings)
    fit(model, lazy, y)
    assert killer.killed is not None
    assert killer.calls > KILLED_AT
    assert ledger.entries == 1
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)


def unstable(block):
    """Return other rows in each process that reads them."""
    return block + os.getpid()


def test_a_source_that_gives_other_rows_is_refused(data, client):
    X, y = data
    lazy = da.from_array(X, chunks=(2500, D)).map_blocks(unstable, dtype=float)
    killer, ledger = Killer(client), Ledger().create("rows")
    settings = {"classes": [0, 1], "solver": "gd", "progress": killer, "ledger": ledger}
    with pytest.raises(PrivacyError, match="other rows"):  # of 50 iterations, many are left
        fit(LogisticRegression(**settings), lazy, y)
    assert killer.killed is not None
    assert ledger.entries == 1


def unordered(part):
    """Return half of the rows, in another order at each call: one person has 400 of all 800."""
    person = np.r_[np.zeros(400, int), np.arange(1, 401)][part::2]
    row = np.arange(800.0)[part::2]
    rows = pd.DataFrame({"own": person == 0, "row": row, "y": row % 7, "person": person})
    return rows.astype(float).sample(frac=1.0, random_state=np.random.default_rng())


def weighted(block):
    """Return Σ w·own of a block, and if the cells of each row are of one row."""
    return block.weights @ block.X[:, 0], bool(np.all(block.X[:, 1] % 7 == block.y))


@pytest.mark.parametrize("kind", ["frame", "array"])
def test_rows_without_an_order_stay_together(client, kind):
    frame = dd.from_map(unordered, range(2), meta=unordered(0)[:0])
    if kind == "frame":
        tables = frame[["own", "row"]], frame["y"], frame["person"]
    else:
        rows = frame.to_dask_array()
        tables = rows[:, :2], rows[:, 2], rows[:, 3]
    table = open_table(*tables)
    parts = [result for _, result in table.engine.map(weighted, table.parts)]
    assert all(together for _, together in parts)
    assert sum(own for own, _ in parts) == pytest.approx(1.0, rel=1e-6)


def test_rows_without_an_order_that_are_read_apart_are_refused(client):
    frame = dd.from_map(unordered, range(2), meta=unordered(0)[:0])
    X, y = frame[["own", "row"]].to_dask_array(), frame["y"].to_dask_array()
    with pytest.raises(PrivacyError, match="from one dataframe"):
        open_table(X, y)


def test_rows_that_cannot_be_read_again_stop_the_fit(data, client):
    X, y = data
    parts = client.scatter([X[:2500], X[2500:]])  # no graph: what is lost is lost
    lazy = da.concatenate(
        [
            da.from_delayed(dask.delayed(part), part_of.shape, dtype=float)
            for part, part_of in zip(parts, (X[:2500], X[2500:]), strict=True)
        ]
    )
    table = open_table(lazy, y)

    for worker in list(client.cluster.workers.values()):
        os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(EngineError, match="stays spent"):
        table.rows()


def test_no_log_shows_a_cell(data, client, capfd):
    X, y = data
    bad = X.copy()
    bad[7, 3] = np.nan
    bad[8, 3] = SECRET
    with pytest.raises(ValueError, match="finite"):
        fit(LogisticRegression(classes=[0, 1]), da.from_array(bad, chunks=(2500, D)), y)
    labels = y.astype(object)
    labels[9] = str(SECRET)
    with pytest.raises(ValueError, match="classes"):
        fit(LogisticRegression(classes=[0, 1]), da.from_array(X, chunks=(2500, D)), labels)
    logs = str(client.get_worker_logs()) + str(client.get_scheduler_logs())
    output = capfd.readouterr()
    assert str(SECRET) not in logs + output.out + output.err


def test_blocks_stay_where_they_are(data, client):
    X, y = data
    table = open_table(da.from_array(X, chunks=(2500, D)), y)
    rows = table.rows()
    where = client.who_has([part.value for part in rows.parts])
    assert all(len(workers) == 1 for workers in where.values())
    assert len({workers[0] for workers in where.values()}) == 2
