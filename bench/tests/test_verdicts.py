"""Verdicts follow from intervals, and from nothing else."""

import dataclasses

import numpy as np
import pytest

from discreet_bench import verdicts
from discreet_bench.experiment import Claim, Experiment, Pick
from discreet_bench.experiments import EXPERIMENTS
from discreet_bench.lines import named
from discreet_bench.published import PUBLISHED
from discreet_bench.runs import read, write

from .frames import frame, repeated, together

ENTRY = next(
    e for e in PUBLISHED if (e.experiment, e.data, e.method) == ("amp-fig1", "adult", "amp")
)
WHERE = {"experiment": "amp-fig1", "relation": "replace_one", "epsilon": 0.1}


def spread(centre, half, count=20):
    return centre + half * np.linspace(-1, 1, count)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        (spread(0.791, 0.005), verdicts.AGREES),
        (spread(0.780, 0.005), verdicts.DIFFERS),
        (spread(0.791, 0.08), verdicts.UNDECIDED),  # it covers the number, and much else
        (spread(0.60, 0.08), verdicts.DIFFERS),
        (spread(0.791, 0.001, 2), verdicts.UNDECIDED),  # too few
        (np.full(20, 0.7914), verdicts.AGREES),  # rounds to the printed number
        (np.full(20, 0.7920), verdicts.DIFFERS),
    ],
)
def test_a_printed_number(values, verdict):
    assert verdicts.compared(values, ENTRY)[-1] == verdict


def test_the_interval_counts_the_papers_repeats_as_well():
    values = spread(0.791, 0.01)
    few = dataclasses.replace(ENTRY, repeats=1)
    wide, narrow = (verdicts.compared(values, entry)[3] for entry in (few, ENTRY))
    # s·t·√(1/20 + 1/k') with s = 0.00607 and t = 2.093, and half a unit of the last digit
    deviation = values.std(ddof=1)
    assert narrow == pytest.approx(2.093024 * deviation * np.sqrt(1 / 20 + 1 / 10) + 5e-4, rel=1e-5)
    assert wide == pytest.approx(2.093024 * deviation * np.sqrt(1 / 20 + 1) + 5e-4, rel=1e-5)


@pytest.mark.parametrize(
    ("printed", "half"),
    [(0.791, 5e-4), (12.613, 5e-4), (0.0005, 5e-5), (518.0, 0.5), (110.2, 0.05)],
)
def test_the_rounding_of_a_printed_number(printed, half):
    assert verdicts.resolution(printed) == pytest.approx(half)


def test_a_tuned_number_is_compared_with_the_best_of_the_grid_where_there_is_one():
    grid = {"tuning": "grid", "calibration": "published", "method": "amp"}
    rows = together(
        repeated([0.77] * 4, method="amp", calibration="published", **WHERE),
        repeated([0.79] * 4, setting='{"norm": 10.0}', **grid, **WHERE),
        repeated([0.50] * 4, setting='{"norm": 0.1}', **grid, **WHERE),
        repeated([0.99] * 4, method="amp", **WHERE),
        repeated([0.99] * 4, method="amp", calibration="published", difference="with intercept",
                 **WHERE),
        repeated([0.99] * 4, method="amp", calibration="published", **WHERE | {"epsilon": 1.0}),
    )  # fmt: skip
    (found,) = verdicts.numbers(rows, "amp-fig1")
    assert found.mean == pytest.approx(0.79)
    assert found.line == "amp|published|private|grid"
    (found,) = verdicts.numbers(rows[rows["tuning"] == "default"], "amp-fig1")
    assert found.mean == pytest.approx(0.77)


def test_a_baseline_counts_once_however_many_budgets_it_stands_for():
    rows = together(*(
        repeated([0.848, 0.849, 0.848], method="nonprivate", calibration="", variant="not private",
                 **WHERE | {"epsilon": epsilon})
        for epsilon in (0.1, 1.0)
    ))  # fmt: skip
    (found,) = verdicts.numbers(rows, "amp-fig1")
    assert (found.repeats, found.verdict) == (3, verdicts.AGREES)


def experiment(*claims):
    return Experiment("amp-fig1", "Title", "a paper", "Is it?", (), (), claims=claims)


CLAIM = Claim("One is better.", Pick("amp", "published"), (Pick("sgd", "published"),))


