import math
import sys
import warnings
from fractions import Fraction

import numpy as np
import pytest

from discreet import LogisticRegression
from discreet.accounting import planning
from discreet.accounting.budget import Budget, Relation
from discreet.accounting.conversions import epsilon_from_mu, epsilon_from_rho, mu_from_epsilon
from discreet.errors import NotSupported


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, "1", None, True])
def test_epsilon_must_be_positive_and_finite(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        Budget(epsilon, 1e-6, "add_remove")


@pytest.mark.parametrize("delta", [-1e-9, 1, 2.0, math.nan, "0", None])
def test_delta_must_be_in_range(delta):
    with pytest.raises(ValueError, match=r"delta must be a finite number"):
        Budget(1.0, delta, "add_remove")


def test_relation_has_no_default_and_is_checked():
    with pytest.raises(TypeError):
        Budget(1.0, 1e-6)
    with pytest.raises(ValueError, match="'add_remove', 'replace_one'"):
        Budget(1.0, 1e-6, "swap")
    assert Budget(1, 0, "replace_one").relation is Relation.REPLACE_ONE


def test_budgets_under_different_relations_are_different():
    """Caches tell budgets apart by equality: a promise must not be taken from another relation."""
    add, replace = (Budget(1.0, 1e-6, relation) for relation in Relation)
    assert add == Budget(1, 1e-6, "add_remove")
    assert add != replace
    assert len({add, replace, Budget(1.0, 1e-6, "add_remove")}) == 2
    for budget in (add, replace):
        models = planning.divide(budget, [("centre", Fraction(1, 4))], ["zcdp"]).models
        assert models.relation is budget.relation
        rest = planning.divide(budget, [("centre", Fraction(1, 4))], ["profile"]).models
        assert rest.relation is rest.whole.relation is budget.relation


def test_rows_changed():
    assert Relation.ADD_REMOVE.rows_changed == 1
    assert Relation.REPLACE_ONE.rows_changed == 2


@pytest.mark.parametrize("conversion", ["tight", "published"])
def test_round_trips_stay_within_the_budget(conversion):
    budget = Budget(0.7, 1e-8, "replace_one")
    zcdp = budget.to_zcdp(conversion)
    epsilon = epsilon_from_rho(zcdp.rho, 1e-8, conversion)
    assert epsilon <= budget.epsilon
    assert epsilon == pytest.approx(budget.epsilon, rel=1e-6)
    assert zcdp.relation is budget.to_gdp().relation is budget.relation


def test_gdp_round_trip_and_order():
    budget = Budget(0.7, 1e-8, "add_remove")
    mu = budget.to_gdp().mu
    assert epsilon_from_mu(mu, 1e-8) == pytest.approx(0.7, rel=1e-6)
    # Exact Gaussian accounting affords more than zCDP, tight more than published.
    assert mu**2 / 2 > budget.to_zcdp("tight").rho > budget.to_zcdp("published").rho


def test_pure_budgets_are_refused_where_they_cannot_be_kept():
    budget = Budget(1.0, 0.0, "add_remove")
    assert budget.pure
    for convert in (budget.to_zcdp, budget.to_gdp):
        with pytest.raises(NotSupported, match="delta"):
            convert()


def test_totals_are_the_conversions():
    budget = Budget(0.7, 1e-8, "add_remove")
    assert float(budget.total("zcdp")) == budget.to_zcdp().rho
    assert float(budget.total("zcdp", "published")) == budget.to_zcdp("published").rho
    assert math.sqrt(budget.total("gdp")) == pytest.approx(budget.to_gdp().mu)
    assert budget.total("pure") == budget.total("approximate") == 0.7


@pytest.mark.parametrize("solver", ["auto", "gd"])
def test_a_fit_converts_its_budget_once(solver):
    body = getattr(mu_from_epsilon, "__wrapped__", mu_from_epsilon).__code__
    computed = []

    def count(frame, event, _):
        if event == "call" and frame.f_code is body:
            computed.append((frame.f_locals["epsilon"], frame.f_locals["delta"]))

    mu_from_epsilon.cache_clear()
    planning._divide.cache_clear()
    X = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    model = LogisticRegression(1.0, 1e-6, classes=[False, True], solver=solver)
    sys.setprofile(count)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, X[:, 0] > 0)
    finally:
        sys.setprofile(None)
    assert computed.count((1.0, 1e-6)) == 1
    assert len(computed) == len(set(computed))  # nor any other budget twice


@pytest.mark.parametrize("delta", [1e-5, 1e-12])
@pytest.mark.parametrize("rho", [1e-6, 0.0132154, 5.0])
def test_a_zcdp_budget_allows_its_rho_and_no_more(rho, delta):
    budget = Budget.zcdp(rho, delta, "replace_one")
    assert budget.relation is Relation.REPLACE_ONE
    assert budget.delta == delta
    spent = budget.to_zcdp().rho
    assert spent <= rho
    assert spent == pytest.approx(rho, rel=1e-9)
    assert budget.to_zcdp("published").rho < rho
    assert budget.epsilon < rho + 2 * math.sqrt(rho * math.log(1 / delta))  # the published ε


def test_a_zcdp_budget_agrees_with_another_accountant():
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    # A Gaussian of noise multiplier z is 1/(2z²)-zCDP.
    budget = Budget.zcdp(0.02, 1e-6)
    accountant = RdpAccountant(orders=np.linspace(1.01, 200, 4000))
    accountant.compose(GaussianDpEvent(5.0))
    assert accountant.get_epsilon(1e-6) == pytest.approx(budget.epsilon, rel=1e-3)


def test_zcdp_budgets_that_no_solver_can_spend_are_refused():
    with pytest.raises(ValueError, match="rho"):
        Budget.zcdp(0.0, 1e-6)
    with pytest.raises(ValueError, match="delta"):
        Budget.zcdp(0.1, 0.0)
    with pytest.raises(ValueError, match="epsilon"):  # ε = 0 at so large a δ
        Budget.zcdp(1e-12, 0.1)
