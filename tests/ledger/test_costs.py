"""Costs, totals and the filters of a limit."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from discreet.accounting import conversions
from discreet.core import Budget, Relation
from discreet.errors import PrivacyError
from discreet.ledger.balance import largest
from discreet.ledger.costs import CostTotals, PrivacyCost, _composed
from discreet.ledger.limits import DatasetSettings, Limits

LIMIT = Budget(3.0, 1e-6, "add_remove")
FIT = Budget(0.5, 1e-6, "add_remove")
LOSSES = {
    "gdp": PrivacyCost("gdp", Fraction(0.01)),
    "zcdp": PrivacyCost("zcdp", Fraction(0.01)),
    "pure": PrivacyCost("pure", Fraction(0.1)),
    "approximate": PrivacyCost("approximate", Fraction(0.1), Fraction(1e-8)),
}


def sum_of(losses):
    totals = CostTotals()
    for loss in losses:
        totals = totals.plus(loss)
    return totals


def test_losses_in_every_measure():
    assert LOSSES["gdp"].squared_mu == Fraction(0.01)
    assert LOSSES["gdp"].rho == Fraction(0.01) / 2
    assert LOSSES["zcdp"].squared_mu is None
    assert LOSSES["zcdp"].rho == Fraction(0.01)
    mu = -2 * norm.ppf(1 / (1 + math.exp(0.1)))
    assert float(LOSSES["pure"].squared_mu) == pytest.approx(mu**2, rel=1e-9)
    for name in ("pure", "approximate"):
        assert float(LOSSES[name].rho) == pytest.approx(0.1 * math.tanh(0.05))
    assert LOSSES["approximate"].squared_mu is None


@pytest.mark.parametrize(
    ("loss", "grouped"),
    [
        (LOSSES["gdp"], (Fraction(0.01) * 9, 0)),
        (LOSSES["zcdp"], (Fraction(0.01) * 9, 0)),
        (LOSSES["pure"], (Fraction(0.1) * 3, 0)),
        (LOSSES["approximate"], (Fraction(0.1) * 3, 1e-8 * (1 + math.exp(0.1) + math.exp(0.2)))),
    ],
)
def test_group_privacy(loss, grouped):
    three = loss.grouped(3)
    assert three.total == grouped[0]
    assert float(three.delta) == pytest.approx(grouped[1], rel=1e-9)
    assert three.delta >= Fraction(grouped[1]) * (1 - Fraction(1, 2**50))
    assert loss.grouped(1) == loss


def test_group_privacy_of_a_pair_of_normals():
    # μ-GDP for one row: three rows are means 3μ apart, which is what the bound says.
    mu = 0.4
    loss = PrivacyCost("gdp", Fraction(mu) ** 2).grouped(3)
    assert math.sqrt(loss.total) == pytest.approx(3 * mu)


@pytest.mark.parametrize(
    "wrong",
    [
        ("gdp", 0.0, 0.0),
        ("gdp", math.inf, 0.0),
        ("zcdp", 0.1, 1e-6),
        ("gdp", 0.1, 1e-6),
        ("pure", 0.1, 1e-6),
        ("pure", -1.0, 0.0),
        ("approximate", 1.0, 1.0),
        ("profile", 1.0, 0.0),
    ],
)
def test_no_costs(wrong):
    with pytest.raises((ValueError, OverflowError)):
        PrivacyCost(*wrong)


def test_a_group_without_a_guarantee_is_refused():
    with pytest.raises(PrivacyError, match="no δ below 1"):
        PrivacyCost("approximate", Fraction(5), Fraction(1e-3)).grouped(4)
    with pytest.raises(PrivacyError, match="nothing is known"):
        PrivacyCost("approximate", Fraction(500), Fraction(1e-3)).grouped(4)


@given(st.lists(st.sampled_from(sorted(LOSSES)), max_size=20), st.randoms())
def test_totals_are_sums_and_entries_can_leave_again(names, random):
    totals = sum_of(LOSSES[name] for name in names)
    assert CostTotals.from_dict(totals.to_dict()) == totals
    assert totals.rho == sum((LOSSES[name].rho for name in names), Fraction(0))
    random.shuffle(names)
    for name in names:
        totals = totals.plus(LOSSES[name], sign=-1)
    assert totals == CostTotals()


def test_the_parts_of_delta_do_not_exceed_it():
    for share in (0.0, 0.3, 0.75, 1.0):
        limits = Limits.of(LIMIT, share)
        parts = limits.gaussian_delta + limits.zcdp_delta + limits.delta
        parts += sum(each.delta for each in limits.mixed)
        assert parts == sum(limits.parts_of_delta)
        assert parts <= Fraction(LIMIT.delta)
        assert float(parts) == pytest.approx(LIMIT.delta)
        assert limits.gaussian_delta == pytest.approx(share * LIMIT.delta)
        assert Limits.from_dict(limits.to_dict()) == limits
        if limits.squared_mu:
            mu = math.sqrt(limits.squared_mu)
            assert conversions.epsilon_from_mu(mu, limits.gaussian_delta) <= 3.0 * (1 + 1e-12)
        if limits.rho:
            assert conversions.epsilon_from_rho(float(limits.rho), limits.zcdp_delta) <= 3.0
        for each in limits.mixed:
            rest = conversions.epsilon_from_mu(math.sqrt(each.squared_mu), each.delta)
            assert rest + each.epsilon <= 3.0 * (1 + 1e-12)
            assert rest + each.epsilon >= 3.0 * (1 - 1e-9)
        assert len(limits.mixed) == (3 if 0 < share < 1 else 0)


def test_the_default_shares():
    limits = Limits.of(LIMIT, 0.5)
    assert float(limits.gaussian_delta) == pytest.approx(5e-7)
    assert float(limits.delta) == pytest.approx(1.25e-7)
    assert float(limits.zcdp_delta) == pytest.approx(1.25e-7)
    assert [float(each.epsilon) for each in limits.mixed] == [0.375, 0.75, 1.5]
    assert math.sqrt(limits.squared_mu / Limits.of(LIMIT, 1.0).squared_mu) > 0.972


def admitted(limits, loss, totals=None):
    """Count the entries that follow one another until one is refused, or a thousand are not."""
    totals, count = totals or CostTotals(), 0
    while count < 1000 and limits.admits(totals, loss):
        totals, count = totals.plus(loss), count + 1
    return count, totals


def test_ten_fits_cost_the_root_of_ten():
    loss = PrivacyCost.of(FIT, "gdp")
    ten = sum_of([loss] * 10)
    assert ten.at(1e-6) == pytest.approx(
        conversions.epsilon_from_mu(math.sqrt(10) * FIT.to_gdp().mu, 1e-6)
    )
    assert 3.1 < ten.at(1e-6) / 0.5 < 3.7


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", sorted(LOSSES))
def test_no_filter_exceeds_the_limit(share, name):
    limits = Limits.of(LIMIT, share)
    count, totals = admitted(limits, LOSSES[name])
    assert totals.at(LIMIT.delta) <= LIMIT.epsilon or count == 0
    assert count == 0 or limits.spent(totals) <= LIMIT.epsilon
    if name == "gdp":  # compared with the number of fits that could be allowed if it were fixed
        most = LIMIT.to_gdp().mu ** 2 / 0.01
        floor = {0.0: 0.8, 0.5: 0.94, 1.0: 0.99}[share]
        assert floor * most - 1 <= count <= most


def test_leaving_gaussian_dp_needs_the_zcdp_limit_for_all_entries():
    limits = Limits.of(LIMIT, 0.5)
    _, full = admitted(limits, LOSSES["gdp"])
    assert not limits.admits(full, LOSSES["zcdp"])  # all of μ² is spent: that is more than ρ
    half = sum_of([LOSSES["gdp"]] * (full.entries // 2))
    assert limits.admits(half, LOSSES["zcdp"])
    count, after = admitted(limits, LOSSES["zcdp"], half)
    assert count > 0
    assert after.rho <= limits.rho < after.rho + Fraction(0.01)
    assert after.rho - half.rho == Fraction(0.01) * count


def test_a_delta_of_its_own_is_counted_apart():
    limits = Limits.of(LIMIT, 0.5)
    loss = PrivacyCost("approximate", Fraction(1, 1000), Fraction(3e-8))
    count, totals = admitted(limits, loss)
    assert count == 4  # of 1.25e-7
    assert totals.delta <= limits.delta


def test_the_first_entry_may_take_the_whole_limit():
    limits = Limits.of(FIT, 0.5)
    for measure in ("gdp", "zcdp", "approximate"):
        loss = PrivacyCost.of(FIT, measure)
        count, totals = admitted(limits, loss)
        assert count == 1
        assert limits.spent(totals) == pytest.approx(FIT.epsilon)
        assert limits.spent(totals) <= FIT.epsilon
        tiny = PrivacyCost("gdp", Fraction(1, 10**6))
        assert not limits.admits(totals, tiny)
        assert not limits.admits(sum_of([tiny]), loss)  # no longer the first
        more = Budget(FIT.epsilon * (1 + 1e-9), FIT.delta, "add_remove")
        assert not limits.admits(CostTotals(), PrivacyCost.of(more, measure))
    assert not limits.admits(
        CostTotals(), PrivacyCost("approximate", Fraction(0.1), Fraction(1.1e-6))
    )


def test_a_few_large_pairs_are_added_up():
    limits = Limits.of(LIMIT, 0.5)
    loss = PrivacyCost("approximate", Fraction(1), Fraction(1e-8))
    count, totals = admitted(limits, loss)
    assert count == 3
    assert limits.spent(totals) == 3.0
    assert not limits.admits(totals, LOSSES["pure"])
    assert not limits.admits(totals, LOSSES["gdp"])
    heavy = PrivacyCost("approximate", Fraction(1), Fraction(1e-7))
    assert admitted(limits, heavy)[0] == 1  # of 1.25e-7 for δ
    two = sum_of([loss, loss])
    assert not limits.admits(two, LOSSES["gdp"])  # a μ is no (ε, δ), and 2 is more than 3/2


def test_pure_limits_add_up_pure_entries():
    limits = Limits.of(Budget(1.0, 0.0, "add_remove"), 0.75)
    count, totals = admitted(limits, PrivacyCost("pure", Fraction(1, 4)))
    assert count == 4
    assert limits.spent(totals) == 1.0
    for name in ("gdp", "zcdp", "approximate"):
        assert not limits.admits(CostTotals(), LOSSES[name])


def gaussian_delta(mu, epsilon):
    """δ of the Gaussian mechanism at any ε, negative ones included."""
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def exact_delta(epsilon, mu, pure=(), leaks=()):
    """δ at ε of a Gaussian, randomised responses, and leaks of everything, all composed.

    These are worst cases of μ-GDP, of ε-DP and (with a leak) of (ε, δ)-DP.
    """
    losses, weights = np.zeros(1), np.ones(1)
    for each in pure:
        truth = 1 / (1 + math.exp(-each))
        losses = np.concatenate([losses + each, losses - each])
        weights = np.concatenate([weights * truth, weights * (1 - truth)])
    if mu > 0:
        found = weights @ gaussian_delta(mu, epsilon - losses)
    else:
        found = weights @ np.maximum(0.0, -np.expm1(epsilon - losses))
    kept = math.prod(1 - leak for leak in leaks)
    return float(1 - kept + kept * found)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("parts", [1, 6])
def test_a_mixed_filter_keeps_its_part_of_delta(share, number, parts):
    """Pure entries up to a mixed filter's ε, then all the μ² that it admits: exact δ at ε."""
    limits = Limits.of(LIMIT, share)
    own = limits.mixed[number]
    only = replace(limits, squared_mu=Fraction(0), rho=Fraction(0), mixed=(own,))
    pure = PrivacyCost("pure", own.epsilon / parts)
    totals = sum_of([LOSSES["gdp"]])
    pures = 0
    while pures < 100 and only.admits(totals, pure):
        totals, pures = totals.plus(pure), pures + 1
    for step in (Fraction(1, 10**4), Fraction(1, 10**7)):
        small = PrivacyCost("gdp", step)
        while totals.gdp < 1 and only.admits(totals, small):
            totals = totals.plus(small)
    mu = math.sqrt(totals.gdp)
    found = exact_delta(3.0, mu, [float(pure.total)] * min(pures, 12))
    assert found <= own.delta
    assert pures == parts
    if parts == 1:  # randomised response tells the truth with e^ε/(1 + e^ε): no more is lost
        truth = 1 / (1 + math.exp(-float(own.epsilon)))
        assert found >= 0.999 * truth * float(own.delta)


