"""Files of runs: read, completed, and methods that are the same counted once."""

import pandas as pd

from discreet_bench import runs as table
from discreet_bench.published import PUBLISHED
from discreet_bench.solvers import solver_names

from .frames import repeated, together


def test_sgd_with_the_tight_calibration_is_one_method():
    names = ("sgd", "sgd-ma", "sgd-adv")
    published = [repeated([0.8, 0.8], method=name, calibration="published") for name in names]
    papers = [one.assign(calibration="tight") for one in published[1:]]
    own = repeated([0.7, 0.7], method="sgd")
    runs = table.complete(together(*papers, own, *published))
    tight = runs[runs["calibration"] == "tight"]
    assert set(tight["method"]) == {"sgd"}
    assert tight["accuracy"].tolist() == [0.7, 0.7]  # its own runs, where there are some
    rest = runs[runs["calibration"] == "published"]
    assert set(rest["method"]) == set(names)
    alone = table.complete(together(*papers, own.assign(epsilon=9.0)))
    assert set(alone["method"]) == {"sgd"}
    assert len(alone) == 4  # a repeat counts once


def test_a_file_survives_writing_and_reading(tmp_path):
    runs = repeated([0.8, 0.9]).assign(newer=1.0)
    table.write(runs, tmp_path / "folder" / "runs.parquet")
    again = table.read(tmp_path / "folder" / "runs.parquet")
    pd.testing.assert_frame_equal(again, table.complete(runs), check_dtype=False)
    assert list(again.columns) == [*table.COLUMNS, "newer"]


def test_merging_replaces_runs_that_were_made_again():
    older = together(
        repeated([0.5, 0.6], method="auto", calibration="", code="old"),
        repeated([0.7, 0.8], method="amp", code="old"),
    )
    newer = repeated([0.9], method="auto", calibration="", code="new", variant="as released")
    found = table.merged(older, newer)
    assert found[["method", "repeat", "accuracy", "code"]].to_numpy().tolist() == [
        ["auto", 1.0, 0.6, "old"],
        ["amp", 0.0, 0.7, "old"],
        ["amp", 1.0, 0.8, "old"],
        ["auto", 0.0, 0.9, "new"],
    ]
    assert len(table.merged(pd.DataFrame(), newer)) == 1
    other = repeated([0.9], method="auto", calibration="", setting='{"norm": 2}')
    assert len(table.merged(older, other)) == 5  # another setting is another run


def test_printed_numbers_are_of_methods_that_can_be_run():
    assert {entry.method for entry in PUBLISHED} <= set(solver_names())
