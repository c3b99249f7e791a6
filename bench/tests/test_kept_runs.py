"""Kept runs: what they hold, and that they come out again (`make check-slow`)."""

from pathlib import Path

import pytest

from discreet.cli.app import run
from discreet.cli.exits import Exit
from discreet_bench import summary, which
from discreet_bench.lines import named
from discreet_bench.results import page
from discreet_bench.runs import read
from discreet_bench.statistics import compare
from discreet_bench.verdicts import read_again

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "bench" / "results"


@pytest.fixture(scope="module")
def kept():
    return read(KEPT / "runs.parquet")


def test_pages_are_those_of_the_kept_runs(kept):
    import pandas as pd

    times = pd.read_csv(KEPT / "times.csv", keep_default_na=False)
    figures = sorted(path.name for path in KEPT.glob("*.svg"))
    again = read_again(KEPT / "again.csv")
    made = page(named(kept), times, figures, again)
    assert (ROOT / "docs" / "results.md").read_text("utf-8") == made
    assert (ROOT / "docs" / "which-method.md").read_text("utf-8") == which.page(kept)


def test_no_kept_run_spent_more_than_it_was_allowed(kept):
    text = " ".join(summary.guarantees(kept).split())
    assert text.endswith("0 runs spent more than they were allowed.")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("experiment", "measure", "options"),
    [
        ("sgd-fig6", "objective", []),
        ("outpert-table1", "excess_objective", []),
        ("rrpsgd-rounds", "squared_gradient", ["--data", "plane", "--epsilon", "4"]),
    ],
)
def test_kept_lines_come_out_again(kept, tmp_path, experiment, measure, options):
    """With other splits and noise; Bonferroni over the lines, false alarm below 1 %."""
    mine = kept[(kept["experiment"] == experiment) & (kept["form"] == "paper")]
    if mine.empty:
        pytest.skip(f"{experiment} is not among the kept runs")
    asked = ["bench", "run", experiment, "--paper", "--seed", "1", "--jobs", "2", "--no-pages"]
    assert run([*asked, *options, "--out", str(tmp_path)]) == Exit.OK
    again = read(tmp_path / f"{experiment}-paper" / "runs.parquet")
    found = compare(mine, again, measure, overlap=0.0)
    found = found[found["low"].notna() & (found["repeats"] > 2)]
    assert len(found) > 2
    # a 95 % half width is about 2 standard errors: 4.5 of them have a chance of 1e-5 a line
    half = (found["high"] - found["low"]) / 2
    far = found[found["difference"].abs() > 2.25 * half]
    assert far.empty, far[["data", "line", "epsilon", "difference", "low", "high"]].to_string()
