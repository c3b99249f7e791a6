"""The guard against regressions: what turns it red, and how rarely it does so by chance."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from discreet import LogisticRegression
from discreet_bench import guard
from discreet_bench.guard import Line, measure, worse
from discreet_bench.runs import read, stamped

REPEATS = 6


class Clock:
    """A clock that only planned work moves."""

    def __init__(self):
        self.now = 0.0

    def process_time(self):
        return self.now

    def perf_counter(self):
        return self.now

    def advance(self, seconds):
        self.now += seconds


@pytest.fixture(scope="module")
def clock():
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "time", clock)
        patch.setattr(guard, "reference", lambda: clock.advance(1.0))
        yield clock


def few_rows(seed):
    return guard.two_classes(seed, 1_200, 4)


def line(clock, *, sign=1, slower=1.0, extra=0, error=None, name="line"):
    """A small fit with a planted loss."""

    class Planted(LogisticRegression):
        def fit(self, X, y):
            if error:
                raise ValueError(error)
            clock.advance(3.0 * slower)
            np.ones(extra)
            super().fit(X, y)
            self.coef_ = sign * self.coef_
            return self

    settings = {"solver": "gd", "data_norm": 2.0, "classes": [0, 1]}
    return Line(name, few_rows, Planted, epsilon=4.0, settings=settings)


def red(table):
    return set(table.loc[table["worse"], "measure"])


@pytest.fixture(scope="module")
def before(clock):
    return measure([line(clock)], REPEATS)


def test_nothing_is_red_if_nothing_changed(clock, before):
    table = worse(before, measure([line(clock)], REPEATS))
    assert red(table) == set()
    assert set(table["measure"]) == {"accuracy", "seconds", "peak_mb"}
    np.testing.assert_allclose(np.exp(table.set_index("measure").loc["seconds", "before"]), 3.0)


def test_fits_have_one_thread_whatever_the_environment_says(clock):
    from threadpoolctl import threadpool_info, threadpool_limits

    seen = []

    class Watched(LogisticRegression):
        def fit(self, X, y):
            seen.extend(pool["num_threads"] for pool in threadpool_info())
            return super().fit(X, y)

    watched = Line("line", few_rows, Watched, settings={"solver": "gd", "data_norm": 2.0})
    with threadpool_limits(2):
        measure([watched], 1)
    assert set(seen) == {1}


@pytest.mark.parametrize(
    ("planted", "measures"),
    [
        ({"sign": -1}, {"accuracy"}),
        ({"slower": 1.6}, {"seconds"}),
        ({"extra": 2**20}, {"peak_mb"}),
        ({"error": "no"}, {"accuracy", "seconds", "peak_mb"}),
        ({"slower": 1.4, "extra": 100}, set()),  # within the tolerances
        ({"slower": 0.5}, set()),  # an improvement
    ],
)
def test_a_planted_loss_is_red(clock, before, planted, measures):
    table = worse(before, measure([line(clock, **planted)], REPEATS))
    assert red(table) == measures
    if "error" in planted:
        assert set(table["problem"]) == {"ValueError: no"}


def test_better_scores_are_not_red(clock, before):
    assert red(worse(measure([line(clock, sign=-1)], REPEATS), before)) == set()


def test_a_line_that_is_gone_is_red_and_a_new_one_is_left_out(clock, before):
    other = measure([line(clock, name="other")], REPEATS)
    table = worse(before, other)
    assert table["worse"].all()
    assert {name.split("|")[0] for name in table["line"]} == {"line"}


def made(rng, loss, slower, lines=10, repeats=20):
    rows = [
        {
            "experiment": "guard", "data": "d", "n": 10, "relation": "add_remove", "epsilon": 1.0,
            "delta": 1e-6, "repeat": repeat, "seed": repeat, "method": f"line {k}",
            "variant": "private", "tuning": "default", "problem": "",
            "accuracy": 0.9 - loss + 0.01 * rng.standard_normal(),
            "seconds": slower * 3 * np.exp(0.1 * rng.standard_normal()),
        }
        for k in range(lines)
        for repeat in range(repeats)
    ]  # fmt: skip
    return stamped(pd.DataFrame(rows))


def test_losses_at_the_tolerance_are_called_worse_no_more_often_than_stated():
    """False-alarm probability of this test: 1e-6 per measure."""
    rng, lines = np.random.default_rng(0), 150
    allowed = guard.TOLERANCES
    after = made(rng, allowed["accuracy"], allowed["seconds"], lines)
    table = worse(made(rng, 0.0, 1.0, lines), after)
    for _, found in table.groupby("measure"):
        alarms = int((found["p_value"] < 0.05).sum())
        assert 0 < alarms <= stats.binom.isf(1e-6, lines, 0.05)
    level = guard.FALSE_ALARM / len(table)
    assert (table["worse"] == (table["p_value"] < level)).all()


def test_losses_beyond_the_tolerance_are_found():
    """A loss of 3 points, or 2.2 times the seconds, with 20 repeats, among ten lines."""
    rng = np.random.default_rng(1)
    table = worse(made(rng, 0.0, 1.0), made(rng, 0.03, 2.2))
    assert table["worse"].mean() > 0.9


def test_the_command_writes_a_reference_and_goes_red(clock, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    reference = ["--reference", str(tmp_path / "guard.parquet"), "--repeats", "4"]
    monkeypatch.setattr(guard, "SUITE", (line(clock),))
    assert guard.main(["--update", *reference]) == 0
    assert len(read(tmp_path / "guard.parquet")) == 4
    assert guard.main(reference) == 0
    assert "0 of 3 measurements got worse" in capsys.readouterr().out
    monkeypatch.setattr(guard, "SUITE", (line(clock, slower=9.0),))
    assert guard.main(reference) == 1
    shown = capsys.readouterr().out
    assert "Measured again: line" in shown
    assert "WORSE" in shown
    monkeypatch.setattr(guard, "SUITE", (line(clock, error="no"),))
    with pytest.raises(SystemExit, match="Nothing was written: ValueError: no"):
        guard.main(["--update", *reference])


def test_the_committed_reference_has_every_line_of_the_suite():
    runs = read(guard.REFERENCE)
    assert set(runs["method"]) == {line.name for line in guard.SUITE}
    assert (runs.groupby("method").size() == guard.REPEATS).all()
    assert guard.REFERENCE.stat().st_size < 100_000
