"""The regression suite: encodings, rows in a file, tables, and the cells that are not won."""

import numpy as np
import pytest

from discreet_bench import regression
from discreet_bench.auto import Split
from discreet_bench.records import append, mean_and_deviation, read, replace_block, write
from discreet_bench.regression import PUBLISHED, Run
from discreet_bench.tabular import Tabular


@pytest.fixture
def small():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(50, 5, 600), rng.standard_t(3, 600), rng.normal(size=600)])
    y = 0.1 * (X[:, 0] - 50) + X[:, 1] + 0.3 * rng.normal(size=600)
    return Tabular("airfoil", X, np.clip(y, -8, 8), (-8.0, 8.0))


def test_encoded_rows_keep_the_bounds_of_the_methods(small):
    split = Split.of(small, 0)
    rows = regression.encoded(split)
    norms = np.linalg.norm(rows.X, axis=1)
    assert norms.max() == pytest.approx(1)
    assert np.linalg.norm(rows.X_train, axis=1).max() > 1.5  # predictions scale nothing down
    assert np.abs(rows.y).max() <= 1
    weights = np.array([0.0, 0.0, 0.0, 0.5]) * 2  # the constant column is 1/√4
    np.testing.assert_allclose(rows.predictions(weights)[1], 0.5 * 8.0)


def test_folds_of_the_published_experiment(small):
    parts = [regression.published_fold(small, fold) for fold in range(10)]
    assert sum(len(split.y_test) for split, _ in parts) == 600
    for split, rows in parts:
        np.testing.assert_allclose(np.linalg.norm(rows.X, axis=1), 1.0)
        assert rows.X is split.X or np.array_equal(rows.X, split.X)
    every = np.concatenate([split.y_test for split, _ in parts])
    assert np.abs(every).max() == pytest.approx(1)
    assert every.mean() == pytest.approx(0, abs=1e-12)


def test_what_is_measured_and_what_is_done_already(small):
    methods = ["AdaSSP tight, encoded", "IHM, encoded", "least squares", "least squares, encoded"]
    runs = list(regression.measure(small, 2, (0.1, 1000.0), methods, set()))
    assert len(runs) == 2 * (2 + 2 + 1 + 1)
    by = {(run.method, run.epsilon): run for run in runs if run.seed == 0}
    plain = by["least squares", np.inf]
    assert plain.r2 > 0.8
    assert plain.excess == pytest.approx(0, abs=1e-9)
    assert by["AdaSSP tight, encoded", 1000.0].r2 == pytest.approx(
        by["least squares, encoded", np.inf].r2, abs=0.02
    )
    assert by["AdaSSP tight, encoded", 0.1].excess > by["AdaSSP tight, encoded", 1000.0].excess > 0
    assert by["AdaSSP tight, encoded", 0.1].true == pytest.approx(0.1)
    assert by["IHM, encoded", 0.1].true < 0.1
    done = {run.key for run in runs if run.seed == 0}
    again = list(regression.measure(small, 2, (0.1, 1000.0), methods, done))
    assert {run.seed for run in again} == {1}


def test_the_default_is_measured_with_its_guarantee_recomputed(small):
    runs = list(regression.measure(small, 1, (5.0,), ["discreet"], set(), "published"))
    (run,) = runs
    assert run.delta == regression.PUBLISHED_DELTA
    assert 4.5 < run.true <= 5.05
    assert run.r2 > 0.3


def made(method, r2, epsilon=1.0):
    return [
        Run("pol", "own", method, epsilon, seed, 1e-8, r2 + seed / 10, 0.1, 0.01, 0.1, 0.9)
        for seed in range(2)
    ]


def test_a_cell_in_which_a_rival_leads_is_listed():
    runs = [*made("discreet", 0.5), *made("IHM, encoded", 0.6), *made("AdaSSP, encoded", 0.1)]
    runs += [*made("discreet", 0.5, 0.1), *made("IHM, encoded", 0.2, 0.1)]
    text = regression.verdict(runs)
    assert text.startswith("The default is ahead of all four in 1 of 2 cells.")
    assert text.endswith("- pol, ε = 1: IHM, encoded leads by 0.100 ± 0.000.")
    line = next(line for line in regression.r2_table(runs).splitlines() if "discreet" in line)
    assert line == "| pol | discreet | **0.550 ± 0.071** | – | 0.550 ± 0.071 | – | – |"


def test_the_command_measures_and_fills_a_page(small, tmp_path, monkeypatch):
    monkeypatch.setattr(regression, "TABLES", {"airfoil": lambda: small})
    page, rows = tmp_path / "page.md", tmp_path / "rows.csv"
    names = ("r2 table", "excess table", "published table", "guarantee table")
    page.write_text("\n".join(f"<!-- {name} -->\n<!-- end of {name} -->" for name in names))
    asked = ["--seeds", "1", "--folds", "1", "--epsilons", "1", "--methods",
             "AdaSSP, encoded;least squares, encoded", "--rows", str(rows)]  # fmt: skip
    regression.main(asked)
    regression.main([*asked, "--page", str(page)])
    assert len(read(rows, Run)) == 1 + 1 + 2 + 1  # nothing twice
    text = page.read_text()
    assert f"| airfoil | 0.1 | {PUBLISHED['airfoil'][0]:.4f} |" in text
    assert "| airfoil | AdaSSP, encoded |" in text
    regression.main(
        [*asked[:-2], "--rows", str(rows), "--again", "AdaSSP, encoded", "--seeds", "0"]
    )
    assert {run.method for run in read(rows, Run)} == {"least squares, encoded"}


# -- rows in files


def test_rows_come_back_as_they_were(tmp_path):
    path = tmp_path / "folder" / "rows.csv"
    assert read(path, Run) == []
    runs = [*made("discreet", 0.5), *made("least squares", 0.25, np.inf)]
    for run in runs:
        append(path, run)
    assert read(path, Run) == runs
    write(path, runs[:1])
    assert read(path, Run) == runs[:1]


def test_a_page_without_the_marks_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold\n<!-- end of a -->\nafter\n")
    replace_block(page, "a", "new")
    assert page.read_text() == "before\n<!-- a -->\n\nnew\n\n<!-- end of a -->\nafter\n"
    with pytest.raises(ValueError, match=r"page\.md has no <!-- b -->"):
        replace_block(page, "b", "new")


def test_a_cell_has_mean_and_standard_deviation():
    assert mean_and_deviation([1.0, 2.0, 3.0], 2) == "2.00 ± 1.00"
    assert mean_and_deviation([1.0], 2) == "1.00"
    assert mean_and_deviation([], 2) == "–"
