"""The curator charges before it looks, refuses bad questions for free, and adds the right noise."""

import copy
import math
import pickle
import threading
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from discreet.accounting.subsampling import SampledGaussian
from discreet.core import (
    Account,
    Budget,
    Curator,
    ExponentialMechanism,
    Gaussian,
    L2Norm,
    Laplace,
    LaplaceNoisyMax,
    PermuteAndFlip,
    Relation,
)
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.core.questions import Gradient, LineLosses, MedianNorm, MedianSlope
from discreet.errors import BudgetExceeded, NotSupported, PrivacyError
from discreet.exact.noisy_descents import Descent
from discreet.objectives import Logistic
from discreet.rows import as_rows

from . import spies
from .spies import SpyRows

BUDGET = Budget(1.0, 1e-6, "add_remove")
SMALL = Gaussian(100.0)


ANSWERS = {
    Gradient: [1.0, 2.0, 3.0],
    LineLosses: lambda question: np.linspace(0.0, 1e6, len(question.steps)).tolist(),
}


def spy_rows():
    return SpyRows(dict(ANSWERS), n_rows=10)


def spied(budget=BUDGET, seed=0):
    rows = spy_rows()
    return rows, spies.spied(rows, budget, measure="zcdp", seed=seed)


def ask_everything(curator, weights=None, monotone=True):
    weights = np.zeros(3) if weights is None else weights
    gradient = curator.ask(Gradient(Logistic(), weights, clip=1.0), Gaussian(100.0))
    curator.refine(gradient, mechanism=Gaussian(100.0))
    curator.ask(
        LineLosses(
            Logistic(),
            weights,
            np.ones(3),
            np.linspace(0, 1, 5),
            clip=1.0,
            public_losses=np.zeros(5),
        ),
        ExponentialMechanism(0.01, monotone=monotone),
    )


def test_every_answer_was_charged_first():
    rows, curator = spied()
    ask_everything(curator)
    assert rows.charges_when_read == [1, 3]  # the refinement reads nothing


def test_nothing_is_read_when_the_budget_does_not_cover_it():
    rows, curator = spied()
    for _ in range(3):
        with pytest.raises(BudgetExceeded):
            curator.ask(Gradient(Logistic(), np.zeros(3), clip=1.0), Gaussian(0.01))
    assert rows.charges_when_read == []
    assert curator.spent_share == 0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_is_refused_before_anything_is_spent(bad):
    rows, curator = spied()
    weights = np.array([0.0, bad, 0.0])
    with pytest.raises(ValueError, match="must be finite"):
        curator.ask(Gradient(Logistic(), weights, clip=1.0), Gaussian(10.0))
    for arguments in (
        (weights, np.ones(3), np.zeros(2), np.zeros(2)),
        (np.ones(3), weights, np.zeros(2), np.zeros(2)),
        (np.ones(3), np.ones(3), np.array([0.0, bad]), np.zeros(2)),
        (np.ones(3), np.ones(3), np.zeros(2), np.array([0.0, bad])),
    ):
        with pytest.raises(ValueError, match="must be finite"):
            curator.ask(
                LineLosses(Logistic(), *arguments[:3], clip=1.0, public_losses=arguments[3]),
                ExponentialMechanism(0.1, monotone=True),
            )
    for clip in (0.0, -1.0, bad):
        with pytest.raises(ValueError, match="clip"):
            curator.ask(Gradient(Logistic(), np.zeros(3), clip=clip), Gaussian(10.0))
    assert curator.spent_share == 0
    assert rows.charges_when_read == []


def test_shapes_are_checked_before_anything_is_spent():
    _, curator = spied()
    with pytest.raises(ValueError, match="shape"):
        curator.ask(Gradient(Logistic(), np.zeros(4), clip=1.0), Gaussian(10.0))
    assert curator.spent_share == 0


def test_closed_curators_answer_nothing():
    rows = spy_rows()
    curator = Curator(rows, Account(BUDGET), Noise(SeededBits(0)))
    with pytest.raises(PrivacyError, match="open"):
        curator.ask(Gradient(Logistic(), np.zeros(3), clip=1.0), Gaussian(10.0))
    curator.open("zcdp")
    with pytest.raises(PrivacyError, match="already open"):
        curator.open("zcdp")


