import json
import pickle
from dataclasses import replace

import pytest
from dp_accounting import rdp

from discreet.core import Account, Budget, ExponentialMechanism, Gaussian, Guarantee, Relation
from discreet.guarantee_file import Recorded


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


def sentences(text):
    return [part for part in text.replace("\n", " ").split(". ") if part]


def test_print_is_the_promise_and_what_adds_to_it(guarantee):
    assert str(guarantee) == (
        "This fit is (ε = 1, δ = 1e-06)-differentially private for one row replaced by another. "
        "Other fits on the same data add to it."
    )
    seeded = replace(guarantee, secure=False)
    assert str(seeded).startswith("TEST MODE, NOT PRIVATE: a seed was fixed")
    assert "would be (ε = 1, δ = 1e-06)-differentially private for one row replaced" in str(seeded)
    pure = replace(guarantee, delta=0.0, relation=Relation.ADD_REMOVE)
    assert "(ε = 1)-differentially private (pure) for one row added or removed" in str(pure)
    baseline = replace(guarantee, epsilon=float("inf"))
    assert str(baseline).startswith("NOT PRIVATE: this fit is a baseline")
    for stated in (guarantee, seeded, pure, baseline):
        assert len(sentences(str(stated))) == 2


def test_explain_has_the_rest_as_short_lines(guarantee):
    stated = replace(guarantee, split=(("centre", 0.1), ("model", 0.9)), earlier_fits=3)
    lines = stated.explain().splitlines()
    assert lines[0] == str(stated)
    assert lines[1].startswith("Composed in: zero-concentrated differential privacy (zCDP), ρ = ")
    assert lines[2:6] == [
        "Shares of the budget: centre 10 %, model 90 %.",
        "Condition: gradients are clipped to 3.",
        "Treated as public: the number of rows.",
        "Noise: exact on a public grid, bits from the operating system.",
    ]
    assert "  3 × gaussian (noise_multiplier = 30)" in lines
    assert "  1 × exponential (epsilon = 0.05, monotone = True)" in lines
    assert lines[-1].startswith("Earlier fits: 3 took place in this process before")
    assert max(map(len, lines[1:])) <= 120
    assert "Shares" not in guarantee.explain()


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
    from discreet.accounting.conversions import epsilon_from_rho

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
    assert "Gaussian differential privacy, μ = " in stated.explain()
    pure = Account(Budget(1.0, 0.0, "add_remove"))
    pure.open("pure")
    assert "(pure)" in str(pure.guarantee(secure=True))


def test_it_survives_pickling(guarantee):
    assert pickle.loads(pickle.dumps(guarantee)) == guarantee


def every_kind():
    from discreet.accounting.objective_perturbation import ObjectivePerturbation
    from discreet.accounting.subsampling import SampledGaussian
    from discreet.core import L2Norm, Laplace, LaplaceNoisyMax, PermuteAndFlip, Relation
    from discreet.guarantee_file import Use

    return tuple(
        Use(mechanism, count)
        for count, mechanism in enumerate(
            (
                Gaussian(1 / 3),
                Laplace(0.1),
                L2Norm(0.2),
                ExponentialMechanism(0.3, monotone=False),
                PermuteAndFlip(0.4, monotone=True),
                LaplaceNoisyMax(0.5, monotone=True),
                ObjectivePerturbation(0.6, 1e-7),
                SampledGaussian(2.0, 0.01, Relation.REPLACE_ONE),
            ),
            start=1,
        )
    )


def test_it_is_read_back_from_plain_data(guarantee):
    stated = replace(
        guarantee, mechanisms=every_kind(), split=(("centre", 0.1), ("model", 0.9)), earlier_fits=3
    )
    read = Guarantee.from_dict(json.loads(stated.to_json()))
    assert read == stated
    assert read.to_json() == stated.to_json()
    assert len(read.event.events) == 8
    assert {type(use.mechanism) for use in read.mechanisms} == {
        type(use.mechanism) for use in stated.mechanisms
    }


@pytest.mark.parametrize("secure", [True, False])
def test_test_mode_is_read_back_as_test_mode(guarantee, secure):
    read = Guarantee.from_dict(replace(guarantee, secure=secure).to_dict())
    assert read.secure is secure
    assert str(read).startswith("TEST MODE, NOT PRIVATE") is not secure


def test_every_mechanism_in_the_package_can_be_read_back():
    from discreet.accounting import objective_perturbation, subsampling
    from discreet.core import guarantee as module
    from discreet.core import mechanisms

    found = {
        thing.name
        for part in (mechanisms, objective_perturbation, subsampling)
        for thing in vars(part).values()
        if isinstance(thing, type) and isinstance(getattr(thing, "name", None), str)
    }
    assert found == set(module._MECHANISMS)


def test_an_unknown_mechanism_is_kept_as_it_was_told(guarantee):
    from dp_accounting import UnsupportedDpEvent

    data = guarantee.to_dict()
    data["mechanisms"] = [{"name": "third_party", "sigma": 2.0, "mode": "x", "count": 4}]
    read = Guarantee.from_dict(data)
    assert read.to_dict() == data
    mechanism = read.mechanisms[0].mechanism
    assert isinstance(mechanism, Recorded)
    assert mechanism.loss.epsilon == mechanism.loss.rho == mechanism.loss.mu == float("inf")
    assert read.event.events[0].event == UnsupportedDpEvent()


def test_a_baseline_is_read_back():
    account = Account(Budget(1.0, 1e-6, "add_remove"))
    account.forfeit()
    stated = account.guarantee(secure=True)
    assert Guarantee.from_dict(json.loads(stated.to_json())) == stated


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("private", 1),
        ("private", False),
        ("epsilon", "1"),
        ("epsilon", -1.0),
        ("epsilon", None),
        ("delta", 1.0),
        ("delta", True),
        ("relation", "sideways"),
        ("relation", 3),
        ("measure", "metres"),
        ("measure", []),
        ("rho", float("nan")),
        ("mu", "big"),
        ("conditions", "one"),
        ("public", [1]),
        ("numeric", "good"),
        ("mechanisms", {}),
        ("mechanisms", [3]),
        ("mechanisms", [{"name": "gaussian", "count": 1}]),
        ("mechanisms", [{"name": "gaussian", "noise_multiplier": "x", "count": 1}]),
        ("mechanisms", [{"name": "gaussian", "noise_multiplier": 10**400, "count": 1}]),
        ("mechanisms", [{"name": "gaussian", "noise_multiplier": 1.0, "count": 0}]),
        ("mechanisms", [{"name": "exponential", "epsilon": 1.0, "monotone": "no", "count": 1}]),
        ("mechanisms", [{"name": "new", "deep": [1], "count": 1}]),
        ("earlier_fits", -1),
        ("split", [["centre", 0.1]]),
        ("split", [{"part": "centre"}]),
        ("unit", None),
        ("more", 1),
    ],
)
def test_anything_else_is_refused(guarantee, key, value):
    with pytest.raises(ValueError, match=r"must|has|wrong|cannot"):
        Guarantee.from_dict({**guarantee.to_dict(), key: value})


def test_missing_entries_are_named(guarantee):
    data = guarantee.to_dict()
    del data["rho"]
    with pytest.raises(ValueError, match="missing required field `rho`"):
        Guarantee.from_dict(data)
    with pytest.raises(ValueError, match="Expected `object`"):
        Guarantee.from_dict([])
