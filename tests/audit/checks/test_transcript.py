"""Contents of a transcript; recording does not change a fit."""

import threading

import numpy as np
import pytest

from discreet.core import Curator, Gaussian
from tests.audit.internals import Noise, PrivacyFilter, SeededBits

from .recording import record, record_both
from .tables import NEIGHBOURS, TABLE, logistic
from .transcript import Transcript, WatchedState, describe, watching

pytestmark = pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyLeakWarning")

WATCHED = [(Curator, "ask"), (Noise, "gaussian"), (PrivacyFilter, "charge_all")]


def test_watching_is_undone_even_after_an_error():
    before = [vars(owner)[name] for owner, name in WATCHED]
    with pytest.raises(ValueError, match="size"), watching(Transcript()), watching(Transcript()):
        Noise(SeededBits(0)).gaussian(0, 1.0, -20)
    assert [vars(owner)[name] for owner, name in WATCHED] == before


def test_watchers_may_be_nested():
    noise = Noise(SeededBits(0))
    with watching(Transcript()) as outer:
        with watching(Transcript()) as inner:
            noise.laplace(1, 1.0, -20)
        noise.gaussian(1, 1.0, -20)
    assert [len(outer.steps), len(inner.steps)] == [1, 1]
    assert outer.steps != inner.steps


def test_other_threads_are_not_watched():
    noise = Noise(SeededBits(0))
    with watching(Transcript()) as transcript:
        thread = threading.Thread(target=noise.gaussian, args=(3, 1.0, -20))
        thread.start()
        thread.join()
        assert transcript.steps == []
        noise.gaussian(3, 1.0, -20)
    assert transcript.steps == ["draws gaussian (3, 1.0, -20) {}"]


def test_watching_does_not_change_a_fit():
    model = logistic("agd", random_state=0).fit(*TABLE)
    seen = record(logistic("agd"), TABLE)
    model.set_params(random_state=np.random.RandomState(0)).fit(*TABLE)
    assert seen.left["coef_"] == describe(model.coef_)
    assert seen.left["trace_"] == describe(model.trace_)


def test_questions_charges_and_draws_are_in_order():
    steps = record(logistic("gd"), TABLE).transcript.steps
    start = next(k for k, step in enumerate(steps) if step.startswith("asks"))
    assert steps[start + 1].startswith("charges (((Gaussian(")
    assert steps[start + 2].startswith("draws gaussian")


def test_a_replayed_fit_gets_the_answers_of_the_first():
    first, second = record_both(logistic("agd"), NEIGHBOURS)
    alone = record(logistic("agd"), NEIGHBOURS[1])
    assert second.left["coef_"] == first.left["coef_"] != alone.left["coef_"]
    assert [name for name, _ in second.transcript.answers] == [
        name for name, _ in first.transcript.answers
    ]
    assert {"Gradient", "refine", "LineLosses"} <= first.transcript.questions


def test_descriptions_tell_values_apart():
    one, other = np.zeros(2), np.array([0.0, 5e-324])
    assert describe(one) == describe(one.copy()) != describe(other)
    assert describe((one, Gaussian(2.0))) != describe((other, Gaussian(2.0)))
    assert describe({"a": one}) != describe({"a": other})
    assert describe(object()) == describe(object())  # no addresses


def test_a_watched_state_notes_scale_and_size_but_not_where():
    with watching(Transcript()) as transcript:
        state = WatchedState(0)
        first = state.laplace(3.0, 2.0, size=4)
        state.laplace(5.0, 2.0, size=4)
        state.normal(loc=1.0, scale=2.0)
    assert transcript.steps[0] == transcript.steps[1] != transcript.steps[2]
    assert np.array_equal(first, np.random.RandomState(0).laplace(3.0, 2.0, size=4))