@pytest.mark.parametrize(("relation", "factor"), [("add_remove", 1), ("replace_one", 2)])
def test_gradient_noise_follows_the_relation_and_the_rounding_error(relation, factor):
    rows, curator = spied(Budget(1.0, 1e-6, relation))
    plain = curator.ask(Gradient(Logistic(), np.zeros(3), clip=3.0), Gaussian(50.0))
    assert plain.deviation == pytest.approx(50 * factor * 3.0, rel=1e-6)
    rows.error = 0.5
    padded = curator.ask(Gradient(Logistic(), np.zeros(3), clip=3.0), Gaussian(50.0))
    assert padded.deviation == pytest.approx(50 * (factor * 3.0 + 2 * 0.5), rel=1e-6)


def test_refining_adds_precision_and_keeps_all_of_it():
    _, curator = spied()
    gradient = curator.ask(Gradient(Logistic(), np.zeros(3), clip=1.0), Gaussian(60.0))
    for k in range(2, 6):
        gradient = curator.refine(gradient, mechanism=Gaussian(60.0))
        # k equal measurements: the variance falls by k, and the multiplier says what was spent.
        assert gradient.deviation == pytest.approx(60 / math.sqrt(k), rel=1e-6)
        assert gradient.mechanism.loss.rho == pytest.approx(k / (2 * 60**2), rel=1e-6)


@pytest.mark.parametrize(("relation", "factor"), [("add_remove", 1), ("replace_one", 2)])
def test_a_refinement_is_as_noisy_as_a_measurement(relation, factor):
    """It releases the same sum: relation and rounding error decide its noise, too."""
    rows, curator = spied(Budget(1.0, 1e-6, relation))
    rows.error = 0.5
    first = curator.ask(Gradient(Logistic(), np.zeros(3), clip=3.0), Gaussian(50.0))
    both = curator.refine(first, mechanism=Gaussian(80.0))
    precision = both.deviation**-2 - first.deviation**-2  # of the second one alone
    assert precision**-0.5 == pytest.approx(80 * (factor * 3.0 + 2 * 0.5), rel=1e-6)


def test_refined_gradients_have_the_stated_distribution():
    # 1,500 runs × 3 coordinates: the mean square of 4,500 standard normals leaves 1 ± 0.12 with
    # probability below 1e-7, their mean leaves ± 6/sqrt(4500) with probability 2e-9.
    values, scales = [], []
    for seed in range(1500):
        _, curator = spied(seed=seed)
        gradient = curator.ask(Gradient(Logistic(), np.zeros(3), clip=1.0), Gaussian(40.0))
        gradient = curator.refine(gradient, mechanism=Gaussian(80.0))
        gradient = curator.refine(gradient, mechanism=Gaussian(20.0))
        values.append(gradient.values - [1.0, 2.0, 3.0])
        scales.append(gradient.deviation)
    standard = np.array(values) / np.array(scales)[:, None]
    assert abs((standard**2).mean() - 1) < 0.12
    assert abs(standard.mean()) < 6 / math.sqrt(standard.size)


def test_only_the_newest_gradient_can_be_refined():
    _, curator = spied()
    old = curator.ask(Gradient(Logistic(), np.zeros(3), clip=1.0), Gaussian(50.0))
    curator.ask(Gradient(Logistic(), np.ones(3), clip=1.0), Gaussian(50.0))
    spent = curator.spent_share
    with pytest.raises(ValueError, match="newest"):
        curator.refine(old, mechanism=Gaussian(50.0))
    assert curator.spent_share == spent


def test_monotone_noise_is_refused_where_scores_are_not_monotone():
    rows, curator = spied(Budget(1.0, 1e-6, "replace_one"))
    with pytest.raises(PrivacyError, match="not monotone"):
        ask_everything(curator, monotone=True)
    assert rows.charges_when_read == [1]


def test_steps_are_not_chosen_by_laplace_noise():
    rows, curator = spied()
    with pytest.raises(TypeError, match="ExponentialMechanism"):
        curator.ask(
            LineLosses(
                Logistic(),
                np.zeros(3),
                np.ones(3),
                np.zeros(2),
                clip=1.0,
                public_losses=np.zeros(2),
            ),
            LaplaceNoisyMax(0.1, monotone=False),
        )
    assert curator.spent_share == 0
    assert rows.charges_when_read == []