def test_a_mixed_filter_takes_pairs_and_refuses_zcdp():
    limits = replace(Limits.of(LIMIT, 0.5), rho=Fraction(0))
    fit = PrivacyCost.of(Budget(1.0, 1e-6, "add_remove"), "gdp")
    pair = PrivacyCost("approximate", Fraction(0.5), Fraction(1e-8))
    totals = sum_of([fit, pair])
    assert limits.holds(totals)
    assert limits.admits(totals, pair)
    assert limits.admits(totals, LOSSES["gdp"])
    assert not limits.admits(totals, LOSSES["zcdp"])
    assert not limits.admits(totals, PrivacyCost("approximate", Fraction(0.01), Fraction(1.2e-7)))
    assert not limits.admits(totals, PrivacyCost("approximate", Fraction(1.01), Fraction(1e-8)))
    assert not limits.admits(totals, PrivacyCost("gdp", limits.mixed[1].squared_mu))


def test_the_adaptive_choice_of_a_filter_is_paid_for():
    """An analyst who chooses the filter by the results stays within δ.

    After one Gaussian answer the analyst goes on with a Gaussian that takes the rest of μ², with
    one in zCDP that takes the rest of ρ, or with a pure release and a Gaussian that take all of a
    mixed filter, whichever leaks most. The δ of that strategy is an integral over the first answer;
    with the whole of δ for each filter it could exceed δ.
    """
    limits = Limits.of(LIMIT, 0.5)
    first = 0.5 * float(limits.mixed[-1].squared_mu)  # μ² of the first answer
    rest = float(limits.squared_mu) - first
    rho = float(limits.rho) - first / 2
    loss = np.linspace(-12, 12, 4001) * math.sqrt(first) + first / 2
    weight = norm.pdf(loss, first / 2, math.sqrt(first)) * (loss[1] - loss[0])
    left = LIMIT.epsilon - loss
    ways = [
        [conversions.delta_from_mu(math.sqrt(rest), e) if e > 0 else 1.0 for e in left],
        [conversions.delta_from_rho(rho, e) if e > 0 else 1.0 for e in left],
    ]
    for each in limits.mixed:
        mu = math.sqrt(float(each.squared_mu) - first)
        ways.append([exact_delta(e, mu, [float(each.epsilon)]) for e in left])
    deltas = [float(weight @ np.array(way)) for way in ways]
    assert deltas[0] <= limits.gaussian_delta * (1 + 1e-9)  # the integral is a sum
    assert deltas[1] <= limits.zcdp_delta
    for found, each in zip(deltas[2:], limits.mixed, strict=True):
        assert found <= each.delta
    assert float(weight @ np.max(ways, axis=0)) <= LIMIT.delta


