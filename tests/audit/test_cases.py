"""Everything private is attacked, on every relation it takes, and by its own promise."""

import math

import numpy as np
import pytest

from discreet.audit import attacks, cases, subjects
from discreet.audit.recipes import RECIPES
from discreet.audit.trials import side_by_side
from discreet.errors import NotSupported
from discreet.estimators import HuberRegressor, LinearSVC, LogisticRegression
from discreet.solvers import AGD, GD, Newton, OutPert, describe, names

PRIVATE = [name for name in names() if describe(name).private]
SOLVERS = [name for name in PRIVATE if name != "auto"]
PIPELINES = [name for name in subjects() if name == "auto" or name.startswith("pipeline")]


@pytest.fixture(scope="module")
def found():
    """Attacks on every subject at usual promises; noise is repeatable."""
    return {name: attacks(name, epsilon=1.0, delta=1e-5, seed=1) for name in subjects()}


def test_every_private_solver_is_a_subject():
    assert set(PRIVATE) <= set(subjects())
    assert len(subjects()) == len(set(subjects()))
    assert "agd: trace" in subjects()
    assert not {name for name in names() if name not in PRIVATE} & set(subjects())


@pytest.mark.parametrize("name", SOLVERS)
def test_every_relation_that_a_solver_takes_is_attacked(name, found):
    assert {attack.relation for attack in found[name]} == set(describe(name).relations)


@pytest.mark.parametrize("name", subjects())
def test_attacks_carry_names_and_the_promise(name, found):
    for attack in found[name]:
        assert attack.subject.startswith(name.partition(":")[0])
        if " apart)" in attack.subject:
            assert attack.epsilon == 2.0
            assert attack.delta == pytest.approx(1e-5 * (1 + math.e))
        else:
            assert (attack.epsilon, attack.delta) == (1.0, 1e-5)
    given = [(attack.subject, attack.pair, attack.relation) for attack in found[name]]
    if name in SOLVERS:
        assert len(set(given)) == len(given)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_solver_is_attacked_where_its_intercept_matters(name, found):
    given = {attack.pair for attack in found[name]}
    assert "one row that moves only the intercept" in given
    assert "one row alone" in given


@pytest.mark.parametrize("name", subjects())
def test_draws_have_the_same_shape_in_both_worlds(name, found):
    seen = set()
    for attack in found[name]:
        kind = (attack.subject, "intercept" in attack.pair)
        if kind in seen:
            continue
        seen.add(kind)
        worlds = [np.asarray(attack.draw(world, 3)) for world in (0, 1)]
        assert worlds[0].shape == worlds[1].shape
        assert worlds[0].shape[0] == 3
        constant = name == "auto" and kind[1]  # which is often shrunk to 0
        chooses = name.partition(":")[0] in ("frank-wolfe", "privgene", "agd")
        for outputs in worlds:
            assert np.isfinite(outputs).all()
            if not (chooses or constant):
                assert len(np.unique(outputs, axis=0)) == 3
            for statistic in attack.statistics.values():
                assert statistic(outputs).shape == (3,)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_solver_without_pure_privacy_says_so(name):
    if describe(name).budgets == "delta > 0":
        with pytest.raises(NotSupported, match=r"delta=0, relation=any. Its relations"):
            attacks(name, epsilon=1.0, delta=0.0, seed=0)
    else:
        pure = attacks(name, epsilon=1.0, delta=0.0, seed=0)
        assert {attack.relation for attack in pure} == set(describe(name).relations)
        assert {attack.delta for attack in pure} == {0.0}
        # pure noise has one norm for all weights, which copies in one fit would share
        assert side_by_side not in {attack.draw.func for attack in pure}


def test_one_relation_alone():
    for relation in ("add_remove", "replace_one"):
        given = attacks("outpert", epsilon=1.0, delta=1e-5, relation=relation, seed=0)
        assert {attack.relation for attack in given} == {relation}
    with pytest.raises(NotSupported, match="relation=add_remove"):
        attacks("laplace-sgd", epsilon=1.0, delta=1e-5, relation="add_remove", seed=0)