@pytest.mark.parametrize(
    ("lead", "verdict"),
    [(0.05, verdicts.REPRODUCED), (-0.05, verdicts.CONTRADICTED), (0.0, verdicts.UNDECIDED)],
)
def test_a_claim(lead, verdict):
    noise = 0.01 * np.sin(np.arange(10))
    published = {"calibration": "published", **WHERE}
    rows = together(
        repeated(list(0.7 + lead + noise), method="amp", **published),
        repeated(list(0.7 + noise[::-1]), method="sgd", **published),
        repeated([0.0] * 10, method="amp", **WHERE),  # the least noise is another line
        repeated([0.0] * 10, method="amp", difference="with intercept", **published),
    )
    (found,) = verdicts.claims(rows, experiment(CLAIM))
    assert found.verdict == verdict
    assert found.difference == pytest.approx(lead, abs=1e-9)
    assert found.low < found.difference < found.high
    assert verdicts.sentence([found]) == verdict


def test_a_smaller_objective_is_better():
    claim = dataclasses.replace(CLAIM, measure="objective")
    rows = together(
        frame(objective=[0.31, 0.3, 0.32], repeat=[0, 1, 2], method="amp", calibration="published",
              **WHERE),
        frame(objective=[0.5, 0.51, 0.52], repeat=[0, 1, 2], method="sgd", calibration="published",
              **WHERE),
    )  # fmt: skip
    (found,) = verdicts.claims(rows, experiment(claim))
    assert found.verdict == verdicts.REPRODUCED
    assert found.difference > 0


def test_claims_about_settings_and_budgets_pick_their_lines():
    claim = Claim(
        "Ten passes are better.",
        Pick("laplace-sgd", "tight", {"passes": 10}, 10.0),
        (Pick("laplace-sgd", "tight", epsilon=1.0),),
        "objective",
    )
    runs = together(
        frame(objective=[0.3, 0.31, 0.3], repeat=[0, 1, 2], method="laplace-sgd", epsilon=10.0,
              setting='{"passes": 10}', experiment="amp-fig1"),
        frame(objective=[0.4, 0.41, 0.42], repeat=[0, 1, 2], method="laplace-sgd", epsilon=1.0,
              experiment="amp-fig1"),
    )  # fmt: skip
    (found,) = verdicts.claims(runs, experiment(claim))
    assert found.verdict == verdicts.REPRODUCED
    assert "passes = 10" in found.better


def test_a_claim_in_a_sentence():
    def made(*words):
        return [dataclasses.replace(_decision(), verdict=word) for word in words]

    yes, no, open_ = verdicts.REPRODUCED, verdicts.CONTRADICTED, verdicts.UNDECIDED
    assert verdicts.sentence([]) == "not run"
    assert verdicts.sentence(made(yes, yes)) == "reproduced in all 2 comparisons"
    assert verdicts.sentence(made(yes, no, open_, yes)) == (
        "reproduced in 2, contradicted in 1, cannot be decided in 1 of 4 comparisons"
    )


def _decision():
    return verdicts.Decision(CLAIM, "adult", 0.1, 0.0, "AMP", "P-SGD", 0.0, 0.0, 0.0, 5, "")