# ---- the total that is shown

BUDGETS = st.lists(
    st.tuples(
        st.sampled_from(["pure", "approximate", "zcdp", "gdp"]),
        st.floats(0.01, 3.0),
        st.floats(-10.0, -3.0).map(lambda exponent: 10.0**exponent),
    ),
    min_size=1,
    max_size=5,
)


@given(BUDGETS, st.sampled_from([1.0, 1.5, 30.0]))
@settings(deadline=None, max_examples=60)
def test_the_shown_total_is_at_most_the_sum_and_at_least_the_truth(given_budgets, more):
    """The tolerance of 1e-6 is for the numerical division of δ between μ² and ρ."""
    losses, added, delta = [], 0.0, 0.0
    for measure, epsilon, own in given_budgets:
        own = 0.0 if measure == "pure" else own
        losses.append(PrivacyCost.of(Budget(epsilon, own, "add_remove"), measure))
        added += epsilon
        delta += own
    delta = max(min(delta * more * (1 + 1e-12), 0.5), 1e-12)
    shown = sum_of(losses).at(delta)
    assert shown <= added * (1 + 1e-6)
    by = {name: [x for x in losses if x.measure == name] for name in LOSSES}
    pure = [float(x.total) for x in by["pure"] + by["approximate"]]
    mu = math.sqrt(
        sum(float(x.total) for x in by["gdp"]) + 2 * sum(float(x.total) for x in by["zcdp"])
    )
    leaks = [float(x.delta) for x in by["approximate"]]
    assert exact_delta(shown, mu, pure, leaks) <= delta * (1 + 1e-9) + 1e-15