def test_what_is_not_known_is_refused_with_what_is():
    for unknown in ("newtown", "nonprivate", "majority"):
        with pytest.raises(NotSupported, match="Known subjects: gd, sgd") as refused:
            attacks(unknown, epsilon=1.0, delta=1e-5)
        assert repr(unknown) in str(refused.value)
    with pytest.raises(ValueError, match="relation"):
        attacks("gd", epsilon=1.0, delta=1e-5, relation="remove")


def test_seeds_are_for_one_process():
    for subject in ("gd", "agd", LogisticRegression()):
        with pytest.raises(ValueError, match="one process"):
            attacks(subject, epsilon=1.0, delta=1e-5, jobs=2, seed=0)


@pytest.mark.parametrize("name", ["gd", "outpert", "agd", "agd: trace", "auto"])
def test_seeds_repeat(name):
    def draws(seed):
        first = attacks(name, epsilon=1.0, delta=1e-5, seed=seed)[0]
        return first.draw(1, 4)

    np.testing.assert_array_equal(draws(5), draws(5))
    assert not np.array_equal(draws(5), draws(6))


def test_pairs_do_not_share_noise():
    given = attacks("gd", epsilon=1.0, delta=1e-5, seed=0, relation="replace_one")
    alone = [
        attack.draw(1, 50)[:, 1]
        for attack in given
        if attack.subject == "gd" and "intercept" not in attack.pair
    ]
    assert len(alone) > 2  # and in the second column hardly anything is seen but noise
    for k, numbers in enumerate(alone):
        for others in alone[:k]:
            assert abs(np.corrcoef(numbers, others)[0, 1]) < 0.9


def test_without_a_seed_noise_is_fresh():
    first, second = (
        attacks("gd", epsilon=1.0, delta=1e-5, relation="replace_one")[0] for _ in range(2)
    )
    assert not np.isin(first.draw(1, 50), second.draw(1, 50)).any()


# --- solvers and estimators with settings of their own ----------------------------------------


def test_a_solver_keeps_its_own_settings():
    given = attacks(GD(5, momentum=0.0), epsilon=0.5, delta=1e-3, seed=0)
    assert {(attack.subject, attack.epsilon, attack.delta) for attack in given} == {
        ("gd", 0.5, 1e-3)
    }
    assert {attack.relation for attack in given} == {"add_remove", "replace_one"}
    single = next(attack for attack in given if "with an intercept" in attack.pair)
    np.testing.assert_array_equal(single.draw(1, 3)[:, 3], 5)  # after the weights: the steps
    published = attacks(OutPert("published"), epsilon=0.5, delta=1e-3, seed=0)
    assert {attack.subject for attack in published} == {"outpert (published)"}


def test_a_solver_that_cannot_keep_the_budget_is_refused():
    with pytest.raises(NotSupported, match="does not support"):
        attacks(AGD(), epsilon=1.0, delta=0.0)


def test_an_estimator_is_held_to_its_own_promise():
    model = LogisticRegression(
        0.7, 1e-4, solver="gd", relation="add_remove", fit_intercept=False, data_norm=2.0
    )
    given = attacks(model, epsilon=9.0, delta=0.5, seed=0)
    for attack in given:
        assert (attack.subject, attack.relation) == ("LogisticRegression", "add_remove")
        assert (attack.epsilon, attack.delta) == (0.7, 1e-4)
        assert "intercept" not in attack.pair
    replaced = cases.attacks_on_estimator(
        LinearSVC(0.7, 1e-4, relation="replace_one", solver="agd"), name="a name"
    )
    assert {(a.subject, a.epsilon, a.delta, a.relation) for a in replaced} == {
        ("a name", 0.7, 1e-4, "replace_one")
    }
    assert all("intercept" in attack.pair for attack in replaced)


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(0.7, 1e-4, solver="gd"),  # an intercept sees a row of zeros
        LogisticRegression(0.7, 1e-4, fit_intercept=False),  # the automatic choice counts rows
        LogisticRegression(0.7, 1e-4, solver="shrunk-gd", fit_intercept=False),
        LogisticRegression(0.7, 1e-4, solver="gd", preparation=(), fit_intercept=False),
        HuberRegressor(0.7, 1e-4, target_bounds=(-1.0, 1.0)),
    ],
)
def test_tables_are_two_steps_apart_if_zeros_have_an_effect(model):
    assert model.relation == "add_remove"
    for attack in cases.attacks_on_estimator(model):
        assert attack.subject == f"{type(model).__name__} (two rows apart)"
        assert attack.relation == "replace_one"
        # δ(ε) of a row removed, then of one added: e^ε·δ + δ at 2ε
        assert attack.epsilon == 1.4
        assert attack.delta == pytest.approx(1e-4 + math.exp(0.7) * 1e-4, rel=1e-12)


