"""The measurements of speed and memory: all of them run, and a missed bar is named."""

import math

import pytest

from discreet_bench import speed
from discreet_bench.speed import PARTS, Line, Sizes

SLOW = ("descent", "minima", "batches", "frank-wolfe", "tables", "cluster")  # of any size


def check(lines):
    assert lines
    for line in lines:
        assert math.isfinite(line.measured)
        assert line.measured >= 0
        assert line.bar > 0


def parts():
    for name in PARTS:
        yield pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])


@pytest.mark.parametrize("name", list(parts()))
@pytest.mark.filterwarnings("ignore::discreet.PrivacyLeakWarning")
def test_every_part_runs_on_small_tables(name):
    check(list(PARTS[name](Sizes(2_000))))


def test_both_ways_to_read_a_table_are_measured(tmp_path):
    """In this process, so that a plain run of the tests sees an error."""
    speed.write_table(tmp_path / "t.csv", 500)
    for how, found in (("discreet", {"read", "fit"}), ("memory", {"growth"})):
        assert set(speed.measure_table(how, tmp_path / "t.csv")) == found


@pytest.mark.parametrize(("quick", "code"), [([], 1), (["--quick"], 0)])
def test_a_missed_bar_is_named_unless_sizes_are_small(monkeypatch, capsys, quick, code):
    lines = [Line("slow work", 9.0, 3.0), Line("fast work", 1.0, 3.0)]
    monkeypatch.setattr(speed, "PARTS", {"one": lambda _sizes: iter(lines)})
    assert speed.main(["one", *quick]) == code
    shown = capsys.readouterr().out
    assert ("Missed: slow work: 9 ×, bar ≤ 3 ×." in shown) == bool(code)
    assert "Missed: fast" not in shown
    monkeypatch.setattr(speed, "PARTS", {"one": lambda _sizes: iter(lines[1:])})
    assert speed.main(["one"]) == 0


def test_an_unknown_part_is_refused(capsys):
    with pytest.raises(SystemExit):
        speed.main(["nothing"])
    assert "parts are descent" in capsys.readouterr().err


def test_small_sizes_never_exceed_full_ones():
    assert [Sizes(200).rows(n) for n in (50, 6_000, 1_000_000)] == [50, 1_000, 5_000]
    assert Sizes().rows(1_000_000) == 1_000_000