def test_a_fit_and_an_evaluation_add_up_to_no_more_than_their_sum():
    fit = PrivacyCost.of(Budget(1.0, 1e-6, "add_remove"), "gdp")
    evaluation = PrivacyCost("pure", Fraction(0.5))
    totals = sum_of([fit, evaluation])
    limits = Limits.of(LIMIT, 0.5)
    assert 1.4 < limits.spent(totals) <= 1.5
    left = largest(
        lambda b: limits.admits(totals, PrivacyCost.of(b, "gdp")), Budget(3.0, 1e-6, "add_remove")
    )
    assert left > 1.65


@pytest.mark.parametrize(("mu", "rho"), [(1.0, 0.5), (0.01, 0.5), (1.0, 1e-5), (3.0, 3.0)])
def test_two_parts_share_delta(mu, rho):
    grid = 1 / (1 + np.exp(np.linspace(-30, 30, 601)))
    parts = [(1e-6 * share, 1e-6 * (1 - share)) for share in grid if 0 < share < 1]
    least = min(
        conversions.epsilon_from_mu(mu, first) + conversions.epsilon_from_rho(rho, second)
        for first, second in parts
    )
    found = _composed(Fraction(1, 4), Fraction(mu) ** 2, Fraction(rho), Fraction(1e-6)) - 0.25
    assert found == pytest.approx(least, rel=1e-4)


