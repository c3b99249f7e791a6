"""Every solver and pipeline of the library is attacked, with calibrations that are sound.

`make test` attacks each solver with fixed seeds: all settings and relations of those that are run
many at once, one setting and relation of the others, at guarantees that few trials can test. The
slow tests attack all settings, and all pairs with the noise of real fits; each may refute a sound
solver with probability at most 1e-6.
"""

import pytest

from discreet.audit import Verdict, attacks, most_telling, run, subjects
from discreet.rows import sums

from .internals import cached_calibration

EPSILON = 2.0
FEW, MANY = 4_600, 12_000  # runs one by one, and many at once

HIDDEN = ("sgd-adv (published)", "outpert (published)", "objpert (published)")
"""So much more noise than necessary that no number of trials in a test would reveal anything."""

FAINT = {
    **{"rrpsgd": 3_000, "frank-wolfe": 1_500, "agd": 1_500},
    **{"newton": 1_000, "shrunk-gd": 1_000, "privgene": 2_000},
}
"""Seen, but this few trials certify less than a tenth of ε or could not refute twice the ε.

The 6,000 trials of the slow test do both, except for rrpsgd.
"""

PURE = ("laplace-sgd", "privgene")
"""Attacked at δ = 0, where a few hundred trials are enough."""

PIPELINES = tuple(name for name in subjects() if name == "auto" or name.startswith("pipeline"))
PEOPLE = tuple(name for name in subjects() if name.endswith(": people"))  # test_people.py
SOLVERS = [name for name in subjects() if name not in (*PIPELINES, *PEOPLE, "agd: trace")]


@pytest.fixture(autouse=True, scope="module")
def _calibrated_once():
    with cached_calibration():
        yield


def strongest(subject, **settings):
    """The strongest attack on each setting and relation; the larger δ is, the fewer trials."""
    batched = attacks(subject, epsilon=EPSILON, delta=0.05, seed=11)[0].batched
    delta = 0.0 if subject in PURE else 0.01 if batched else 0.05  # tables have 6 rows
    return most_telling(attacks(subject, epsilon=EPSILON, delta=delta, seed=11))


def judge(attack, trials):
    audit = run(attack, trials=trials)
    assert audit.verdict is not Verdict.REFUTED, str(audit)
    if attack.subject in FAINT:
        assert audit.epsilon_bound > 0, str(audit)
    elif attack.subject not in HIDDEN:
        assert audit.verdict is Verdict.CONSISTENT, str(audit)


@pytest.mark.parametrize("subject", SOLVERS)
def test_quick(subject):
    found = strongest(subject)
    if found[0].batched:
        first = found[0].subject
        for k, attack in enumerate(found):
            if attack.subject == first or k % 2:  # the first setting under both relations
                judge(attack, MANY)
    else:
        usual = [attack for attack in found if attack.subject == subject]
        attack = usual[SOLVERS.index(subject) % len(usual)]  # one relation or the other
        judge(attack, FAINT.get(attack.subject, 1_000 if subject in PURE else FEW))


@pytest.mark.slow
@pytest.mark.parametrize("subject", SOLVERS)
def test_all_settings(subject):
    for attack in strongest(subject):
        audit = run(attack, trials=MANY if attack.batched else 6_000)
        assert audit.verdict is not Verdict.REFUTED, str(audit)
        if attack.subject in FAINT and attack.subject != "rrpsgd":
            assert audit.verdict is Verdict.CONSISTENT, str(audit)
        elif attack.subject not in HIDDEN and "published" not in attack.subject:
            assert audit.epsilon_bound > 0, str(audit)


def test_quick_pipeline():
    """A whole fit takes milliseconds: few trials, which refute only a much larger ε."""
    attack = attacks("auto", epsilon=EPSILON, delta=0.05, seed=12)[0]
    assert run(attack, trials=100).verdict is not Verdict.REFUTED


@pytest.mark.slow
@pytest.mark.parametrize("subject", subjects())
def test_all_pairs(subject):
    """The pairs of a subject share its trials."""
    found = attacks(subject, epsilon=1.0, delta=1e-3, jobs=2)
    one_by_one = 4_000 if subject in PIPELINES else 16_000
    for attack in found:
        trials = (4_000_000 if attack.batched else one_by_one) // len(found)
        audit = run(attack, trials=trials, confidence=1 - 1e-6)
        assert audit.verdict is not Verdict.REFUTED, str(audit)


def test_gradients_that_are_not_clipped_are_seen(monkeypatch):
    """Rows are bounded by their gradient's clip alone: without it the audit must refute."""
    clipped = sums.gradient_sum

    def unclipped(rows, weights, loss, clip):
        return clipped(rows, weights, loss, 1e4 * clip)

    monkeypatch.setattr(sums, "gradient_sum", unclipped)
    for solver in ("gd", "sgd"):
        audits = [
            run(attack, trials=20_000)
            for attack in most_telling(attacks(solver, epsilon=EPSILON, delta=1e-3, seed=13))
            if "clipped" in attack.subject
        ]
        assert audits
        assert all(audit.verdict is Verdict.REFUTED for audit in audits)
