"""What a private draft collects before noise: one row changes one count of each column."""

import math

import numpy as np
import pytest

from discreet.core import PermuteAndFlip
from discreet.core.histogram import StabilityHistogram

pa = pytest.importorskip("pyarrow")


def test_neighbouring_files_differ_in_one_count_at_most(tmp_path):
    # What is collected, before noise: cells are counted one by one, also in mixed blocks.
    from discreet.tables.tallies import Question, Tally, margin_of

    rows = ["1", "1.0", "x", "", "2.5", "nan", "1e3", "x"]
    question = Question(
        "a",
        True,
        PermuteAndFlip(1.0, monotone=False),
        StabilityHistogram(1.0, 1e-6, "add_remove"),
    )

    def collected(cells):
        values = pa.array([cell or None for cell in cells], type=pa.string())
        tally = Tally(None)
        tally.add(question, values)
        return tally, margin_of(values)

    whole, margin = collected(rows)
    for place in range(len(rows)):
        less, other_margin = collected(rows[:place] + rows[place + 1 :])
        assert abs(margin - other_margin) <= 1
        assert np.abs(whole.cells - less.cells).sum() <= 1
        gone = whole.texts - less.texts
        assert sum(gone.values()) == (rows[place] != "")
        assert not less.texts - whole.texts


def test_float_cells_become_texts_one_by_one():
    # Whether 3.0 is called "3" must not depend on the other cells of its block.
    from discreet.tables.tallies import text_counts

    assert dict(text_counts(pa.array([3.0, 3.0, 0.5, math.nan, None]))) == {"3": 2, "0.5": 1}
    assert dict(text_counts(pa.array([3.0]))) == {"3": 1}
    assert dict(text_counts(pa.array(["3.0", "3"]))) == {"3.0": 1, "3": 1}