def test_totals_are_shown_by_their_best_division():
    gdp, zcdp = PrivacyCost.of(FIT, "gdp"), PrivacyCost.of(FIT, "zcdp")
    many = sum_of([PrivacyCost("pure", Fraction(1, 20))] * 40)  # in ρ far less than their sum of 2
    assert many.at(1e-6) == pytest.approx(conversions.epsilon_from_rho(float(many.pure_rho), 1e-6))
    assert sum_of([gdp, LOSSES["approximate"]]).at(1e-6) == pytest.approx(
        0.1 + conversions.epsilon_from_mu(math.sqrt(gdp.total), 1e-6 - 1e-8), rel=1e-9
    )
    both = sum_of([gdp, zcdp]).at(2e-6)
    assert 0.5 < both < 0.75  # all in ρ
    assert sum_of([LOSSES["pure"]]).at(0.0) == 0.1
    assert sum_of([LOSSES["pure"], gdp]).at(0.0) == math.inf
    assert sum_of([LOSSES["approximate"]]).at(9e-9) == math.inf
    assert CostTotals().at(1e-6) == 0.0


@pytest.mark.parametrize("measure", ["gdp", "zcdp", "approximate", "pure"])
def test_the_largest_epsilon_fits_and_a_larger_one_does_not(measure):
    limits = Limits.of(LIMIT, 0.5)
    spent = sum_of([PrivacyCost.of(FIT, "gdp")] * 5)
    delta = {"approximate": 1e-8, "pure": 0.0}.get(measure, 1e-6)
    asked = Budget(2.9, delta, "add_remove")
    found = largest(lambda b: limits.admits(spent, PrivacyCost.of(b, measure)), asked)
    if measure == "pure":  # by its ρ, as the earlier entries are not pure
        assert found > 0
    fits = PrivacyCost.of(Budget(found, delta, "add_remove"), measure)
    assert limits.admits(spent, fits)
    more = PrivacyCost.of(Budget(found * 1.002, delta, "add_remove"), measure)
    assert not limits.admits(spent, more)
    _, full = admitted(limits, LOSSES["gdp"])
    assert largest(lambda b: limits.admits(full, PrivacyCost.of(b, measure)), asked) < 0.4


@pytest.mark.parametrize(
    ("settings", "entry", "steps"),
    [
        (("add_remove", "row", None), ("add_remove", "row"), 1),
        (("replace_one", "row", None), ("replace_one", "row"), 1),
        (("replace_one", "row", None), ("add_remove", "row"), 2),
        (("add_remove", "row", None), ("replace_one", "row"), None),
        (("add_remove", "patient", 3), ("add_remove", "row"), 3),
        (("replace_one", "patient", 3), ("add_remove", "row"), 6),
        (("replace_one", "patient", 1), ("replace_one", "row"), None),
        (("add_remove", "patient", None), ("add_remove", "row"), None),
        (("add_remove", "patient", None), ("add_remove", "patient"), 1),
        (("add_remove", "patient", 3), ("add_remove", "patient"), 1),
        (("add_remove", "row", None), ("add_remove", "patient"), None),
        (("replace_one", "patient", 3), ("add_remove", "patient"), 2),
    ],
)
def test_relations_and_units_are_converted_by_rule_or_refused(settings, entry, steps):
    relation, unit, rows = settings
    made = DatasetSettings(None, Relation(relation), unit, rows, False)
    if steps is None:
        with pytest.raises(PrivacyError):
            made.group(Relation(entry[0]), entry[1])
    else:
        assert made.group(Relation(entry[0]), entry[1]) == steps


def test_the_largest_loss():
    assert PrivacyCost("gdp", Fraction(10**50)).total == 10**50
    with pytest.raises(ValueError, match="positive and finite"):
        PrivacyCost("gdp", Fraction(10**50 + 1))
