"""Table 1: what it counts, its intervals, and what is refused before anything is read."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import binom

import discreet
from discreet.column_kinds import check_columns
from discreet.descriptive import _Plan
from discreet.design import Design
from discreet.errors import NotSupported, PrivacyError
from discreet.table_one import Entry, _is_seen

FALSE_ALARM = 1e-6
COLUMNS = {"age": (0, 110), "days": (0, 60), "ward": ["A", "B"], "sex": ["F", "M"]}
SEEDED = pytest.mark.filterwarnings("ignore::discreet.PrivacyLeakWarning")


def visits(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "patient": rng.integers(0, n // 3, n),
            "age": rng.normal(60, 15, n).clip(18, 100),
            "days": rng.gamma(2, 3, n).clip(0, 60),
            "ward": rng.choice(["A", "B"], n, p=[0.7, 0.3]),
            "sex": rng.choice(["F", "M"], n),
            "again": rng.random(n) < 0.2,
        }
    )
    table.loc[::20, "days"] = np.nan
    return table


def numbers(found, group="all"):
    frame = found.to_frame()
    frame = frame[frame["group"] == group]
    return {
        (row.column, row.level, row.statistic): row.estimate
        for row in frame.replace({np.nan: None}).itertuples()
    }


def test_with_a_large_budget_it_is_the_table_of_exact_numbers():
    table = visits().drop(columns="patient")
    found = discreet.describe(table, columns=COLUMNS, by="ward", epsilon=1e4, bins=500)
    assert found.groups == ("A", "B", "(other or missing)", "all")
    for group, part in (("A", table[table["ward"] == "A"]), ("all", table)):
        own = numbers(found, group)
        assert own["n", None, "n"] == pytest.approx(len(part), abs=2)
        assert own["age", None, "mean"] == pytest.approx(part["age"].mean(), rel=2e-3)
        assert own["days", None, "mean"] == pytest.approx(part["days"].mean(), rel=2e-3)
        assert own["days", None, "sd"] == pytest.approx(part["days"].std(), rel=5e-3)
        assert own["days", None, "missing"] == pytest.approx(part["days"].isna().sum(), abs=2)
        for q in (25, 50, 75):
            exact = part["days"].quantile(q / 100)
            assert own["days", None, f"q{q}"] == pytest.approx(exact, abs=0.2)
        share = (part["sex"] == "F").mean()
        assert own["sex", "F", "share"] == pytest.approx(share, abs=1e-3)
        assert own["again", "yes", "share"] == pytest.approx(part["again"].mean(), abs=1e-3)


def test_people_have_a_total_weight_of_one():
    """Means are those of people's means, and counts those of people."""
    table = visits()
    found = discreet.describe(table, columns=COLUMNS, unit="patient", epsilon=1e4)
    own = numbers(found)
    people = table.groupby("patient")
    assert own["n", None, "n"] == pytest.approx(people.ngroups, abs=2)
    assert own["age", None, "mean"] == pytest.approx(people["age"].mean().mean(), rel=2e-3)
    assert ("patient", None, "mean") not in own
    assert found.guarantee.unit == "person"
    assert "people" in str(found)


@pytest.mark.parametrize("by", [None, "ward"])
def test_no_row_has_a_longer_vector_than_the_public_norm(by):
    """Rows at all ends of their bounds, beyond them, and with missing cells."""
    table = pd.DataFrame(
        {
            "age": [0.0, 110.0, 55.0, 1e9, -1e9],
            "days": [60.0, 0.0, np.nan, 30.0, 1e300],
            "ward": ["A", "B", "A", None, "B"],
            "sex": ["F", "M", None, "F", "M"],
        }
    )
    design = Design.of(table, check_columns(COLUMNS))
    plan = _Plan.of(design, by, None, 20)
    vectors = plan.vectors(design.encode(table))
    norms = sp.linalg.norm(vectors, axis=1)
    assert (norms <= plan.norm).all()
    assert norms.max() > 0.999 * plan.norm
    alone = [plan.vectors(design.encode(table.iloc[[k]])).toarray()[0] for k in range(5)]
    assert np.array_equal(vectors.toarray(), alone)  # a row's vector depends on it alone


@SEEDED
def test_intervals_cover():
    """Means, shares, medians and counts of 60 tables of one population, at ε = 0.5.

    Of 60 intervals of level 0.95, fewer than 44 cover with probability below 1e-6.
    """
    least = binom.ppf(FALSE_ALARM, 60, 0.93)
    truth = {
        ("age", None, "mean"): 59.98,  # of normal numbers cut to [18, 100]
        ("age", None, "q50"): 60.0,
        ("sex", "F", "share"): 0.5,
        ("again", "yes", "share"): 0.2,
        ("n", None, "n"): 2000,
        ("age", None, "sd"): 14.85,
    }
    inside = dict.fromkeys(truth, 0)
    for seed in range(60):
        table = visits(2000, seed).drop(columns=["patient", "days"])
        columns = {name: COLUMNS[name] for name in ("age", "ward", "sex")}
        found = discreet.describe(table, columns=columns, epsilon=0.5, random_state=seed)
        for each in found.entries:
            key = (*each[:2], each.statistic)
            if key in truth:
                inside[key] += each.low <= truth[key] <= each.high
    assert min(inside.values()) >= least, inside


