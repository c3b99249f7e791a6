"""The measurement of the default: tables, shares, regret, and what a step or a number buys."""

import math

import numpy as np
import pytest

from discreet.estimators import auto, method
from discreet_bench import default, own_tables, records, tuned
from discreet_bench.default import Fit


def fits(rule, values, score="AUC", table="t", epsilon=1.0):
    return [
        Fit(rule, table, 100, epsilon, split, score, value, 0.5, 0.9, 0.1)
        for split, value in enumerate(values)
    ]


def test_a_share_is_what_was_learned_of_what_can_be():
    found = default.shares(fits("new", [0.7, 0.8, 0.9]), "new")["t", 1.0, "AUC"]
    assert found.mean == pytest.approx(0.75)
    assert found.error == pytest.approx(0.25 / math.sqrt(3))
    assert found.half == pytest.approx(4.303 * found.error, rel=1e-3)  # t of 2 degrees of freedom


def test_regret_is_paired_by_split_and_positive_where_a_rule_is_worse():
    runs = fits("old", [0.7, 0.8, 0.9]) + fits("new", [0.69, 0.79, 0.89, 0.1])
    found = default.regret(runs, "new", "old")["t", 1.0, "AUC"]
    assert found.mean == pytest.approx(0.01)
    assert found.error == pytest.approx(0.0, abs=1e-12)
    loss = fits("old", [0.4, 0.5], "log loss") + fits("new", [0.5, 0.7], "log loss")
    assert default.regret(loss, "new", "old")["t", 1.0, "log loss"].mean == pytest.approx(0.15)


def test_errors_of_tables_are_pooled():
    parts = [default.Interval(0.1, math.nan, 0.03), default.Interval(0.3, math.nan, 0.04)]
    assert default.pooled(parts).mean == pytest.approx(0.2)
    assert default.pooled(parts).error == pytest.approx(0.025)


def test_generated_tables_repeat_and_differ():
    seeds = range(12)
    tables = [default.generated(seed) for seed in seeds]
    assert np.array_equal(tables[3].X, default.generated(3).X)
    assert len({table.X.shape for table in tables}) > 6
    assert {table.bounds is None for table in tables} == {True, False}
    assert all(np.isfinite(table.X).all() for table in tables)
    assert all(len(table.y) >= 2_500 for table in tables)


def test_a_step_is_left_out_and_a_number_is_changed_for_a_time():
    before = auto.WHITEN_SHARE
    with default.changed("WHITEN_SHARE", 2.0):
        assert before * 2 == auto.WHITEN_SHARE
    assert before == auto.WHITEN_SHARE
    with pytest.raises(SystemExit), default.changed("NO_SUCH_NUMBER", 2.0):
        pass
    rule = method._rule
    with default.ablated("whiten"):
        assert method._rule is not rule
    assert method._rule is rule


@pytest.mark.filterwarnings("ignore")
def test_a_run_continues_and_prints_regrets(tmp_path, capsys):
    path = tmp_path / "fits.csv"
    asked = ["--tables", "generated-1", "--epsilons", "1", "--rows", "400", "--file", str(path)]
    default.main([*asked, "--rule", "old", "--splits", "2"])
    done = records.read(path, Fit)
    assert {(fit.rule, fit.split) for fit in done} == {("old", 0), ("old", 1)}
    default.main([*asked, "--rule", "old", "--splits", "2"])
    assert records.read(path, Fit) == done
    default.main([*asked, "--rule", "new", "--splits", "2", "--against", "old"])
    again = {(f.split, f.score): f.value for f in records.read(path, Fit) if f.rule == "new"}
    assert again == {(f.split, f.score): f.value for f in done}  # the same seeds, the same noise
    default.main([*asked, "--rule", "new", "--splits", "1", "--sensitivity", "WHITEN_SHARE"])
    said = capsys.readouterr().out
    assert "Regret of new against old" in said
    assert "Regret of new, WHITEN_SHARE × 0.5 against new" in said
    assert {f.rule for f in records.read(path, Fit)} > {"new, WHITEN_SHARE × 2"}


def test_tables_with_texts_and_gaps(tmp_path, monkeypatch):
    import lzma

    monkeypatch.setenv("DISCREET_DATA", str(tmp_path))
    (tmp_path / "tables").mkdir()
    lines = ["#,customerID,tenure,Contract,Charges,Churn"]
    lines += [f"{i},c{i},{i % 7},{'month' if i % 2 else 'year'},{i / 3},No" for i in range(50)]
    lines.append("51,c51,3,month, ,Yes")
    with lzma.open(tmp_path / "tables" / "telco.csv.xz", "wt") as file:
        file.write("\n".join(lines) + "\n")
    frame, y, bounds = own_tables.read("telco")
    assert list(frame.columns) == ["tenure", "Contract", "Charges"]
    assert frame["Charges"].isna().sum() == 1
    assert own_tables.levels(frame) == {"Contract": ["month", "year"]}
    assert own_tables.encoded(frame).shape == (51, 4)
    assert (bounds, set(y)) == (None, {"No", "Yes"})
    table = default.table_of("telco")
    assert table.columns == {"Contract": ["month", "year"]}
    assert default.table_of("telco-array").X.shape == (51, 4)


MOST_NUMBERS = 250
"""Tuned numbers of all rules, of intervals and of pairs together; this may only shrink."""


def test_the_page_has_the_table_of_the_kept_fits():
    page = default.PAGE.read_text("utf-8")
    assert default.page_shares() in page, "python -m discreet_bench.default --page"
    assert default.page_shares().count("\n") > 15


def test_tuned_numbers_are_counted_and_their_page_is_current():
    found = [each for module in tuned.MODULES for each in tuned.numbers(module)]
    assert sum(each.count for each in found) <= MOST_NUMBERS
    assert tuned.PAGE.read_text("utf-8") == tuned.table(), "python -m discreet_bench.tuned --write"
    assert {each.name for each in found} >= {"RADIUS_SHARES", "CLIPS", "REACH"}
    (shares,) = (each for each in found if each.name == "RADIUS_SHARES")
    assert shares.count == 2


def test_numbers_are_found_by_hand(tmp_path, monkeypatch, capsys):
    source = (
        'A = 1\n"""First\nmeaning."""\nB, C = 2.0, (3, 4)\nD = len("x")\nlower = 5\nE = "text"\n'
    )
    (tmp_path / "rule.py").write_text(source, "utf-8")
    monkeypatch.setattr(tuned, "SOURCES", tmp_path)
    monkeypatch.setattr(tuned, "MODULES", ("rule.py",))
    found = list(tuned.numbers("rule.py"))
    assert [(n.name, n.count, n.meaning) for n in found] == [
        ("A", 1, "First meaning."),
        ("B, C", 3, ""),
    ]
    tuned.main([])
    assert "There are 4 numbers in 2 constants." in capsys.readouterr().out
    with pytest.raises(SystemExit, match="expected no argument"):
        tuned.main(["--read"])


def test_a_missing_folder_of_data_is_named(monkeypatch):
    monkeypatch.delenv("DISCREET_DATA", raising=False)
    with pytest.raises(SystemExit, match="Set DISCREET_DATA"):
        own_tables.read("kc")