def test_verdicts_of_two_files_are_compared(tmp_path, capsys):
    published = {"calibration": "published", **WHERE}
    first = together(
        repeated([0.790, 0.791, 0.792, 0.791], method="amp", **published),
        repeated([0.700, 0.701, 0.702, 0.701], method="sgd", **published),
    )
    second = first.assign(accuracy=first["accuracy"].where(first["method"] == "sgd", 0.6))
    write(first, tmp_path / "a.parquet")
    write(second, tmp_path / "b.parquet")
    verdicts.main([str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")])
    told = capsys.readouterr().out
    assert "agrees → differs" in told
    assert "reproduced → contradicted" in told
    assert "2 of 3 verdicts differ" in told


def test_every_claim_is_about_lines_of_its_paper_form():
    for one in EXPERIMENTS.values():
        solvers = {name for plan in one.paper for name in plan.solvers}
        data = {name for plan in one.paper for name in plan.data}
        epsilons = {e for plan in one.paper for e in plan.objective["epsilon"]}
        for claim in one.claims:
            assert {pick.method for pick in (claim.better, *claim.than)} <= solvers
            assert set(claim.data) <= data
            assert set(claim.epsilons) <= epsilons


def test_settings_can_be_chosen_by_training_rows():
    grid = {"tuning": "grid", "calibration": "published", "method": "amp", **WHERE}
    rows = together(
        repeated([0.79, 0.80, 0.79], train_accuracy=0.80, setting='{"norm": 10.0}', **grid),
        repeated([0.78, 0.78, 0.78], train_accuracy=0.82, setting='{"norm": 1.0}', **grid),
    )
    (found,) = verdicts.retuned(rows, "amp-fig1")
    assert found.difference == pytest.approx(-0.04 / 3)
    assert found.repeats == 3
    assert verdicts.retuned(rows.assign(train_accuracy=np.nan), "amp-fig1") == []


def test_a_rate_is_the_slope_of_logarithms():
    from discreet_bench.experiments import find

    one = find("outpert-table1")
    rows = together(*(
        frame(experiment=one.name, data=f"plane ({n}, {d})", n=n, d=d, method="outpert",
              calibration="published", alpha=alpha, repeat=[0, 1, 2],
              excess_objective=[k * 3.0 * n**-2.0 * d**1.5 for k in (1, 1.1, 0.9)])
        for n, d in ((1000, 10), (3000, 10), (9000, 10), (1000, 30), (1000, 90))
        for alpha in (0.0, 0.1)
    ))  # fmt: skip
    found = {(slope.rate.x, slope.rate.alpha): slope for slope in verdicts.slopes(rows, one)}
    assert found["n", 0.1].power == pytest.approx(-2.0)
    assert found["n", 0.1].verdict == verdicts.AGREES
    assert found["d", 0.1].power == pytest.approx(1.5)
    assert found["d", 0.1].verdict == verdicts.DIFFERS
    assert found["n", 0.0].verdict == verdicts.DIFFERS


def test_times_of_another_machine_are_shown_and_not_compared():
    entry = next(e for e in PUBLISHED if e.measure == "seconds")
    assert verdicts.compared(spread(0.2, 0.01), entry)[-1] == verdicts.ELSEWHERE


def _two_lines(amp):
    published = {"calibration": "published", **WHERE}
    return together(
        repeated(amp, method="amp", **published),
        repeated([0.700, 0.701, 0.702, 0.701], method="sgd", **published),
    )


def test_verdicts_that_a_second_run_does_not_confirm_cannot_be_decided(tmp_path):
    from discreet_bench.results import again_table, claims_table, numbers_table, tally_table

    first = _two_lines([0.790, 0.791, 0.792, 0.791])
    write(_two_lines([0.600, 0.601, 0.602, 0.601]), tmp_path / "b.parquet")
    write(first, tmp_path / "a.parquet")
    kept = tmp_path / "again.csv"
    assert verdicts.read_again(kept) == {}
    files = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    verdicts.main([*files, "--write", str(kept)])
    again = verdicts.read_again(kept)
    runs = named(read(tmp_path / "a.parquet"))
    found = verdicts.numbers(runs, "amp-fig1")
    settled = verdicts.settled(found, "amp-fig1", again)
    assert {one.entry.method: one.changed for one in settled} == {
        "amp": "agrees, then differs",
        "sgd": "",
    }
    assert {one.verdict for one in settled if one.changed} == {verdicts.UNDECIDED}
    assert verdicts.settled(found, "amp-fig1", {}) == found
    text = numbers_table(runs, "amp-fig1", again)
    assert "agrees, then differs" in text
    assert "| amp-fig1" not in claims_table(runs, again)  # names are links
    assert "reproduced" not in claims_table(runs, again)
    assert "reproduced" in claims_table(runs, {})
    assert "2 (66.7 %)" in again_table(runs, again)
    assert again_table(runs, {}) == "There is none yet.\n"
    (row,) = [line for line in tally_table(runs, again).splitlines() if "amp-fig1" in line]
    assert row.split(" | ")[2:] == ["63", "0", "1", "1", "61 |"]


def test_an_epsilon_that_no_data_decide_is_computed():
    (one,) = verdicts.numbers(repeated([0.8, 0.8, 0.8], experiment="dpagd-fig2"), "dpagd-fig2")
    assert one.entry.value == 0.5756
    assert one.mean == pytest.approx(np.log(1e8) / 32, abs=1e-4)  # the best of 32 orders
    assert one.verdict == verdicts.AGREES
    other = dataclasses.replace(one.entry, value=0.5786)
    assert verdicts._computed(other).verdict == verdicts.DIFFERS
    assert verdicts.numbers(repeated([], experiment="dpagd-fig2"), "dpagd-fig2") == []


def test_lines_of_a_table_are_in_the_order_of_their_numbers():
    from discreet_bench.results import experiment_tables

    one = EXPERIMENTS["dpagd-fig1"]
    rows = together(*(
        repeated([0.8, 0.81], experiment=one.name, method="agd", setting=f'{{"splits": {splits}}}')
        for splits in (100, 5, 20)
    ))  # fmt: skip
    (_, text) = experiment_tables(named(rows), one)
    shown = [line.split(" | ")[0] for line in text.splitlines()[2:]]
    assert shown == [f"| DP-AGD, splits {splits}" for splits in (5, 20, 100)]
