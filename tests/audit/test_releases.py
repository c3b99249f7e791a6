"""Attacks on single releases: each is consistent with its cost, and refutes a smaller claim.

Seeds are fixed, so that a test passes always or never. Scores take the system's noise; for them a
certified bound is above the truth with probability 1e-6.
"""

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import ks_2samp

from discreet.accounting.conversions import epsilon_from_mu
from discreet.audit import Verdict, run
from discreet.core import Gaussian, L2Norm, Laplace, Relation
from discreet.core.questions import Gradient, RowSum
from discreet.objectives import Hinge

from .checks.transcript import Transcript, kinds, watching
from .internals import Noise, SeededBits
from .releases.curator import release_attacks
from .releases.harness import Harness, changed, copied, projection

EPSILON, DELTA = 2.0, 1e-3
SEED = 7


def attacks():
    """All attacks with noise that is the same in every test, whichever ran before."""
    return release_attacks(epsilon=EPSILON, delta=DELTA, bits=SeededBits(SEED))


NAMES = [f"{attack.subject} ({attack.relation})" for attack in attacks()]

QUICK = (
    "vector noise",
    "release: gradient",
    "release: score",
    "release: Hessian",
    "release: squared score",
    "release: chosen step",
    "release: chosen corner, permute_and_flip",
    "release: chosen candidate, laplace_noisy_max",
    "release: chosen pair",
    "release: scores of pairs",
    "release: sum of rows",
    "release: sum of squares",
    "release: sum of products",
    "release: counts of classes",
    "step: centre, Gaussian",
    "draft",
    "score",
)
"""Releases that are cheap to attack."""

WEAK = {"bounds": 0.1, "sample": 0.2, "whiten": 0.3}
"""Releases of which this few trials reveal less than 0.4 of their cost."""


def judge(name, *, pure, approximate, share):
    attack = attacks()[NAMES.index(name)]
    confidence = 1 - 1e-6 if attack.subject.startswith("score") else 0.999
    trials = pure if attack.delta == 0 else approximate
    result = run(attack, trials=trials, confidence=confidence)
    assert result.verdict is Verdict.CONSISTENT, str(result)
    claims_less = dataclasses.replace(result, epsilon=share * attack.epsilon)
    assert claims_less.verdict is Verdict.REFUTED, str(claims_less)


BOTH = ("release: gradient", "release: sum of rows")
"""Attacked under both relations in the quick tests; the others under one of them, in turn."""

FIRST = [
    name
    for k, name in enumerate(name for name in NAMES if name.startswith(QUICK))
    if k % 2 or name.startswith((*BOTH, "vector noise", "draft"))
]


