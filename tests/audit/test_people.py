"""The guarantee for one person with all of their rows, attacked through people of 1 to 40 rows.

Attacks use fixed seeds; the slow ones the noise of real fits, and each refutes a sound solver with
probability at most 1e-6.
"""

from dataclasses import replace

import numpy as np
import pytest

from discreet.audit import Verdict, attacks, most_telling, pairs, run, subjects
from discreet.audit.cases import attacks_on_estimator
from discreet.audit.pairs import PERSON_ROWS, Pair, worst_people
from discreet.audit.recipes import LONG
from discreet.core import Relation
from discreet.estimators import LogisticRegression
from discreet.preparation import Centre, Radius
from discreet.rows import RowWeights, Units
from discreet.solvers import GD

from .internals import cached_calibration

SOLVERS = [name for name in subjects() if name.endswith(": people") and name[:8] != "pipeline"]
FORTY = "a person of 40 rows, all equal"


@pytest.fixture(autouse=True, scope="module")
def _calibrated_once():
    with cached_calibration():
        yield


def test_all_solvers_that_take_units_are_attacked():
    assert {"gd: people", "sgd: people", "newton: people", "agd: people"} <= set(SOLVERS)
    assert "pipeline: people" in subjects()
    assert "objpert: people" not in subjects()


@pytest.mark.parametrize("name", SOLVERS)
def test_people_of_every_kind_in_both_relations(name):
    found = attacks(name, epsilon=1.0, delta=1e-5, seed=1)
    assert {attack.relation for attack in found} == {"add_remove", "replace_one"}
    given = " ".join({attack.pair for attack in found})
    assert all(f"a person of {size} row" in given for size in PERSON_ROWS)
    assert "opposing" in given
    for attack in found:
        assert attack.subject.endswith(": people")
        if attack.subject != name:
            continue
        shapes = {np.shape(attack.draw(world, 2)) for world in (0, 1)}
        assert len(shapes) == 1, attack.pair


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("same_height", [False, True])
def test_tables_differ_in_one_person(relation, same_height):
    for pair in worst_people(relation, norm=2.0, same_height=same_height):
        (X, y), (other, other_y) = pair.tables
        ids, other_ids = pair.groups
        assert len(X) == len(y) == len(ids)
        np.testing.assert_array_equal(X[ids > 0], other[other_ids > 0])
        assert np.linalg.norm(pair.direction) == pytest.approx(1.0)
        assert np.linalg.norm(other, axis=1).max() == 2.0
        assert (0 in ids) == (relation is Relation.REPLACE_ONE or same_height)
        assert pair.n_rows == 6
    tables = ((X[:-1], y[:-1]), (other, other_y))
    with pytest.raises(ValueError, match="person 0"):
        Pair("", relation, tables, pair.direction, groups=(ids[:-1], other_ids))


def test_a_person_of_40_rows_is_seen_as_far_as_promised():
    """The bound is close to ε, and ε holds: the noise fits the person, not the row."""
    (attack, *_) = attacks("gd: people", epsilon=1.0, delta=0.01, relation="add_remove", seed=1)
    audit = run(attack, trials=60_000)
    assert attack.pair == FORTY
    assert audit.verdict is Verdict.CONSISTENT
    assert audit.epsilon_bound >= 0.7


@pytest.mark.parametrize("name", ["gd: people", "sgd: people"])
def test_people_of_every_kind_are_protected(name):
    for attack in attacks(name, epsilon=2.0, delta=0.01, seed=2):
        if attack.subject != name or "of 5 " in attack.pair:
            continue
        audit = run(attack, trials=4_000)
        assert audit.verdict is not Verdict.REFUTED, str(audit)
        if "equal" in attack.pair:
            assert audit.epsilon_bound > 0.4, str(audit)
        if "opposing" in attack.pair and "40" in attack.pair:  # gradients cancel
            assert audit.epsilon_bound < 0.1, str(audit)


@pytest.mark.slow
def test_most_of_a_small_epsilon_is_certified():
    (attack, *_) = attacks("gd: people", epsilon=1.0, delta=1e-3, relation="add_remove")
    audit = run(attack, trials=1_000_000, confidence=1 - 1e-6)
    assert attack.pair == FORTY
    assert audit.verdict is not Verdict.REFUTED
    assert audit.epsilon_bound >= 0.7


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SOLVERS, "pipeline: people"])
def test_everything_that_takes_units(name):
    for attack in most_telling(attacks(name, epsilon=2.0, delta=0.05)):
        trials = 100_000 if attack.batched else 3_000
        audit = run(attack, trials=trials, confidence=1 - 1e-7)
        assert audit.verdict is not Verdict.REFUTED, str(audit)


# Planted bugs


def by_row(self, rows_per_unit=1, factors=None):
    """Weights of 1: each row counts once, not each person."""
    return RowWeights(np.ones(len(self.codes)), self.count, "person", True, self.codes)


def test_weights_by_row_are_refuted(monkeypatch):
    monkeypatch.setattr(Units, "weights", by_row)
    attack = attacks("gd: people", epsilon=1.0, delta=0.01, relation="add_remove", seed=1)[0]
    audit = run(attack, trials=4_000)
    assert audit.verdict is Verdict.REFUTED, str(audit)


def forgetful(step):
    """A step that sees every row with weight 1."""
    fit = step.fit

    def without_weights(self, curator, mechanism, norms):
        plain = RowWeights(np.empty(0), curator._rows.public_size, curator._rows.unit)
        curator._rows = curator._rows.with_weights(plain)
        return fit(self, curator, mechanism, norms)

    return without_weights


def radius(outputs):
    """How close the released median of the norms is to the person's, 10."""
    return -np.abs(np.log(outputs[:, -1] / LONG))


def mean(outputs):
    """The released mean of the first column, which comes before that of the second and a norm."""
    return outputs[:, -4]


@pytest.mark.parametrize("bug", [False, True], ids=["sound", "bug"])
@pytest.mark.parametrize(
    ("steps", "wrong", "pair", "statistic"),
    [
        ([Radius(share=0.8)], Radius, "for one of a single row", radius),
        ([Radius(share=0.1), Centre(share=0.7)], Centre, "all equal", mean),
    ],
    ids=["median", "mean"],
)
def test_a_step_that_forgets_the_weights_is_refuted(
    monkeypatch, steps, wrong, pair, statistic, bug
):
    """A median that counts rows, or a mean of rows: a person of 400 rows decides both."""
    monkeypatch.setattr(pairs, "PERSON_ROWS", (400,))
    if bug:
        monkeypatch.setattr(wrong, "fit", forgetful(wrong))
    settings = {"relation": "replace_one", "fit_intercept": False}
    model = LogisticRegression(1.0, 0.01, preparation=steps, solver=GD(1), **settings)
    found = attacks_on_estimator(model, people=True, seed=5)
    (attack,) = [each for each in found if each.pair == f"a person of 400 rows, {pair}"]
    audit = run(replace(attack, statistics={"released": statistic}), trials=500)
    assert (audit.verdict is Verdict.REFUTED) == bug, str(audit)
