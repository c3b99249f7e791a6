"""The summary of kept runs: each problem once, every guarantee counted, papers beside ours."""

import pandas as pd
import pytest

from discreet_bench import summary
from discreet_bench.runs import write

from .frames import frame, repeated, together

AUTO = {"method": "auto", "calibration": ""}


def compared(auto, other, **columns):
    return together(repeated(auto, **AUTO, **columns), repeated(other, **columns))


def test_a_problem_that_experiments_share_counts_once():
    problem = {"loss": "logistic", "delta": 1e-9}
    one = compared([0.9, 0.9, 0.91], [0.8, 0.81, 0.8], experiment="amp-fig1", **problem)
    again = one.assign(experiment="auto-table")
    elsewhere = compared([0.7, 0.7, 0.7], [0.8, 0.8, 0.8], experiment="amp-fig2", epsilon=0.1)
    sweep = compared([0.1, 0.1, 0.1], [0.8, 0.8, 0.8], experiment="dpagd-fig1", epsilon=0.2)
    board = summary.comparisons(together(one, again, elsewhere, sweep))
    assert sorted(board["epsilon"]) == [0.1, 1.0]
    text = summary.rank_text(board)
    assert "the best private method in 1 of 2 comparisons (50.0%)" in " ".join(text.split())
    assert "By ε: 0 of 1 at 0.1, 1 of 1 at 1." in " ".join(text.split())
    assert "| adult | logistic | add_remove | 0.1 | 70.00 | DP-AGD 80.00 | 10.00 |" in text
    assert "most frequent class" not in text


def test_guesses_are_counted_apart():
    learned = compared([0.9, 0.9], [0.8, 0.8], experiment="amp-fig1")
    guessed = compared([0.5, 0.5], [0.51, 0.51], experiment="amp-fig1", epsilon=0.01)
    most = {"method": "majority", "calibration": "", "variant": "not private"}
    constants = [
        repeated([0.5, 0.5], experiment="amp-fig1", epsilon=epsilon, **most)
        for epsilon in (1.0, 0.01)
    ]
    text = " ".join(
        summary.rank_text(summary.comparisons(together(learned, guessed, *constants))).split()
    )
    assert "in 1 of 2 comparisons (50.0%)" in text
    assert "In 1 of them the best private method is at least 2 points above" in text
    assert "the default is the best in 1 of these (100.0%)" in text


def test_the_huber_hinge_competes_with_the_hinge_it_replaces():
    auto = repeated([0.9, 0.9], experiment="dpagd-fig3", loss="hinge", **AUTO)
    other = repeated([0.8, 0.8], experiment="dpagd-fig3", loss="huber-hinge", method="objpert")
    board = summary.comparisons(together(auto, other))
    assert list(board["loss"]) == ["hinge"]
    apart = summary.comparisons(together(auto, other).assign(experiment="amp-fig3"))
    assert apart.empty
    assert "No comparison" in summary.rank_text(apart)


def test_regression_is_compared_by_r2():
    rows = together(
        frame(experiment="outpert-table3", classes=0, loss="huber", r2=[0.5, 0.5], repeat=[0, 1],
              **AUTO),
        frame(experiment="outpert-table3", classes=0, loss="huber", r2=[0.6, 0.61], repeat=[0, 1],
              method="outpert"),
    )  # fmt: skip
    (margin,) = summary.comparisons(rows)["auto_margin"]
    assert margin == pytest.approx(-0.105)


def test_guarantees_are_counted_by_what_was_recomputed():
    rows = together(
        frame(epsilon=1.0, epsilon_recomputed=[0.99, 1.0005, 1.2, None], repeat=[0, 1, 2, 3]),
        frame(variant="as released", epsilon_recomputed=3.0),
        frame(variant="not private", method="nonprivate"),
        frame(problem="refused: true ε = 2", method="sgd"),
        frame(problem="spent too much: 2", variant="not private", method="amp"),
    )
    text = " ".join(summary.guarantees(rows).split())
    assert text.startswith("Of 8 lines, 4 are private. The ε of 3 of these was recomputed, and 2 ")
    assert "1 lines have published constants" in text
    assert "in 1 the library refused" in text
    assert "1 runs spent more" in text


def test_lines_of_two_states_of_the_code_are_told_apart():
    older = compared([0.9], [0.8], experiment="amp-fig1", when="2026-11-16T10:00:00")
    newer = repeated([0.9], **AUTO, experiment="amp-fig2", when="2026-11-17T10:00:00", code="abc")
    text = summary.states(together(newer, older))
    assert text.splitlines()[2:] == [
        "| not recorded | 2026-11-16 | 2 | 1 | amp-fig1 |",
        "| `abc` | 2026-11-17 | 1 | 1 | amp-fig2 |",
    ]


def test_the_page_is_made_from_the_runs_alone(tmp_path):
    setting = {"experiment": "amp-fig1", "relation": "replace_one", "epsilon": 0.1, "form": "paper"}
    rows = together(
        repeated([0.786, 0.788, 0.787, 0.787], method="amp-hf", calibration="published", **setting),
        repeated([0.80, 0.81, 0.80, 0.81], method="amp-hf", **setting),
        repeated([0.71, 0.72, 0.71, 0.72], method="amp", calibration="published", **setting),
        repeated([0.60, 0.61, 0.60, 0.61], method="sgd", calibration="published", **setting),
        repeated([0.9, 0.9, 0.9, 0.9], method="amp", calibration="published",
                 difference="with intercept", **setting),
    )  # fmt: skip
    older = repeated([0.5, 0.5], experiment="dpagd-fig2")
    write(together(rows, older), tmp_path / "runs.parquet")
    times = {"experiment": ["amp-fig1"], "form": ["paper"], "runs": [4], "made": [4],
             "seconds": [1200], "processor_seconds": [7], "left_out": ["rcv1"]}  # fmt: skip
    parts = [times, times | {"form": ["paper auto"], "made": [2], "left_out": ["rcv1"]}]
    pd.concat(map(pd.DataFrame, parts)).to_csv(tmp_path / "times.csv", index=False)
    for name in ("amp-fig1.svg", "amp-fig1-variants.svg", "amp-fig2.svg"):
        (tmp_path / name).touch()
    page = tmp_path / "page.md"
    summary.main([str(tmp_path), "--write", str(page)])
    text = page.read_text()
    assert "| amp-fig1 | 20 | 6 | 2,400 | 14 | rcv1 |" in text
    assert "| adult | H-F AMP | 0.1 | 78.7 | 78.7 ± 0.1 | 4 | agrees | 80.5 ± 0.9 |" in text
    assert "differs by -7.6 ± " in text  # AMP, 71.5 for 79.1
    assert "| AMP, published constants, with intercept | **90.0 ± 0.0** | 4 |" in text
    assert "AMP is at least as accurate" in text
    assert "| adult | 0.1 | P-SGD, published constants | +11.0 ± 0.0 | 4 | reproduced |" in text
    assert text.count(".svg)") == 1
    assert "](../bench/results/amp-fig1.svg)" in text
    assert "Without lines so far: synthetic-l, kddcup99," in text
    flat = " ".join(text.split())
    assert "`dpagd-fig2`" in flat.split("lines of an older form,")[1]
    assert "discreet bench run dpagd-fig2 --paper \\\n        --into" in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 100