def test_what_it_spends_and_charges(tmp_path):
    ledger = discreet.Ledger(tmp_path / "ledger.db", who="ada")
    data = ledger.create("visits", discreet.Budget(1.0, 1e-5, "add_remove"), unit="person")
    table = visits()
    found = discreet.describe(
        table, columns=COLUMNS, unit="patient", epsilon=0.3, delta=1e-6, ledger=data
    )
    assert found.guarantee.epsilon == 0.3
    spent = sum(use.count * use.mechanism.loss.mu**2 for use in found.guarantee.mechanisms)
    assert spent == pytest.approx(
        discreet.Budget(0.3, 1e-6, "add_remove").to_gdp().mu ** 2, rel=1e-6
    )
    assert found.ledger_entry is not None
    with pytest.raises(discreet.BudgetExceeded):
        discreet.describe(table, columns=COLUMNS, unit="patient", epsilon=2.0, ledger=data)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"columns": {"ward": ["A", "B"], "sex": ["F", "M"]}}, ValueError, "public bounds"),
        ({"by": "age"}, ValueError, "must have listed levels"),
        ({"by": "hospital"}, ValueError, "no column"),
        ({"unit": "person"}, PrivacyError, "no column 'person'"),
        ({"delta": 0.0}, NotSupported, "delta > 0"),
        ({"level": 1.5}, ValueError, "level"),
        ({"bins": 1}, ValueError, "bins"),
    ],
)
def test_bad_settings_are_refused(settings, error, message):
    about = {"columns": COLUMNS, "unit": "patient", "epsilon": 1.0} | settings
    with pytest.raises(error, match=message):
        discreet.describe(visits(), **about)


def test_forms_of_the_table():
    table = visits().rename(columns={"sex": "sex_%"})
    columns = {**COLUMNS, "sex_%": ["F", "<M>"]}
    del columns["sex"]
    found = discreet.describe(table, columns=columns, unit="patient", by="ward", epsilon=1.0)
    text = str(found)
    assert "age\n  mean (SD)" in text
    assert "ε = 1, δ = 1e-06" in text
    assert "sex\\_\\%, n (\\%)" in found.to_latex()
    assert "\\quad F" in found.to_latex()
    assert "&lt;M&gt;" in found.to_html()
    assert found.to_html() == found._repr_html_()
    # the group of other wards is empty, and not shown
    assert "(other or missing)" in found.groups
    assert "(other or missing)" not in text.partition("--")[0]
    narrow = found.text(60)
    assert max(len(line) for line in narrow.splitlines()) <= 60
    assert narrow.count("age\n") == len(found.shown)
    frame = found.to_frame()
    assert list(frame.columns) == [
        "column", "level", "group", "statistic", "estimate", "low", "high"
    ]  # fmt: skip
    assert (frame["low"] <= frame["high"]).all()


def test_quantiles_of_whole_numbers_are_whole():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"visits": rng.poisson(2, 5000), "x": rng.random(5000)})
    found = discreet.describe(table, columns={"visits": (0, 20), "x": (0, 1)}, epsilon=10)
    own = numbers(found)
    exact = table["visits"].quantile([0.25, 0.5, 0.75]).tolist()
    assert [own["visits", None, f"q{q}"] for q in (25, 50, 75)] == exact
    assert "2 [1, 3]" in str(found)


def test_files_are_described_by_what_is_declared_of_them(tmp_path):
    table = visits()
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    columns = COLUMNS | {"again": ["True", "False"]}
    about = {"unit": "patient", "by": "ward", "epsilon": 1e4}
    of_csv = discreet.describe(tmp_path / "t.csv", columns=COLUMNS, **about)
    of_parquet = discreet.describe(tmp_path / "t.parquet", columns=columns, **about)
    memory = discreet.describe(table, columns=columns, **about)
    for found in (of_csv, of_parquet):
        own = numbers(found)
        for key in (("n", None, "n"), ("age", None, "mean"), ("sex", "F", "n")):
            assert own[key] == pytest.approx(numbers(memory)[key], rel=1e-3)
    assert ("again", "True", "n") in numbers(of_parquet)
    assert ("again", "True", "n") not in numbers(of_csv)
    with pytest.raises(PrivacyError, match="no column 'who'"):
        discreet.describe(tmp_path / "t.csv", columns=COLUMNS, unit="who", epsilon=1.0)


def test_a_count_is_shown_where_it_is_three_deviations_of_the_noise_above_none():
    half = 1.96

    def seen(count):
        entry = Entry("x", "(missing)", "all", "n", count, max(count - half, 0.0), count + half)
        return _is_seen([{"n": entry}], "n")

    assert not seen(2.9)
    assert seen(3.0)
