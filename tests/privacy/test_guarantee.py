import json
import pickle

import pytest
from dp_accounting import rdp

from discreet.privacy import Account, Budget, ExponentialMechanism, Gaussian


def spend(account):
    filter_ = account.open("zcdp")
    for _ in range(3):
        filter_.charge(Gaussian(30.0))
    filter_.charge(ExponentialMechanism(0.05, monotone=True))
    return filter_


@pytest.fixture
def guarantee():
    account = Account(Budget(1.0, 1e-6, "replace_one"))
    spend(account)
    return account.guarantee(
        conditions=("gradients are clipped to 3",), public=("the number of rows",), secure=True
    )


def test_as_a_sentence(guarantee):
    text = str(guarantee)
    assert "(ε = 1, δ = 1e-06)-differentially private for one row replaced by another" in text
    assert "ρ = " in text
    assert "gradients are clipped to 3" in text
    assert "the number of rows" in text
    assert "NOT PRIVATE" not in text


def test_as_a_dict_and_json(guarantee):
    data = guarantee.to_dict()
    assert json.loads(guarantee.to_json()) == data
    assert data["relation"] == "replace_one"
    assert data["numeric"] == "exact on a public grid, bits from the operating system"
    assert data["mechanisms"] == [
        {"name": "gaussian", "noise_multiplier": 30.0, "count": 3},
        {"name": "exponential", "epsilon": 0.05, "monotone": True, "count": 1},
    ]


def test_the_event_recomputes_to_at_most_the_promise(guarantee):
    accountant = rdp.RdpAccountant()
    accountant.compose(guarantee.event)
    recomputed = accountant.get_epsilon(1e-6)
    rho = 3 / (2 * 30**2) + 0.05**2 / 8
    exact = Budget(1.0, 1e-6, "replace_one").to_zcdp().rho
    assert rho < exact
    assert recomputed < guarantee.epsilon
    from discreet.privacy.conversions import epsilon_from_rho

    assert recomputed == pytest.approx(epsilon_from_rho(rho, 1e-6), rel=0.05)


def test_seeded_runs_say_that_they_are_not_private():
    account = Account(Budget(1.0, 1e-6, "add_remove"))
    spend(account)
    guarantee = account.guarantee(secure=False)
    assert guarantee.numeric == "test mode, not private"
    assert str(guarantee).startswith("TEST MODE, NOT PRIVATE")
    assert guarantee.to_dict()["numeric"] == "test mode, not private"


def test_gaussian_and_pure_accounts_name_their_measure():
    gaussian = Account(Budget(1.0, 1e-6, "add_remove"))
    gaussian.open("gdp")
    stated = gaussian.guarantee(secure=True)
    assert stated.mu == pytest.approx(Budget(1.0, 1e-6, "add_remove").to_gdp().mu)
    assert "μ = " in str(stated)
    pure = Account(Budget(1.0, 0.0, "add_remove"))
    pure.open("pure")
    assert "(pure)" in str(pure.guarantee(secure=True))


def test_it_survives_pickling(guarantee):
    assert pickle.loads(pickle.dumps(guarantee)) == guarantee
