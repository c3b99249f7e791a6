"""Dates: cells of every library and form are the same times, and no refusal shows a cell."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.card.descriptions import describe_columns
from discreet.errors import TableError
from discreet.tables import Date, Numeric, Schema
from discreet.tables.dates import moments

TIMES = ["2015-01-01T00:00:00", "2017-07-04T13:30:00", "2019-12-31T23:59:59", "1999-02-28T05:00:00"]
PARTS = ("month", "weekday", "hour")


def encoded(column, cells, **settings):
    table = cells if hasattr(cells, "columns") or isinstance(cells, pa.Table) else {"t": cells}
    return Schema({"t": column}, **settings).transformer(sparse=False).transform(table)


def by_python(column, times):
    """Encode times by the standard library alone."""
    names = column.feature_names("t")
    low, high = (datetime.datetime.fromisoformat(end) for end in (column.low, column.high))
    rows = np.zeros((len(times), len(names)))
    for row, text in zip(rows, times, strict=True):
        time = datetime.datetime.fromisoformat(text)
        row[0] = (min(max(time, low), high) - low) / (high - low)
        for name in (f"t.month={time:%b}", f"t.weekday={time:%a}", f"t.hour={time.hour}"):
            row[names.index(name)] = 1
    return rows


TYPED = pd.to_datetime(TIMES)
FORMS = {
    "pandas": pd.DataFrame({"t": TYPED}),
    "pandas in Tokyo": pd.DataFrame({"t": TYPED.tz_localize("UTC").tz_convert("Asia/Tokyo")}),
    "polars": pl.DataFrame({"t": list(TYPED.to_pydatetime())}),
    "polars in nanoseconds": pl.DataFrame({"t": TYPED.astype("datetime64[ns]").to_numpy()}),
    "texts": TIMES,
    "texts with zones": [f"{text}Z" for text in TIMES],
    "texts in Tokyo": [
        time.isoformat() for time in TYPED.tz_localize("UTC").tz_convert("Asia/Tokyo")
    ],
    "objects": list(TYPED.to_pydatetime()),
    "dictionary": pa.table({"t": pa.array(TYPED).dictionary_encode()}),
    "seconds": pa.table({"t": pa.array(TYPED).cast(pa.timestamp("s"))}),
}


@pytest.mark.parametrize("form", FORMS)
def test_times_of_all_libraries_are_the_same(form):
    column = Date("2010-01-01", "2020-01-01", parts=PARTS)
    assert np.abs(encoded(column, FORMS[form]) - by_python(column, TIMES)).max() < 1e-12


@given(st.lists(st.datetimes(datetime.datetime(1600, 1, 1)), min_size=1, max_size=20))
@settings(deadline=None)
def test_any_time_is_encoded_by_its_own_content(times):
    column = Date("1900-01-01", "2100-01-01", parts=PARTS)
    texts = [time.isoformat() for time in times]
    whole = encoded(column, texts)
    assert np.abs(whole - by_python(column, texts)).max() < 1e-12
    alone = np.vstack([encoded(column, [text]) for text in texts])
    assert (whole == alone).all()
    typed = encoded(column, pa.table({"t": pa.array(times, pa.timestamp("us"))}))
    assert (typed == whole).all()


def test_dates_without_bounds_are_days_since_2000():
    cells = [datetime.date(2000, 1, 1), datetime.date(2000, 1, 11), datetime.date(1999, 12, 31)]
    for kind in (pa.date32(), pa.date64()):
        days = encoded(Date(), pa.table({"t": pa.array(cells, kind)}))
        assert days.ravel().tolist() == [0.0, 10.0, -1.0]
    years = encoded(Date(per="year"), pa.table({"t": cells})).ravel()
    assert years == pytest.approx(np.array([0, 10, -1]) / 365.2425)


def test_the_unit_of_the_trend_is_a_day_or_a_year():
    for per, length in (("day", 1461.0), ("year", 1461 / 365.2425)):
        trend = Date("2000-01-01", "2004-01-01", per=per).trend
        assert trend.high - trend.low == pytest.approx(length)
        assert trend.decoded([0.0, 1.0]) == pytest.approx([0.0, length])


def test_a_declared_form_reads_texts():
    column = Date("2015-01-01", "2016-01-01", format="%d.%m.%Y")
    assert encoded(column, ["01.01.2015", " 31.12.2015 "]).ravel() == pytest.approx([0, 364 / 365])
    with pytest.raises(TableError, match="not a date"):
        encoded(column, ["2015-01-01"])


@pytest.mark.parametrize("cell", ["17.03.1987", "soon", "2015-02-30", "1987"])
def test_a_text_that_is_no_date_is_refused_and_not_shown(cell):
    with pytest.raises(TableError, match="'t': a cell is not a date") as caught:
        encoded(Date(), ["2015-01-01", cell])
    assert cell not in str(caught.value)


def test_invalid_and_missing_cells_are_marked():
    column = Date("2015-01-01", "2016-01-01", ["month"], missing=True, invalid="missing")
    found = encoded(column, ["2016-01-01", "soon", None, ""])
    assert column.feature_names("t")[:3] == ["t", "t=(missing)", "t.month=Jan"]
    assert found[:, :3].tolist() == [[1, 0, 1], [0, 1, 0], [0, 1, 0], [0, 1, 0]]
    assert not found[1:, 2:].any()


def test_missing_cells_are_never_a_date_of_1970():
    typed = pd.DataFrame({"t": pd.to_datetime(["2016-01-01", None])})
    found = encoded(Date("2015-01-01", "2016-01-01", ["weekday"], missing=True), typed)
    assert found[1].tolist() == [0, 1, *[0] * 7]


@pytest.mark.parametrize(
    "cells", [[1, 2], pa.array([1, 2], pa.duration("s")), pa.array([1, 2], pa.time32("s"))]
)
def test_cells_of_other_types_are_refused(cells):
    with pytest.raises(TableError, match="column 't' is of type"):
        encoded(Date(), pa.table({"t": cells}))


def test_nothing_at_all_is_missing():
    column = Date(missing=True)
    assert moments(pa.nulls(3), column, ()).absent.all()
    assert encoded(column, pa.table({"t": pa.nulls(3)})).tolist() == [[0, 1]] * 3


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"low": "2015-01-01"}, "give both low and high"),
        ({"low": "2016-01-01", "high": "2015-01-01"}, "low must be before high; got low = 2016"),
        ({"low": "soon", "high": "2015-01-01"}, "low must be a date such as"),
        ({"low": 2015, "high": 2016}, "low must be a date such as"),
        ({"parts": ["mont"]}, "did you mean 'month'"),
        ({"parts": "month"}, "parts must be a list"),
        ({"per": "week"}, "per must be"),
        ({"invalid": "missing"}, "needs missing = true"),
    ],
)
def test_wrong_declarations(settings, match):
    with pytest.raises(ValueError, match=match):
        Date(**settings)


def test_bounds_are_dates_times_or_texts():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    column = Date(datetime.date(2015, 1, 1), datetime.datetime(2016, 1, 1, 2, tzinfo=zone))
    assert column == Date("2015-01-01", "2016-01-01")


def test_a_schema_file_has_dates_of_its_own_or_texts():
    column = Date("2015-01-01", "2016-01-01T06:00", ["hour"], per="year", format="%Y")
    schema = Schema({"t": column, "x": Numeric(0, 1)})
    assert Schema.from_toml(schema.to_toml()) == schema
    text = "version = 1\n[columns.t]\nkind = 'date'\nlow = 2015-01-01\nhigh = 2016-01-01"
    assert Schema.from_toml(text).columns["t"] == Date("2015-01-01", "2016-01-01")
    assert Schema.from_toml("version = 1\n[columns.t]\nkind = 'date'").unbounded == (0,)


def test_groups_bound_the_norm_of_a_row():
    schema = Schema({"t": Date("2015-01-01", "2016-01-01", PARTS), "x": Numeric(0, 1)})
    assert schema.groups == 5
    assert schema.width == 1 + 12 + 7 + 24 + 1
    rows = schema.transformer(sparse=False).transform({"t": ["2016-01-01T12:00"], "x": [1.0]})
    assert np.linalg.norm(rows) == schema.max_norm
    packed = schema.transformer(sparse=True).transform({"t": ["2016-01-01T12:00"], "x": [1.0]})
    assert packed.nnz == 5
    assert (packed.toarray() == rows).all()


def test_a_text_file_of_dates(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text("t,x\n2015-07-02,1\n?,0\n")
    column = Date("2015-01-01", "2016-01-01", missing=True)
    schema = Schema.from_dict(
        {
            "version": 1,
            "file": {"missing": ["?"]},
            "columns": {
                "t": {"kind": "date", "low": column.low, "high": column.high, "missing": True},
                "x": {"kind": "numeric", "low": 0, "high": 1},
            },
        }
    )
    rows, _, _ = schema.open(path, dtype="float64")
    assert rows[:, :2] == pytest.approx(np.array([[182 / 365, 0], [0, 1]]))


def test_a_date_is_described_and_is_no_target():
    schema = Schema({"t": Date("2015-01-01", "2016-01-01", ["month"]), "x": Numeric(0, 1)})
    assert describe_columns(schema)[0] == ("t", "date", "2015-01-01 to 2016-01-01, month as levels")
    with pytest.raises(ValueError, match="holds dates"):
        schema.with_target("t")
