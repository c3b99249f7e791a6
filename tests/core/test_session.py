"""A session: one account, one source of bits, and curators of rows of its unit only."""

from fractions import Fraction

import numpy as np
import pytest

from discreet.core import Budget, Gaussian
from discreet.core.bits import SeededBits, SystemBits
from discreet.core.questions import RowSum
from discreet.core.session import Session, bits_of
from discreet.errors import PrivacyError
from discreet.rows import RowWeights, as_rows

BUDGET = Budget(1.0, 1e-6, "add_remove")
X = np.random.default_rng(0).normal(size=(30, 2))


def rows(**settings):
    return as_rows(X, np.ones(30), fit_intercept=False, row_norm=1.0, **settings)


def people():
    return rows(weights=RowWeights.of(np.full(30, 0.5), 15))


def row_sum(curator, measure="gdp"):
    curator.open(measure)
    return curator.ask(RowSum(1.0), Gaussian(20.0)).values


def test_bits_are_those_of_the_operating_system_or_of_a_seed():
    assert isinstance(bits_of(None), SystemBits)
    for seed in (7, np.int64(7), np.random.RandomState(7)):
        assert isinstance(bits_of(seed), SeededBits)
        assert bits_of(np.random.RandomState(7)).words(3).tolist() == bits_of(7).words(3).tolist()
    for wrong in ("7", 1.5, np.random.default_rng(7)):
        with pytest.raises(ValueError, match="random_state must be"):
            bits_of(wrong)
    assert Session(BUDGET).secure
    assert not Session(BUDGET, bits=bits_of(0)).secure


def test_rows_of_another_unit_are_refused():
    with pytest.raises(PrivacyError, match="unit 'person', but the account promises 'row'"):
        Session(BUDGET).curator(people())
    with pytest.raises(PrivacyError, match="unit 'row', but the account promises 'person'"):
        Session(BUDGET, "person").curator(rows())
    row_sum(Session(BUDGET, "person").curator(people()))


def test_streams_are_independent_and_repeat_with_the_seed():
    def answers():
        session = Session(BUDGET, bits=SeededBits(3))
        half = Fraction(1, 2)
        made = [session.curator(rows(), stream, half) for stream in session.streams(2)]
        return [row_sum(curator).tolist() for curator in made]

    first, second = answers()
    assert first != second
    assert answers() == [first, second]


def test_shares_of_a_session_are_at_most_all_of_it():
    session = Session(BUDGET)
    row_sum(session.curator(rows(), share=Fraction(2, 3)))
    with pytest.raises(PrivacyError, match="share"):
        session.curator(rows(), share=Fraction(1, 2)).open("gdp")


def test_whoever_holds_a_stream_cannot_draw_from_it():
    [stream] = Session(BUDGET).streams(1)
    assert [name for name in dir(stream) if not name.startswith("_")] == []
