"""Ids that name the same privacy unit, however they are written."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from discreet.ids import compared


def numbered(ids):
    """Return the number of each id in the order of their first appearance."""
    found = [compared(value) for value in ids]
    assert len({kind for kind, _ in found}) == 1
    order = list(dict.fromkeys(found))
    return [order.index(each) for each in found]


SAME_NUMBER = [
    ("0", "-0", "00", "0.0", ".0", "0e9", "-0e-9"),
    ("1", "01", "+1", "1.", "1.0", "10e-1", "0.1E1", "1e+00", "\t1\n"),
    ("1200", "1.2e3", "12e2", "01200.00"),
    ("-1.5", "-1.50", "-15e-1"),
    ("12345678901234567891",),  # as floats, these two are equal
    ("12345678901234567892",),
    ("1e400", "1" + "0" * 400, "0." + "0" * 99 + "1e500"),
    ("1e500", "10e499", "1" + "0" * 500),
    ("1e999999999", "10e999999998"),
    ("1e-999999999",),
]
"""Texts of one number each, which are one id."""

NO_NUMBERS = ["", ".", "e1", "1e", "+", "1_0", "0x1", "1,0", "nan", "inf", "-", "1.2.3", "١"]


def test_texts_are_compared_by_their_number():
    ids = [text for texts in SAME_NUMBER for text in texts] + NO_NUMBERS
    expected = [k for k, texts in enumerate(SAME_NUMBER) for _ in texts]
    expected += range(len(SAME_NUMBER), len(SAME_NUMBER) + len(NO_NUMBERS))
    assert numbered(ids) == expected


@given(
    st.from_regex(r"[+-]?[0-9]{1,30}(\.[0-9]{0,30})?(e[+-]?[0-9]{1,3})?", fullmatch=True),
    st.from_regex(r"[+-]?[0-9]{1,4}(\.[0-9]{0,3})?(e[+-]?[0-9])?", fullmatch=True),
)
@example("1e400", "1")
def test_two_texts_are_one_id_if_and_only_if_their_numbers_are_equal(first, second):
    with decimal.localcontext(prec=2000):
        shortest = str(decimal.Decimal(first).normalize())
        for other in (second, shortest, f"00{first.lstrip('+-')}"):
            equal = decimal.Decimal(first) == decimal.Decimal(other)
            assert (compared(first) == compared(other)) == equal


@given(st.text())
def test_a_compared_text_is_compared_as_itself(text):
    once = compared(text)
    assert compared(once.value) == once


NOON = datetime.datetime(2020, 1, 5, 12)
UTC = datetime.UTC
ZONE = datetime.timezone(datetime.timedelta(hours=-5))


def test_times_are_compared_as_instants():
    naive = [
        NOON,
        pd.Timestamp(NOON),
        np.datetime64(NOON, "ns"),
        np.datetime64("2020-01-05T12", "h"),
        pd.Timestamp(NOON) + pd.Timedelta(1, "ns"),  # another
        datetime.date(2020, 1, 5),
        datetime.datetime(2020, 1, 5),
        np.datetime64("2020-01-05"),
        np.datetime64("2020-01", "M"),
        datetime.date(2020, 1, 1),
    ]
    assert numbered(naive) == [0, 0, 0, 0, 1, 2, 2, 2, 3, 3]
    aware = [
        NOON.replace(tzinfo=UTC),
        datetime.datetime(2020, 1, 5, 7, tzinfo=ZONE),
        pd.Timestamp(NOON, tz="UTC"),
        pd.Timestamp("2020-01-05 13:00", tz="Europe/Berlin"),
        NOON.replace(tzinfo=ZONE),
    ]
    assert numbered(aware) == [0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, "1"),
        (b"1", "1"),
        (NOON, NOON.replace(tzinfo=UTC)),
        (pd.Timestamp(NOON), pd.Timestamp(NOON, tz="UTC")),
        (NOON, "2020-01-05T12:00:00"),
        (("a", 1), ("a", "1")),
    ],
)
def test_kinds_are_told_apart(one, other):
    assert compared(one).kind != compared(other).kind
