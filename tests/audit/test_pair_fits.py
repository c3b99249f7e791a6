"""Attacks on whole fits with pairs of columns: a sound one is not refuted, halved noise is.

The attacker knows all rows but one, whose target is −1 or 1, and sees every noisy sum that both
models are fitted by. Where all that a fit released before is known, the exact sums of both
candidate tables are, and the sum of the logarithms of likelihood ratios is the best statistic
there is.
"""

import numpy as np
import pytest

from discreet import LinearRegression
from discreet.audit import audit
from discreet.core import Curator, Gaussian
from discreet.core.questions import Gradient, TargetMoment
from discreet.estimators import pairs

EPSILON, DELTA = 0.5, 0.2
"""A budget of μ = 0.9, of which few fits show most."""

ROWS = 800
TRIALS = 500

pytestmark = pytest.mark.filterwarnings("ignore")


def tables():
    """Two tables that differ in the target of the first row; all others are near 0."""
    rng = np.random.default_rng(0)
    X = rng.random((ROWS, 3))
    same = (X[:, 0] > 0.5) == (X[:, 1] > 0.5)
    y = np.where(same, 0.1, -0.1) + rng.normal(0.0, 0.02, ROWS)
    X[0] = [0.12, 0.12, 0.5]
    first, second = y.copy(), y.copy()
    first[0] = -1.0
    second[0] = 1.0
    return (X, first), (X, second)


def flipped(rows):
    """The same rows with the other target of the first row; offsets stay."""
    targets = rows.targets.copy()
    targets.reshape(len(targets), -1)[0, 0] *= -1
    return rows.with_targets(targets)


@pytest.fixture
def ratios(monkeypatch):
    """Sums of logarithms of likelihood ratios of each fit's sums, and their variances."""
    found = []
    asked = Curator.ask

    def ask(self, question, mechanism):
        noisy = asked(self, question, mechanism)
        if isinstance(question, Gradient | TargetMoment):
            rows = self._rows
            own, other = (each.answer([question])[0].values for each in (rows, flipped(rows)))
            of_one = rows.targets.reshape(len(rows.targets), -1)[0, 0] > 0
            one, zero = (own, other) if of_one else (other, own)
            middle = noisy.values - (one + zero) / 2
            found[-1][0] += float(middle @ (one - zero)) / noisy.deviation**2
            found[-1][1] += float(np.sum(np.square(one - zero))) / noisy.deviation**2
        return noisy

    monkeypatch.setattr(Curator, "ask", ask)
    return found


@pytest.fixture
def fits(monkeypatch, ratios):
    """The mechanism: whole fits of a table, with pairs, and the statistic of each."""
    low = dict.fromkeys(pairs.LEAST_SIGNAL, 10.0)
    monkeypatch.setattr(pairs, "LEAST_SIGNAL", low)
    monkeypatch.setattr(pairs.PairSide, "_pays", lambda *_: True)

    def run(table, count):
        start = len(ratios)
        for _ in range(count):
            ratios.append([0.0, 0.0])
            model = LinearRegression(
                EPSILON,
                DELTA,
                relation="replace_one",
                target_bounds=(-1, 1),
                columns=dict.fromkeys(range(3), (0.0, 1.0)),
                features="pairs",
            )
            model.fit(*table)
            assert model.pairs_.search.share > 0
        return np.array(ratios[start:])[:, :1]

    return run


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("sound", [True, False])
def test_whole_fits_with_halved_noise_are_refuted_and_sound_ones_are_not(
    fits, ratios, monkeypatch, sound
):
    if not sound:
        release = Gaussian.release

        def halved(self, values, *, sensitivity, **rest):
            return release(self, values, sensitivity=sensitivity / 2, **rest)

        monkeypatch.setattr(Gaussian, "release", halved)
    given = {"epsilon": EPSILON, "delta": DELTA, "relation": "replace_one"}
    result = audit(fits, tables(), **given, trials=2 * TRIALS, confidence=0.999)
    print(result)
    separation = np.sqrt(np.mean([square for _, square in ratios]))
    print(f"distance of the two tables, in deviations of the noise: {separation:.2f}")
    assert (result.verdict == "refuted") == (not sound)
    # the attack sees most of the budget: μ is 0.90
    assert separation > (0.5 if sound else 1.0)