def test_choice_minimises_private_plus_public_losses():
    _, curator = spied()
    mechanism = PermuteAndFlip(0.1, monotone=True)
    line = (Logistic(), np.zeros(3), np.zeros(3), np.linspace(0, 1, 5), 1.0)
    falling = np.array([4e6, 3e6, 2e6, 1e6, 0.0])
    assert curator.ask(LineLosses(*line, np.zeros(5)), mechanism) == 0
    assert curator.ask(LineLosses(*line, falling), mechanism) == 4


def test_release_runs_inside_and_adds_noise():
    _, curator = spied()
    common = {
        "sensitivity": 1.0,
        "proven_for": Relation.ADD_REMOVE,
        "magnitude": 10.0,
        "mechanism": Gaussian(50.0),
    }
    noisy = curator.release(lambda rows: np.zeros(4), size=4, **common)
    assert noisy.shape == (4,)
    assert np.all(noisy != 0)
    with pytest.raises(PrivacyError, match="nothing was released"):
        curator.release(lambda rows: np.full(4, np.nan), size=4, **common)
    with pytest.raises(PrivacyError, match="nothing was released"):
        curator.release(lambda rows: np.zeros(3), size=4, **common)
    spent = curator.spent_share
    with pytest.raises(PrivacyError, match="proven for"):
        curator.release(
            lambda rows: np.zeros(4), size=4, **common | {"proven_for": Relation.REPLACE_ONE}
        )
    assert curator.spent_share == spent


def test_proofs_for_single_rows_are_refused_for_rows_that_share_units():
    rows, curator = spied()
    rows.grouped = True
    proof = {"size": 1, "proven_for": Relation.ADD_REMOVE, "mechanism": Gaussian(50.0)}

    def compute(*_):
        pytest.fail("rows were read")

    with pytest.raises(PrivacyError, match="rows share units"):
        curator.release(compute, sensitivity=1.0, magnitude=1.0, **proof)
    with pytest.raises(PrivacyError, match="rows share units"):
        curator.run(compute, **proof)
    assert curator.spent_share == 0


def test_units_are_not_sampled_unless_rows_allow_it():
    rows = spy_rows()
    rows.curator = curator = Curator(rows, Account(BUDGET), Noise(SeededBits(0)))
    step = SampledGaussian(50.0, 0.5, Relation.ADD_REMOVE)
    curator.open_plan(step, 2)
    rows.take_units = lambda index: rows

    def refuse():
        raise NotSupported("samples need units")

    rows.check_sampling = refuse
    with pytest.raises(NotSupported, match="need units"):
        curator.sampled_gradient(Gradient(Logistic(), np.zeros(3), clip=1.0), step)
    assert curator.spent_share == 0
    assert rows.charges_when_read == []
    rows.check_sampling = lambda: None
    curator.sampled_gradient(Gradient(Logistic(), np.zeros(3), clip=1.0), step)
    assert rows.charges_when_read == [1]


@pytest.mark.parametrize(
    "other",
    [
        SampledGaussian(50.0, 0.5, Relation.REPLACE_ONE, "one_row"),
        SampledGaussian(50.0, 0.5, Relation.ADD_REMOVE),
    ],
    ids=["drawn otherwise", "another relation"],
)
def test_samples_are_drawn_as_they_were_accounted_for(other):
    rows = spy_rows()
    rows.check_sampling, rows.take_units = (lambda: None), (lambda index: rows)
    budget = Budget(1.0, 1e-6, "replace_one")
    rows.curator = curator = Curator(rows, Account(budget), Noise(SeededBits(0)))
    opened = other if other.sampling == "one_row" else replace(other, relation=budget.relation)
    curator.open_plan(opened, 2)
    with pytest.raises(PrivacyError, match="needs Poisson sampling accounted under 'replace_one'"):
        curator.sampled_gradient(Gradient(Logistic(), np.zeros(3), clip=1.0), other)
    assert curator.spent_share == 0
    assert rows.charges_when_read == []


