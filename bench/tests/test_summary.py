"""The summary of kept runs: each problem once, every guarantee counted, papers beside ours."""

import pandas as pd
import pytest

from discreet_bench import summary
from discreet_bench.lines import named
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


def test_published_numbers_are_beside_ours():
    setting = {"experiment": "amp-fig1", "relation": "replace_one", "epsilon": 0.1, "method": "amp"}
    rows = together(
        repeated([0.77, 0.79], calibration="published", **setting),
        repeated([0.80, 0.81], **setting),
        repeated([0.82, 0.84], tuning="grid", setting='{"norm": 10.0}', **setting),
        repeated([0.50, 0.52], tuning="grid", setting='{"norm": 0.1}', **setting),
        repeated([0.99, 0.99], **setting | {"relation": "add_remove"}),
    )
    table = summary.published_table(named(rows), "amp-fig1")
    assert "| adult | 0.1 | AMP | 79.1 | 78.0 | 80.5 | 83.0 |" in table
    where = {
        "experiment": "outpert-table3",
        "relation": "replace_one",
        "epsilon": 0.1,
        "alpha": 0.1,
    }
    one = [
        frame(method=method, calibration=kind, excess_objective=excess, **where)
        for method, kind, excess in (("sgd-adv", "published", 3.0), ("sgd", "tight", 0.001))
    ]
    table = summary.published_table(named(together(*one)), "outpert-table3")
    assert "| adult, penalty 0.1 | 0.1 | SGD-Adv | 5.22 | 3 | 0.001 |  |" in table
    released = rows.assign(
        variant=rows["variant"].where(rows["calibration"] == "tight", "as released")
    )
    assert "| 78.0 ‡ | 80.5 |" in summary.published_table(named(released), "amp-fig1")


def test_all_methods_of_an_experiment_are_in_one_table():
    where = {"experiment": "dpagd-fig4", "data": "kddcup99 (20,000 rows)"}
    rows = together(
        repeated([0.9, 0.92], **AUTO, **where, loss="logistic", epsilon=0.1),
        repeated([0.8, 0.82], **where, loss="logistic", epsilon=0.1),
        repeated([0.95, 0.97], **where, loss="hinge", epsilon=0.1),
        repeated([0.6, 0.6], **where, loss="huber-hinge", epsilon=0.1, method="objpert"),
        repeated([0.99, 0.99], tuning="grid", **where, loss="logistic", epsilon=0.1),
        repeated([0.5, 0.5], **where, loss="logistic", epsilon=0.1, relation="replace_one"),
        repeated([0.5, 0.5], **where, loss="logistic", epsilon=0.2),
    )
    text = summary.methods_table(rows, "dpagd-fig4", "add_remove", (0.1,))
    assert text.splitlines() == [
        "| method | kddcup99, logistic 0.1 | kddcup99, hinge 0.1 |",
        "|---|---:|---:|",
        "| discreet | **91.0** | – |",
        "| DP-AGD | 81.0 | **96.0** |",
        "| ObjPert | – | 60.0 |",
        "| DP-AGD, tuned with hindsight, not private | 99.0 | – |",
    ]
    assert summary.methods_table(rows, "dpagd-fig2", "add_remove") == "Not run."


def test_only_what_is_between_markers_of_a_page_is_replaced(tmp_path):
    write(compared([0.9, 0.9], [0.8, 0.8], experiment="amp-fig1"), tmp_path / "runs.parquet")
    times = {"experiment": ["amp-fig1"], "form": ["medium"], "runs": [4], "made": [4],
             "seconds": [1200], "processor_seconds": [7], "left_out": ["rcv1"]}  # fmt: skip
    parts = [times, times | {"form": ["medium auto"], "made": [2], "left_out": ["rcv1"]}]
    pd.concat(map(pd.DataFrame, parts)).to_csv(tmp_path / "times.csv", index=False)
    page = tmp_path / "page.md"
    page.write_text("# Mine\n\n<!-- made: times -->\nold\n<!-- end -->\n\nText.\n")
    summary.main([str(tmp_path), "--write", str(page)])
    text = page.read_text()
    assert "old" not in text
    assert text.startswith("# Mine\n\n<!-- made: times -->\n\n| experiment |")
    assert "| amp-fig1 | 4 | 6 | 2,400 | 14 | rcv1 |" in text
    assert text.endswith("<!-- end -->\n\nText.\n")