@pytest.mark.parametrize(
    ("row", "intercept", "apart"),
    [([0.0, 0.0], False, False), ([0.0, 0.0], True, True), ([-1.0, 0.0], False, True)],
)
def test_a_callers_row_that_was_replaced_is_two_steps_apart(row, intercept, apart):
    # only a row of zeros, in a model that does not see it, stands for a missing one
    X, y = np.eye(2)[[0, 1, 1, 0]], np.array([1.0, -1.0, 1.0, -1.0])
    other = np.vstack([row, X[1:]])
    model = LogisticRegression(0.7, 1e-4, solver="gd", fit_intercept=intercept)
    for tables in (((other, y), (X, y)), ((X, y), (other, y))):
        (attack,) = cases.attacks_on_estimator(model, tables)
        assert attack.epsilon == (1.4 if apart else 0.7)
        assert attack.delta == pytest.approx(1e-4 * (1 + math.exp(0.7) if apart else 1))


def test_rows_of_an_estimator_reach_its_bound():
    model = LogisticRegression(1.0, 1e-4, solver="gd", fit_intercept=False, data_norm=0.25)
    lengths = []
    for attack in cases.attacks_on_estimator(model, seed=0):
        X, _ = attack.draw.args[1].tables[1]
        lengths.append(float(np.linalg.norm(X[0])))
    assert min(lengths) == 0.25
    assert max(lengths) > 100


@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines_are_attacked_under_both_relations(name, found):
    relations = {attack.relation for attack in found[name]}
    apart = [" apart)" in attack.subject for attack in found[name]]
    assert any(apart) or relations == {"add_remove", "replace_one"}
    assert not all(apart)  # replace


def test_a_trace_is_what_follows_the_weights():
    whole = attacks("agd", epsilon=1.0, delta=1e-5, seed=3)
    traces = attacks("agd: trace", epsilon=1.0, delta=1e-5, seed=3)
    assert [attack.pair for attack in whole] == [attack.pair for attack in traces]
    for one, trace in zip(whole, traces, strict=True):
        everything = one.draw(1, 2)
        weights = 2 if "intercept" in one.pair else 1
        np.testing.assert_array_equal(trace.draw(1, 2), everything[:, weights:])
        assert trace.subject == f"{one.subject}: trace"
        assert not trace.statistics


@pytest.mark.process
def test_two_processes_share_the_work_and_repeat_nothing():
    given = attacks("permutation-sgd", epsilon=1.0, delta=1e-5, relation="replace_one", jobs=2)
    outputs = given[0].draw(1, 41)
    assert len(outputs) == 41
    assert len(np.unique(outputs[:, 0])) == 41
    assert len(given[0].draw(0, 1)) == 1


def test_what_is_attacked_under_both_calibrations_and_relations():
    """Published constants that do not hold are refused; nothing else may drop out unseen."""
    missing = {"sgd (published)"}  # it does not hold at these settings
    for name in SOLVERS:
        given = {
            (attack.subject, attack.relation) for attack in attacks(name, epsilon=0.9, delta=1e-5)
        }
        for recipe in RECIPES[name]:
            subject = recipe.subject(name)
            for relation in describe(name).relations:
                dropped = subject == "objpert (published)" and relation == "replace_one"
                assert ((subject, str(relation)) in given) is not (dropped or subject in missing)


def test_a_solver_object_for_regression_is_attacked_as_one():
    assert attacks(Newton(iterations=2), epsilon=1.0, delta=1e-5)[0].draw(1, 2).shape[0] == 2