@pytest.mark.parametrize(("relation", "sensitivity"), [("add_remove", 0.5), ("replace_one", 1.0)])
def test_medians_are_chosen_with_the_sensitivity_of_the_relation(
    relation, sensitivity, monkeypatch
):
    rng, used = np.random.default_rng(0), []
    rows = as_rows(rng.normal(size=(50, 2)), np.ones(50))
    curator = Curator(rows, Account(Budget(1.0, 1e-6, relation)), Noise(SeededBits(0)))
    curator.open("zcdp")

    def select(mechanism, scores, *, sensitivity, noise):
        used.append(sensitivity)
        return 0

    monkeypatch.setattr(ExponentialMechanism, "select", select)
    mechanism = ExponentialMechanism(0.01, monotone=False)
    curator.ask(MedianNorm(), mechanism)
    curator.ask(MedianSlope(Logistic(), np.zeros(3)), mechanism)
    assert used == [sensitivity, sensitivity]
    spent, monotone = curator.spent_share, ExponentialMechanism(0.01, monotone=True)
    with pytest.raises(PrivacyError, match="monotone"):
        curator.ask(MedianNorm(), monotone)
    with pytest.raises(PrivacyError, match="monotone"):
        curator.ask(MedianSlope(Logistic(), np.zeros(3)), monotone)
    assert curator.spent_share == spent


def test_batches_are_not_drawn_unless_rows_allow_it():
    rows, curator = spied(Budget(1.0, 1e-6, "replace_one"))

    def refuse():
        raise NotSupported("batches need rows of their own")

    rows.check_batches = refuse
    with pytest.raises(NotSupported, match="of their own"):
        curator.descend(
            Descent(
                Logistic(), np.zeros(3), clip=1.0, step_sizes=np.ones(2), order="pass", batch_size=5
            ),
            Gaussian(50.0),
        )
    assert curator.spent_share == 0


def test_sums_of_all_rows_are_not_cut():
    """Every row at its clip in one direction: the largest sum that there can be."""
    rows, curator = spied(Budget(1e5, 1e-6, "add_remove"))
    rows.answers[Gradient] = [10.0, -10.0, 5.0]
    noisy = curator.ask(Gradient(Logistic(), np.zeros(3), clip=1.0), Gaussian(0.01))
    assert noisy.values == pytest.approx([10.0, -10.0, 5.0], abs=0.08)  # 8 deviations


def test_samples_share_the_budget_and_hide_their_size():
    rng = np.random.default_rng(0)
    rows = as_rows(rng.normal(size=(500, 3)), np.where(rng.random(500) < 0.5, 1.0, -1.0))
    curator = Curator(rows, Account(BUDGET), Noise(SeededBits(0)))
    curator.open("zcdp")
    part = curator.sample(0.2)
    assert part.n_rows == 500
    part.ask(Gradient(Logistic(), np.zeros(4), clip=1.0), Gaussian(50.0))
    assert curator.spent_share == part.spent_share > 0
    with pytest.raises(ValueError, match="rate"):
        curator.sample(0.0)


def test_shares_of_an_account_never_exceed_it():
    account = Account(BUDGET)
    third = Fraction(1, 3)
    filters = [account.open("zcdp", "tight", third) for _ in range(3)]
    assert sum(f.total for f in filters) == Fraction(BUDGET.to_zcdp().rho)
    with pytest.raises(PrivacyError, match="share"):
        account.open("zcdp", "tight", third)
    mixed = Account(BUDGET)
    mixed.open("zcdp", "tight", third)
    with pytest.raises(PrivacyError, match="composes in 'zcdp'"):
        mixed.open("gdp", "tight", third)
    tenths = Account(BUDGET)
    for _ in range(9):
        tenths.open("zcdp", "tight", 0.1)
    with pytest.raises(PrivacyError, match="share"):  # as a double, 0.1 is more than a tenth
        tenths.open("zcdp", "tight", 0.1)


