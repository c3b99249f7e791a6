"""Attacks on the curator's answers: can worst-case neighbours be told apart better than promised?

Each attack runs an answer on two neighbouring tables, picks the event {statistic > t} on one half
of the runs and measures its probabilities on the other, with Clopper-Pearson bounds. With
probability at most 1e-6 the certified lower bound on ε exceeds the truth. The second half of each
test gives the attack a mechanism with too little noise, which it must refute.
"""

import math

import numpy as np
import pytest
from scipy.stats import beta

from discreet.objectives import Hinge
from discreet.privacy import (
    Account,
    Budget,
    Curator,
    ExponentialMechanism,
    Gaussian,
    PermuteAndFlip,
    Relation,
)
from discreet.privacy.bits import SeededBits
from discreet.privacy.conversions import epsilon_from_mu
from discreet.privacy.noise import Noise
from discreet.rows import as_rows

pytestmark = pytest.mark.slow

TRIALS = 20_000
ALARM = 1e-6
DELTA = 1e-2


def lower_bound(first, second, delta):
    """Certified lower bound on ε from two samples of a statistic, at confidence 1 - ALARM."""
    half = len(first) // 2
    best = (-math.inf, 0.0, 1)
    for sign in (1, -1):
        for t in np.quantile(sign * np.concatenate([first[:half], second[:half]]), PROBES):
            p, q = (np.mean(sign * s[:half] > t) for s in (first, second))
            score = math.log(max(p - delta, 1e-9) / max(q, 1e-9)) if p > 30 / half else -math.inf
            best = max(best, (score, t, sign))
    _, t, sign = best
    hits = [int(np.sum(sign * s[half:] > t)) for s in (first, second)]
    low = beta.ppf(ALARM / 2, hits[0], half - hits[0] + 1) if hits[0] else 0.0
    high = beta.ppf(1 - ALARM / 2, hits[1] + 1, half - hits[1])
    return math.log(max(low - delta, 1e-300) / high)


PROBES = np.linspace(0.01, 0.99, 99)


def make_curator(extra_row, relation):
    """Eight balanced rows that do not matter, and perhaps one at the clipping bound."""
    X = np.zeros((8, 2))
    y = np.tile([1.0, -1.0], 4)
    if relation == "replace_one" or extra_row:
        X = np.vstack([X, [[5.0, 0.0]]])
        y = np.append(y, -1.0 if extra_row else 1.0)
    # A budget that is never exhausted: what is attacked is a single answer, many times.
    curator = Curator(
        as_rows(X, y, fit_intercept=False),
        Account(Budget(1e9, 1e-6, relation)),
        Noise(SeededBits(extra_row)),
    )
    curator.open("zcdp")
    return curator


def attack(answer, relation="add_remove", delta=DELTA):
    samples = []
    for extra_row in (1, 0):
        curator = make_curator(extra_row, relation)
        samples.append(np.array([answer(curator) for _ in range(TRIALS)]))
    return max(lower_bound(*samples, delta), lower_bound(*samples[::-1], delta))


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_gradient(relation):
    multiplier = 2.0

    def honest(c):
        return c.gradient(Hinge(), np.zeros(2), clip=1.0, mechanism=Gaussian(multiplier)).values[0]

    promised = epsilon_from_mu(1 / multiplier, DELTA)
    measured = attack(honest, relation)
    assert measured <= promised
    assert measured > 0.2 * promised  # the attack sees something

    def broken(c):  # a third of the noise
        return c.gradient(
            Hinge(), np.zeros(2), clip=1.0, mechanism=Gaussian(multiplier / 3)
        ).values[0]

    assert attack(broken, relation) > promised


def test_refinement():
    def honest(c):
        gradient = c.gradient(Hinge(), np.zeros(2), clip=1.0, mechanism=Gaussian(1.0))
        return c.refine(gradient, mechanism=Gaussian(1.0)).values[0]

    once, twice = epsilon_from_mu(1.0, DELTA), epsilon_from_mu(math.sqrt(2), DELTA)
    measured = attack(honest)
    assert measured <= twice
    assert measured > 0.2 * twice

    def forgetful(c):  # five measurements that nobody paid for
        gradient = c.gradient(Hinge(), np.zeros(2), clip=1.0, mechanism=Gaussian(1.0))
        for _ in range(5):
            gradient = c.refine(gradient, mechanism=Gaussian(1.0))
        return gradient.values[0]

    assert attack(forgetful) > once


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip])
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_selection(kind, relation):
    epsilon = 1.5
    monotone = Relation(relation) is Relation.ADD_REMOVE

    def choose(c, spent):
        # Along this direction the extra row's loss goes from one end of [0, 1] to the other.
        return c.choose_step(
            Hinge(),
            np.array([-1.0, 0.0]),
            np.array([-2.0, 0.0]),
            np.linspace(0.0, 1.0, 2),
            clip=1.0,
            public_losses=np.zeros(2),
            mechanism=kind(spent, monotone=monotone),
        )

    measured = attack(lambda c: choose(c, epsilon), relation, delta=0.0)
    assert measured <= epsilon
    assert measured > 0.3 * epsilon
    assert attack(lambda c: choose(c, 3 * epsilon), relation, delta=0.0) > epsilon
