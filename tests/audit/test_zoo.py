"""Every planted bug is refuted, and its repaired twin is not.

Seeds are fixed, so these tests give the same result each time. With other seeds a repaired twin is
refuted with probability at most 1e-3 each: that is the confidence of an audit.
"""

import pytest

from discreet.audit import Verdict, run

from .zoo import ZOO

BUGS = [pytest.param(bug, id=bug.name) for bug in ZOO]


def test_the_zoo_is_large_and_says_what_is_wrong():
    assert len(ZOO) >= 24
    assert len({bug.name for bug in ZOO}) == len(ZOO)
    assert all(len(bug.wrong) > 40 for bug in ZOO)


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_and_its_twin_differ_in_the_bug_alone(bug):
    broken, sound = bug.broken(), bug.sound()
    for name in ("pair", "epsilon", "delta", "relation", "statistics", "learn"):
        assert getattr(broken, name) == getattr(sound, name)


@pytest.mark.parametrize("bug", BUGS)
def test_every_bug_is_refuted(bug):
    audit = run(bug.broken(), trials=bug.trials, confidence=0.999)
    assert audit.verdict is Verdict.REFUTED, str(audit)


@pytest.mark.parametrize("bug", BUGS)
def test_no_repaired_twin_is_refuted(bug):
    """And not for lack of trials: a twin twice as bad as it promises to be would be refuted."""
    audit = run(bug.sound(), trials=bug.trials, confidence=0.999)
    assert audit.verdict is not Verdict.REFUTED, str(audit)
    assert (audit.verdict is Verdict.CONSISTENT) is bug.sharp, str(audit)


def test_nearly_all_audits_of_twins_are_sharp():
    assert sum(not bug.sharp for bug in ZOO) <= 2