def test_threads_cannot_open_more_than_the_account():
    def open_most(account, opened):
        try:
            account.open("zcdp", "tight", Fraction(9, 10))
        except PrivacyError:
            return
        opened.append(1)

    for _ in range(50):
        account, opened = Account(BUDGET), []
        threads = [threading.Thread(target=open_most, args=(account, opened)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(opened) == 1


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_holds_a_budget_cannot_be_copied(copier):
    account = Account(BUDGET)
    curator = Curator(spy_rows(), account, Noise(SeededBits(0)))
    for original in (account, curator, Account(BUDGET).open("zcdp")):
        with pytest.raises(PrivacyError, match="copied or pickled"):
            copier(original)


def test_mechanisms_must_fit_the_question():
    rows, curator = spied()
    with pytest.raises(TypeError, match="Gaussian"):
        curator.ask(Gradient(Logistic(), np.zeros(3), clip=1.0), Laplace(0.01))
    gradient = curator.ask(Gradient(Logistic(), np.zeros(3), clip=1.0), Gaussian(50.0))
    with pytest.raises(TypeError, match="Gaussian"):
        curator.refine(gradient, mechanism=L2Norm(0.01))
    with pytest.raises(TypeError, match="SelectionMechanism"):
        curator.ask(
            LineLosses(
                Logistic(),
                np.zeros(3),
                np.ones(3),
                np.zeros(2),
                clip=1.0,
                public_losses=np.zeros(2),
            ),
            Gaussian(50.0),
        )
    assert rows.charges_when_read == [1]


@pytest.mark.parametrize("clip", [1e-200, 1e200])
def test_clips_that_sums_cannot_take_cost_nothing(clip):
    _, curator = spied()
    with pytest.raises(ValueError, match="clip"):
        curator.ask(Gradient(Logistic(), np.zeros(3), clip=clip), Gaussian(50.0))
    assert curator.spent_share == 0


@pytest.mark.parametrize("narrow", [np.float32, np.float16])
def test_narrow_numbers_do_not_lose_noise(narrow):
    clip = narrow(0.1)
    _, curator = spied()
    gradient = curator.ask(Gradient(Logistic(), np.zeros(3), clip=clip), Gaussian(narrow(60)))
    assert Fraction(gradient.deviation) >= Fraction(float(clip)) * 60


def test_run_hands_out_what_was_computed_after_the_charge():
    rows, curator = spied()
    question = {"size": 2, "proven_for": "add_remove", "mechanism": Gaussian(30.0)}
    seen = []

    def compute(given, noise):
        seen.append((given is rows, isinstance(noise, Noise), len(curator._filter.uses)))
        return np.array([1.0, 2.0]), 0.5

    values, scale = curator.run(compute, **question)
    assert values.tolist() == [1.0, 2.0]
    assert scale == 0.5
    assert seen == [(True, True, 1)]
    assert curator.run(lambda rows, noise: np.ones(2), **question).tolist() == [1.0, 1.0]
    with pytest.raises(PrivacyError, match="replace_one"):
        curator.run(compute, **question | {"proven_for": "replace_one"})
    assert len(curator._filter.uses) == 2
    for bad in (np.ones(3), np.array([1.0, np.nan]), (np.array([np.inf, 0.0]), 0.5), 1.0):
        with pytest.raises(PrivacyError, match="nothing was released"):
            curator.run(lambda rows, noise, bad=bad: bad, **question)
    assert len(curator._filter.uses) == 6  # what was charged stays spent


@pytest.mark.parametrize(("made", "promised"), [("row", "person"), ("person", "row")])
def test_rows_of_another_unit_than_the_account_are_refused(made, promised):
    rows = spy_rows()
    rows.unit = made
    with pytest.raises(PrivacyError, match=f"unit '{made}', but the account promises '{promised}'"):
        Curator(rows, Account(BUDGET, unit=promised), Noise(SeededBits(0)))
    rows.unit = promised
    curator = Curator(rows, Account(BUDGET, unit=promised), Noise(SeededBits(0)))
    rows.unit = made
    with pytest.raises(PrivacyError, match="the account promises"):  # views are checked, too
        curator.sample(0.5)
    assert rows.asked == []


def test_questions_asked_together_are_checked_then_charged_then_read():
    rows, curator = spied()
    good = Gradient(Logistic(), np.zeros(3), clip=1.0)
    with pytest.raises(ValueError, match="shape"):
        curator.ask_all([(good, Gaussian(50.0)), (Gradient(Logistic(), np.zeros(4), 1.0), SMALL)])
    costly = Gaussian(1 / math.sqrt(1.2 * curator._filter.total))  # 60 % of the budget
    with pytest.raises(BudgetExceeded):
        curator.ask_all([(good, costly), (good, costly)])
    assert curator.spent_share == 0
    assert rows.asked == []
    answers = curator.ask_all([(good, costly), (good, SMALL)])
    assert rows.charges_when_read == [2, 2]
    assert [answer.mechanism for answer in answers] == [costly, SMALL]