@pytest.mark.parametrize("name", FIRST)
def test_a_release_is_worth_its_cost(name):
    judge(name, pure=2_500, approximate=26_000, share=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_release_is_hardly_worth_less_than_its_cost(name):
    share = next((share for word, share in WEAK.items() if word in name), 0.4)
    pure = 20_000 if "bounds" in name else 6_000  # half of their cost is for the other bound
    judge(name, pure=pure, approximate=40_000, share=share)


def test_both_relations_and_all_mechanisms_are_attacked():
    everything = attacks()
    assert len(set(NAMES)) == len(everything)
    subjects = {attack.subject for attack in everything}
    for subject in subjects:
        relations = {str(attack.relation) for attack in everything if attack.subject == subject}
        once = subject.startswith("vector noise") or subject in (
            "release: a proven release",
            "draft: too many categories",
        )
        assert len(relations) == (1 if once else 2), subject
    for mechanism in ("exponential", "permute_and_flip", "laplace_noisy_max", "l2_norm"):
        assert any(mechanism in subject for subject in subjects)
    for step in ("bounds", "radius", "centre", "spread", "scale", "whiten"):
        assert f"step: {step}" in subjects


def test_every_question_is_attacked_under_both_relations():
    """A class of questions without an attack fails here, and so does a door without one."""
    asked = {relation: set() for relation in Relation}
    for attack in attacks():
        if attack.subject.startswith(("release", "draft", "score")):
            with watching(Transcript()) as transcript:
                attack.draw(1, 1)
            asked[attack.relation] |= transcript.questions
    every = {kind.__name__ for kind in kinds()} | {"refine", "sampled_gradient"}
    assert asked[Relation.REPLACE_ONE] == every
    assert asked[Relation.ADD_REMOVE] == every | {"release"}


def test_measurements_that_are_not_charged_are_refuted():
    """Five more measurements of a gradient, at the price of one."""
    harness = Harness(epsilon_from_mu(1.0, DELTA), DELTA, SeededBits(SEED))
    row, relation, copies = np.array([3.0, 4.0]), Relation.ADD_REMOVE, 50
    tables = (copied(changed(relation, row), copies), copied(row, copies))

    def forgetful(curator):
        once = Gaussian(1.0)
        gradient = curator.ask(Gradient(Hinge(), np.zeros(2 * copies), clip=1.0), once)
        for _ in range(5):
            gradient = curator.refine(gradient, mechanism=once)
        return gradient.values

    attack = harness.attack(
        "a gradient, measured six times",
        "one row or none",
        relation,
        harness.asking(tables, relation, forgetful, copies=copies),
        pure=False,
        projection_on_the_row=projection(row),
    )
    assert run(attack, trials=20_000).verdict is Verdict.REFUTED


@pytest.mark.parametrize("mechanism", [Gaussian(1.0), Laplace(1.0), L2Norm(1.0)], ids=repr)
def test_vectors_drawn_together_are_those_of_single_releases(mechanism):
    values = np.array([0.25, -0.5, 0.0])
    block, grid, scale = mechanism.draw_block(
        Noise(SeededBits(3)), 20, 3, sensitivity=1.0, magnitude=1.0
    )
    noise = Noise(SeededBits(3))
    for drawn in block:
        single, same = mechanism.release(values, sensitivity=1.0, magnitude=1.0, noise=noise)
        assert same == scale
        assert np.array_equal(single, values + drawn * 2.0**grid)


def test_remembered_rows_answer_as_rows_do():
    table = copied(np.array([3.0, 4.0]), 3)
    answers = []
    for remember in (True, False):
        harness = Harness(EPSILON, DELTA, SeededBits(SEED))
        curator = harness.curator(table, Relation.ADD_REMOVE, norm=1.0, remember=remember)
        curator.open("gdp")
        gradients = [
            curator.ask(Gradient(Hinge(), np.zeros(6), clip=1.0), Gaussian(1.0)).values
            for _ in range(3)
        ]
        sums = [curator.ask(RowSum(curator.row_norm), Gaussian(1.0)).values for _ in range(3)]
        answers.append(np.concatenate(gradients + sums))
    assert np.array_equal(*answers)


def test_copies_side_by_side_are_independent_trials():
    """The same distribution as one by one (a KS test, false alarms 1e-6), and no correlation."""
    harness = Harness(EPSILON, DELTA, SeededBits(SEED))
    row, relation, count = np.array([3.0, 4.0]), Relation.REPLACE_ONE, 4_000
    samples = []
    for copies in (1, 200):

        def ask(curator, copies=copies):
            start = np.zeros(2 * copies)
            return curator.ask(Gradient(Hinge(), start, clip=1.0), Gaussian(1.0)).values

        tables = (copied(-row, copies), copied(row, copies))
        draw = harness.asking(tables, relation, ask, copies=copies)
        samples.append(draw(1, count) @ row / 5)
    assert ks_2samp(*samples).pvalue > 1e-6
    neighbours = np.corrcoef(samples[1][:-1], samples[1][1:])[0, 1]
    assert abs(neighbours) < 5 / math.sqrt(count)


def test_a_promise_without_delta_is_refused():
    with pytest.raises(ValueError, match="delta"):
        release_attacks(epsilon=1.0, delta=0.0)
