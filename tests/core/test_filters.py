"""No sequence of requests ever gets more than the budget."""

import math
import threading
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.accounting.budget import PrivacyLoss
from discreet.core.account import PrivacyFilter
from discreet.errors import BudgetExceeded, PrivacyError

MEASURES = ["pure", "zcdp", "gdp"]


@dataclass(frozen=True)
class Request:
    """A mechanism that costs the same number in every measure."""

    amount: float
    delta: float = 0.0
    name: str = "request"

    @property
    def loss(self):
        return PrivacyLoss(self.amount, self.amount, self.amount, self.delta)


def unit_cost(measure: str, amount: float) -> Fraction:
    return Fraction(amount) ** 2 if measure == "gdp" else Fraction(amount)


costs = st.floats(min_value=0, max_value=2, allow_nan=False) | st.floats(1e-18, 1e-15)


class HalfWay(Exception):
    pass


@settings(max_examples=200, deadline=None)
@given(
    measure=st.sampled_from(MEASURES),
    total=st.floats(1e-6, 10),
    requests=st.lists(st.tuples(costs, st.booleans()), max_size=60),
)
def test_no_sequence_gets_more_than_the_total(measure, total, requests):
    filter_ = PrivacyFilter(measure, total)
    granted = Fraction(0)
    for amount, fails in requests:
        before = list(filter_.uses)
        cost = unit_cost(measure, amount)
        try:
            filter_.charge(Request(amount))
            granted += cost
            if fails:
                raise HalfWay  # the answer is never delivered, but may have been computed
        except BudgetExceeded:
            assert granted + cost > Fraction(total)  # refused only what does not fit
            assert filter_.uses == before  # and changed nothing
        except HalfWay:
            assert len(filter_.uses) == len(before) + 1  # stays spent
        assert granted <= Fraction(total)
    assert sum(unit_cost(measure, m.amount) for m, _ in filter_.uses) == granted


@settings(max_examples=20, deadline=None)
@given(measure=st.sampled_from(MEASURES), amount=st.floats(0.01, 0.3), threads=st.integers(2, 8))
def test_concurrent_requests_share_one_total(measure, amount, threads):
    filter_ = PrivacyFilter(measure, 1.0)
    start = threading.Barrier(threads)
    granted = []

    def ask():
        start.wait()
        for _ in range(200):
            try:
                filter_.charge(Request(amount))
            except BudgetExceeded:
                return
            granted.append(amount)

    workers = [threading.Thread(target=ask) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    cost = unit_cost(measure, amount)
    assert len(granted) == min(200 * threads, int(1 / cost))
    assert len(filter_.uses) == len(granted)


def test_adaptive_requests_that_use_what_is_left_exactly():
    filter_ = PrivacyFilter("zcdp", 0.1)
    filter_.charge(Request(0.1))
    assert filter_.spent_share == 1
    with pytest.raises(BudgetExceeded):
        filter_.charge(Request(math.ulp(0.0)))


def test_many_tiny_requests_do_not_slip_through_rounding():
    # In floats 1 + 2^-60 == 1, so a float total would grant these for ever.
    filter_ = PrivacyFilter("zcdp", 1.0 + 2.0**-50)
    filter_.charge(Request(1.0))
    tiny = Request(2.0**-60)
    for _ in range(2**10):
        filter_.charge(tiny)
    with pytest.raises(BudgetExceeded):
        filter_.charge(tiny)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("amount", [math.nan, math.inf, -1.0])
def test_costs_that_are_no_costs_are_refused(measure, amount):
    filter_ = PrivacyFilter(measure, 1.0)
    with pytest.raises(PrivacyError, match="no guarantee"):
        filter_.charge(Request(amount))
    assert filter_.spent_share == 0


@pytest.mark.parametrize("total", [0.0, -1.0, math.nan, math.inf])
def test_bad_totals(total):
    with pytest.raises(ValueError, match="total"):
        PrivacyFilter("zcdp", total)


def test_unknown_measure():
    with pytest.raises(ValueError, match="measure"):
        PrivacyFilter("renyi", 1.0)


def test_gdp_adds_squares():
    filter_ = PrivacyFilter("gdp", 1.0)
    for _ in range(4):
        filter_.charge(Request(0.5))
    with pytest.raises(BudgetExceeded):
        filter_.charge(Request(0.01))


@settings(max_examples=100, deadline=None)
@given(
    requests=st.lists(st.tuples(st.floats(0, 0.2), st.sampled_from([0.0, 1e-7, 3e-7, 2e-6]))),
    total_delta=st.sampled_from([0.0, 1e-6]),
)
def test_both_parts_of_a_pair_stay_within_their_totals(requests, total_delta):
    filter_ = PrivacyFilter("approximate", 1.0, total_delta)
    spent = [Fraction(0), Fraction(0)]
    for request in requests:
        wanted = [old + Fraction(new) for old, new in zip(spent, request, strict=True)]
        if wanted[0] <= 1 and wanted[1] <= Fraction(total_delta):
            filter_.charge(Request(*request))
            spent = wanted
        else:
            with pytest.raises(BudgetExceeded, match="δ = "):
                filter_.charge(Request(*request))
    assert sum(Fraction(mechanism.delta) for mechanism, _ in filter_.uses) == spent[1]


def test_a_delta_counts_for_every_use_and_only_where_there_is_one():
    filter_ = PrivacyFilter("approximate", 100.0, 1e-6)
    filter_.charge(Request(0.1, 2.0**-22), times=4)  # 4·2^-22 is just below 1e-6
    with pytest.raises(BudgetExceeded):
        filter_.charge(Request(0.1, 2.0**-22))
    with pytest.raises(PrivacyError, match="no guarantee"):
        PrivacyFilter("pure", 100.0).charge(Request(0.1, 1e-9))


@pytest.mark.parametrize("measure", MEASURES)
def test_a_closed_filter_is_charged_no_more(measure):
    """Closing says whether there ever was a charge; that must stay true."""
    filter_ = PrivacyFilter(measure, 1.0)
    assert filter_.close()
    with pytest.raises(PrivacyError, match="closed"):
        filter_.charge(Request(0.1))
    assert filter_.uses == []
    assert filter_.spent_share == 0
    assert filter_.close()
    used = PrivacyFilter(measure, 1.0)
    used.charge(Request(0.0))  # a use that costs nothing is a use
    assert not used.close()
