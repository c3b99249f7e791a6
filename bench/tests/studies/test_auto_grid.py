"""The comparison of the default estimator with all published methods, on a tiny table."""

import dataclasses
import json

import numpy as np
import pytest
from benchmarks import auto_grid

from bench.studies.auto_grid import METHODS, VARIANTS, Fit, Log, Search, Table
from discreet.solvers import names, resolve

pytestmark = pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyLeakWarning")
CELL = ("tiny", 1.0, "add_remove")


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(2500, 3))
    return Table("tiny", X, (X[:, 0] + 0.1 * rng.normal(size=2500) > 0).astype(int), 3**0.5)


@pytest.fixture
def few_methods(monkeypatch):
    few = {name: METHODS[name] for name in ("majority", "objpert", "laplace-sgd")}
    monkeypatch.setattr(auto_grid, "METHODS", few)
    monkeypatch.setattr(auto_grid, "EPSILONS", (1.0, 0.4))
    monkeypatch.setattr(auto_grid, "ANCHORS", (1.0,))
    monkeypatch.setattr(auto_grid, "ROUNDS", 1)
    monkeypatch.setattr(auto_grid, "HALVES", (2,))
    monkeypatch.setattr(auto_grid, "FINALISTS", 1)


def test_every_method_is_searched_but_one_that_is_another():
    searched = {name.partition(",")[0] for name in METHODS}
    assert set(names()) - searched == {"auto", "gd", "newton", "nonprivate", "sgd-ma", "shrunk-gd"}
    sgd, moments = resolve("sgd"), resolve("sgd-ma")
    assert sgd.calibration == moments.calibration == "tight"
    assert dataclasses.asdict(sgd) == dataclasses.asdict(moments)


@pytest.mark.parametrize("axes", [*METHODS.values(), VARIANTS])
def test_the_search_starts_from_a_value_of_each_axis(axes):
    assert all(start in values for values, start in axes.values())


def test_a_search_is_resumed_and_reported(table, few_methods, tmp_path):
    path = tmp_path / "fits.csv"
    said = list(auto_grid.search([table], Log(path), "add_remove", 600.0))
    assert [line.split(":")[0] for line in said if "tiny" in line] == [
        "tiny, ε = 1",
        "tiny, ε = 0.4",
    ]
    log = Log(path)
    assert {fit.method for fit in log.select(epsilon=1.0)} == {"majority", "objpert", "laplace-sgd"}
    assert {fit.under for fit in log.select(method="laplace-sgd")} == {"replace_one"}
    assert {fit.under for fit in log.select(method="objpert")} == {"add_remove"}
    words, runs = auto_grid.best_of(log, data="tiny", epsilon=1.0, relation="add_remove")
    assert words.startswith("objpert (")
    assert sorted(runs) == [0, 1, 2]
    assert min(runs.values()) > 80  # majority has about 50
    Search(log, table, 1.0, "add_remove", 600.0).run()  # may climb further, but repeats nothing
    assert len({fit[:7] for fit in log.fits}) == len(log.fits)
    before = len(log.fits)
    auto_grid.defaults(table, log, "add_remove")
    auto_grid.defaults(table, log, "add_remove")
    assert len(Log(path).fits) == len(log.fits) == before + 6
    rows = [line for line in auto_grid.report(Log(path), "add_remove") if line.startswith("| tiny")]
    assert len(rows) == 2
    assert "hindsight" in next(auto_grid.report(log, "add_remove"))


def test_finalists_have_noise_of_their_own(table, few_methods, tmp_path):
    log = Log(tmp_path / "fits.csv")
    Search(log, table, 1.0, "add_remove", 600.0).run()
    final = next(fit for fit in log.select(stage="final") if fit.split == 0)
    (searched,) = log.select(stage="screen", setting=final.setting, split=0)
    assert final.accuracy != searched.accuracy


def test_without_time_nothing_but_one_figure_is_fitted(table, few_methods, tmp_path):
    log = Log(tmp_path / "fits.csv")
    search = Search(log, table, 1.0, "add_remove", 0.0)
    search.run()
    assert [(fit.method, fit.stage) for fit in log.fits] == [
        ("majority", "screen"),
        ("majority", "final"),
    ]
    assert search.skipped["the cell's time was over"] > 4


@pytest.mark.parametrize(("auto", "flagged"), [(80.6, True), (80.8, False), (85.0, False)])
def test_cells_below_the_best_are_listed(tmp_path, auto, flagged):
    log = Log(tmp_path / "fits.csv")
    setting = json.dumps({"loss": "logistic", "method": "objpert", "rows": "unit"})
    for split in range(3):
        log.add(Fit(*CELL, "auto", "auto", "{}", split, "add_remove", auto + split))
        log.add(Fit(*CELL, "final", "objpert", setting, split, "add_remove", 81.0 + split))
    lines = list(auto_grid.report(log, "add_remove"))
    (row,) = (line for line in lines if line.startswith("| tiny"))
    assert f"{auto - 81:+.2f}" in row
    assert ("below" in row) == flagged
    assert any(line.startswith("- tiny, ε = 1") for line in lines) == flagged


def test_methods_far_behind_at_all_neighbours_lose():
    def runs(**accuracies):
        return {json.dumps({"method": name}): {0: value} for name, value in accuracies.items()}

    near = [runs(a=80.0, b=76.0, c=76.0), runs(a=80.0, b=78.0, c=70.0)]
    assert [auto_grid.loses(name, near) for name in "abcd"] == [False, False, True, False]


def test_slow_fits_are_given_up_and_not_tried_again(table, few_methods, tmp_path, monkeypatch):
    class Endless:
        def fit(self, X, y):
            while True:
                pass

    log = Log(tmp_path / "fits.csv")
    setting = json.dumps({"method": "objpert"})
    fit = auto_grid.scored(Endless(), table, Fit(*CELL, "screen", "objpert", setting, 0), cap=0.01)
    assert fit.note == "over 0.01 s"
    assert np.isnan(fit.accuracy)
    log.add(fit)
    search = Search(log, table, 0.4, "add_remove", 600.0)
    search.run()
    assert not log.select(method="objpert", epsilon=0.4)
    assert search.skipped["objpert: it was too slow before"] > 0
    with pytest.raises(TimeoutError):  # the default estimator has no excuse
        auto_grid.scored(Endless(), table, fit._replace(stage="auto"), cap=0.01)
