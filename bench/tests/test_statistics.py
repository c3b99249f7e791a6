"""Grids are cut to their best, leaders are found, and changes are told from noise."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from discreet_bench.significance import holm, paired
from discreet_bench.statistics import (
    best_settings,
    compare,
    final,
    leaderboard,
    summary,
    with_parameter,
)

from .frames import frame, repeated, together

AUTO = "auto||private|default"
AGD = "agd||private|default"


def grid(accuracy, name, **columns):
    return repeated(accuracy, tuning="grid", setting=json.dumps({"splits": name}), **columns)


def test_a_grid_keeps_its_best_setting_and_other_lines_stay():
    runs = together(grid([0.7, 0.8], 1), grid([0.8, 0.9], 2), repeated([0.1, 0.2], setting="{}"))
    kept = best_settings(runs)
    assert list(kept["setting"]) == ['{"splits": 2}'] * 2 + ["{}"] * 2
    assert set(kept["line"]) == {"agd||private|grid", AGD}


def test_a_setting_with_fewer_results_is_never_chosen():
    lucky = grid([0.99, np.nan], 1, problem=["", "ValueError: no"])
    assert set(best_settings(together(lucky, grid([0.6, 0.6], 2)))["setting"]) == {'{"splits": 2}'}
    fewer = grid([0.99], 1)
    assert set(best_settings(together(fewer, grid([0.6, 0.6], 2)))["setting"]) == {'{"splits": 2}'}


def test_ties_go_to_the_first_setting_and_failures_are_kept():
    tied = together(grid([0.6, 0.6], 2), grid([0.6, 0.6], 1))
    assert set(best_settings(tied)["setting"]) == {'{"splits": 1}'}
    broken = together(grid([np.nan], 2, problem="no"), grid([np.nan], 1, problem="no"))
    assert list(best_settings(broken)["setting"]) == ['{"splits": 1}']


def test_each_problem_chooses_for_itself():
    runs = together(
        grid([0.7], 1, epsilon=0.1), grid([0.6], 2, epsilon=0.1),
        grid([0.7], 1, epsilon=1.0), grid([0.8], 2, epsilon=1.0),
        grid([0.7], 1, alpha=0.5), grid([0.6], 2, alpha=0.5),
    )  # fmt: skip
    kept = best_settings(runs)
    assert list(kept["accuracy"]) == [0.7, 0.8, 0.7]


def test_a_measure_that_is_better_low_and_regressions_without_accuracy():
    runs = together(
        frame(tuning="grid", setting='{"a": 1}', objective=0.5, classes=0, loss="huber"),
        frame(tuning="grid", setting='{"a": 2}', objective=0.4, classes=0, loss="huber"),
    )
    assert list(best_settings(runs)["objective"]) == [0.4]
    assert list(best_settings(runs, "objective")["objective"]) == [0.4]


def test_of_several_looks_the_last_decides_and_all_stay():
    early = {"setting": '{"a": 1}', "tuning": "grid", "at": [1.0, 2.0]}
    late = {"setting": ['{"a": 2, "updates": 1}', '{"a": 2, "updates": 2}'], "tuning": "grid"}
    runs = together(
        frame(accuracy=[0.99, 0.5], **early), frame(accuracy=[0.1, 0.6], at=[1.0, 2.0], **late)
    )
    assert list(best_settings(runs)["accuracy"]) == [0.1, 0.6]
    assert list(final(runs)["accuracy"]) == [0.5, 0.6]
    assert list(final(frame(at=[1.0, 9.0, np.nan], accuracy=[0.1, 0.2, 0.3]))["accuracy"]) == [0.3]


def test_parameters_become_columns():
    runs = frame(setting=['{"splits": 20}', "{}", '{"splits": 60}'])
    splits = with_parameter(runs, "splits")["splits"]
    assert splits[[0, 2]].tolist() == [20, 60]
    assert splits[1] == 60  # the solver's default
    assert pd.isna(with_parameter(frame(method="majority"), "splits")["splits"][0])
    assert with_parameter(runs, "epsilon") is runs


def test_summary_has_mean_spread_interval_and_failures():
    values = [0.7, 0.8, 0.75]
    runs = together(
        repeated([*values, np.nan, np.nan], problem=["", "", "", "ValueError: a", "ValueError: a"]),
        repeated([0.5], method="amp", alpha=np.nan),
    )
    found = summary(runs, ["accuracy", "r2"]).set_index(["line", "measure"])
    agd = found.loc[(AGD, "accuracy")]
    low, high = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
    assert agd[["mean", "sd", "low", "high"]].tolist() == pytest.approx(
        [0.75, np.std(values, ddof=1), low, high]
    )
    assert (agd["repeats"], agd["failed"], agd["problem"]) == (3, 2, "ValueError: a")
    one = found.loc[("amp||private|default", "accuracy")]
    assert (one["mean"], one["repeats"], one["failed"]) == (0.5, 1, 0)
    assert np.isnan(one["sd"])
    assert np.isnan(one["low"])
    assert ("amp||private|default", "r2") not in found.index  # never measured, never failed


def test_summary_by_a_parameter():
    runs = together(grid([0.7, 0.9], 20), grid([0.5, 0.7], 60))
    found = summary(runs, ["accuracy"], by=("splits",))
    assert found.set_index("splits")["mean"].to_dict() == pytest.approx({20: 0.8, 60: 0.6})


def five(base, step=0.0):
    """Values on five splits, with a different step on each so that they vary."""
    return [base + 0.001 * k * k + step * (1 + k / 10) for k in range(5)]


def test_the_leader_is_honest_and_its_rival_is_another_method():
    runs = together(
        repeated(five(0.80), method="auto"),
        repeated(five(0.79, -0.001), method="auto", tuning="selected"),
        repeated(five(0.75, 0.001), method="agd"),
        repeated(five(0.90), method="amp", tuning="grid", setting='{"a": 1}'),
        repeated(five(0.95), method="sgd", variant="as released"),
        repeated(five(0.99), method="nonprivate", variant="not private"),
    )
    [row] = leaderboard(runs).to_dict("records")
    assert (row["best"], row["runner_up"]) == (AUTO, AGD)
    gap = np.subtract(five(0.80), five(0.75, 0.001))
    assert row["margin"] == pytest.approx(gap.mean())
    expected = paired(np.array(five(0.75, 0.001)), np.array(five(0.80))).p_value
    assert row["p_value"] == pytest.approx(expected)
    assert row["significant"]
    assert row["best_of_all"] == "nonprivate||not private|default"
    assert row["auto_margin"] == pytest.approx(row["margin"])
    assert row["hindsight"] == "amp||private|grid"
    assert row["auto_margin_hindsight"] == pytest.approx(-0.1)


def test_margins_are_positive_for_the_better_whichever_way_the_measure_goes():
    runs = together(
        frame(method="auto", seconds=[1.0, 1.1], repeat=[0, 1]),
        frame(method="agd", seconds=[2.0, 2.3], repeat=[0, 1]),
    )
    [row] = leaderboard(runs, "seconds").to_dict("records")
    assert (row["best"], row["margin"]) == (AUTO, pytest.approx(1.1))


def test_a_line_that_fails_at_times_does_not_win():
    lucky = repeated([0.99, np.nan], method="agd", problem=["", "ValueError: no"])
    [row] = leaderboard(together(lucky, repeated([0.8, 0.8], method="auto"))).to_dict("records")
    assert (row["best"], row["runner_up"]) == (AUTO, AGD)


def test_a_line_with_fewer_repeats_does_not_win():
    few = repeated([0.99], method="agd")
    many = repeated([0.9] * 5, method="nonprivate", variant="not private")
    board = leaderboard(together(few, repeated([0.8, 0.8], method="auto"), many))
    [row] = board.to_dict("records")
    assert (row["best"], row["runner_up"]) == (AUTO, AGD)
    assert row["best_of_all"] == "nonprivate||not private|default"


def test_curves_and_sweeps_do_not_compete():
    curve = together(
        repeated([0.8, 0.9], method="auto", experiment="curve", at=[1.0, 2.0], repeat=0, seed=0),
        repeated([0.7], experiment="curve"),
    )
    sweep = [repeated([0.9, 0.9], setting=json.dumps({"splits": s})) for s in (20, 60)]
    rest = together(repeated([0.8, 0.8], method="auto"), repeated([0.7, 0.7], method="amp"))
    board = leaderboard(together(curve, *sweep, rest))
    [row] = board.to_dict("records")
    assert row["experiment"] == "exp"
    assert (row["best"], row["runner_up"]) == (AUTO, "amp||private|default")
    # one setting on each problem is no sweep
    apart = [sweep[0], sweep[1].assign(epsilon=2.0)]
    assert set(leaderboard(together(*apart))["best"]) == {AGD}
    grids = [one.assign(tuning="grid") for one in sweep]
    assert leaderboard(together(*grids, rest))["hindsight"].tolist() == ["agd||private|grid"]


def test_where_the_default_loses_it_is_told_whether_that_is_chance():
    def cell(auto, epsilon):
        return together(
            repeated(auto, method="auto", epsilon=epsilon),
            repeated(five(0.80), epsilon=epsilon),
            repeated(five(0.82, 0.001), method="amp", epsilon=epsilon),
        )

    noisy = [v + d for v, d in zip(five(0.82), [0.02, -0.03, 0.01, -0.02, 0.01], strict=True)]
    board = leaderboard(together(cell(five(0.70, 0.003), 0.1), cell(noisy, 1.0),
                                 cell(five(0.90, 0.002), 2.0)))  # fmt: skip
    assert board["auto_significant"].tolist() == [True, False, False]
    assert board["auto_p_value"].isna().tolist() == [False, False, True]  # it wins the last
    p_values = [
        paired(np.array(five(0.82, 0.001)), np.array(values)).p_value
        for values in (five(0.70, 0.003), noisy, five(0.90, 0.002))
    ]
    adjusted = holm(np.array(p_values))  # over all three
    assert board["auto_p_value"].tolist()[:2] == pytest.approx(adjusted[:2], nan_ok=True)
    assert np.isnan(leaderboard(repeated([0.7, 0.8]))["auto_p_value"][0])


def test_too_little_to_judge():
    alone = leaderboard(repeated([0.7, 0.8]))
    assert alone["runner_up"].isna().all()
    assert not alone["significant"].any()
    once = leaderboard(together(repeated([0.7]), repeated([0.8], method="auto")))
    assert once["p_value"].isna().all()
    assert once["margin"].tolist() == pytest.approx([0.1])
    never_together = together(repeated([0.7], repeat=0), repeated([0.8], repeat=1, method="auto"))
    assert leaderboard(never_together)["margin"].tolist() == pytest.approx([0.1])
    assert leaderboard(repeated([np.nan], problem="no")).empty
    assert leaderboard(repeated([0.9], variant="not private")).empty


def test_holm_is_over_the_problems_of_one_experiment():
    def cell(experiment, epsilon):
        names = {"experiment": experiment, "epsilon": epsilon}
        return together(
            repeated(five(0.8), method="auto", **names), repeated(five(0.77, 0.02), **names)
        )

    board = leaderboard(together(cell("a", 0.1), cell("a", 1.0), cell("b", 1.0)))
    assert board["p_value"].nunique() == 1
    p_value = board["p_value"].iloc[0]
    assert board.groupby("experiment")["adjusted"].max().tolist() == pytest.approx(
        [2 * p_value, p_value]
    )


def test_equal_methods_are_rarely_called_different():
    # 150 problems, two equal methods, 10 splits whose differences correlate by 0.2, as the
    # correction assumes; then its t is exact. Each of the three bounds fails with a probability
    # below 1e-6: four or more found where Holm expects 0.05; 25 or more of 150 below 0.05; and
    # fewer than 15 of them for the plain test, which is wrong in 26 % of cases.
    problems = 150
    rng = np.random.default_rng(5)
    common = rng.normal(size=(problems, 1)) * np.sqrt(0.2)
    values = 0.8 + 0.01 * (common + rng.normal(size=(problems, 10)) * np.sqrt(0.8))
    where = {
        "epsilon": np.repeat(np.arange(1.0, problems + 1), 10).tolist(),
        "repeat": [*range(10)] * problems,
    }
    runs = together(
        frame(accuracy=values.ravel().tolist(), **where),
        frame(accuracy=0.8, method="auto", **where),
    )
    board = leaderboard(runs)
    assert len(board) == problems
    assert board["significant"].sum() <= 3
    assert (board["p_value"] < 0.05).sum() <= 24
    plain = [paired(np.full(10, 0.8), row, 0.0).p_value for row in values]
    assert np.sum(np.array(plain) < 0.05) >= 15


def test_changes_are_told_from_noise():
    before = together(
        repeated(five(0.80), method="auto"), repeated(five(0.70)), repeated(five(0.6), method="gd")
    )
    after = together(
        repeated(five(0.80, 0.02), method="auto"),
        repeated(five(0.70, -0.02)),
        repeated([v + d for v, d in zip(five(0.6), [1e-3, -2e-3, 0, 1e-3, -1e-3], strict=True)],
                 method="gd"),
    )  # fmt: skip
    found = compare(before, after).set_index("line")
    assert found["verdict"].to_dict() == {
        AUTO: "better", AGD: "worse", "gd||private|default": "same",
    }  # fmt: skip
    assert found["paired"].all()
    assert found.loc[AUTO, "difference"] == pytest.approx(0.024)
    assert found.loc[AUTO, "low"] < 0.024 < found.loc[AUTO, "high"]


def test_repeats_with_other_seeds_are_not_paired():
    before, after = repeated(five(0.8)), repeated(five(0.9), seed=[7, 8, 9, 10, 11])
    [row] = compare(before, after).to_dict("records")
    assert not row["paired"]
    assert row["verdict"] == "better"
    assert row["repeats"] == 5
    welch = stats.ttest_ind(five(0.9), five(0.8), equal_var=False).confidence_interval()
    assert (row["low"], row["high"]) == pytest.approx(tuple(welch))


def test_runs_of_other_sizes_are_not_paired_and_another_delta_is_another_problem():
    before, after = repeated(five(0.8)), repeated(five(0.9), n=2000)
    [row] = compare(before, after).to_dict("records")
    assert not row["paired"]
    found = compare(before, after.assign(delta=1e-8)).set_index("delta")
    assert found["verdict"].to_dict() == {1e-8: "new", 1e-6: "gone"}


def test_less_time_is_better_and_a_certain_change_needs_no_spread():
    def timed(seconds):
        return frame(seconds=seconds, repeat=[0, 1, 2], seed=[0, 1, 2])

    assert compare(timed([2.0, 2.1, 2.2]), timed([1.0, 1.2, 1.1]), "seconds")["verdict"][0] == (
        "better"
    )
    assert compare(timed(2.0), timed(3.0), "seconds")["verdict"][0] == "worse"
    assert compare(timed(2.0), timed(2.0), "seconds")["verdict"][0] == "same"


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (repeated([0.7]), repeated([0.8]), "unclear"),
        (repeated([0.7]), repeated([0.7]), "same"),
        (repeated([0.7, 0.8]), repeated([np.nan, np.nan], problem="no"), "worse"),
        (repeated([np.nan, np.nan], problem="no"), repeated([0.7, 0.8]), "better"),
        (repeated([np.nan], problem="no"), repeated([np.nan], problem="still no"), "same"),
    ],
)
def test_verdicts_with_little_or_no_result(before, after, verdict):
    [row] = compare(before, after).to_dict("records")
    assert row["verdict"] == verdict
    if verdict == "worse":
        assert row["problem"] == "no"


def test_lines_that_came_or_went():
    found = compare(repeated([0.7, 0.8]), repeated([0.7, 0.8], method="auto")).set_index("line")
    assert found["verdict"].to_dict() == {AGD: "gone", AUTO: "new"}
