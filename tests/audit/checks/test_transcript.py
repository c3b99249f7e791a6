"""Contents of a transcript; recording does not change a fit."""

import threading
from typing import get_type_hints

import numpy as np
import pytest

from discreet.core import (
    Account,
    Budget,
    Curator,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    NoisySum,
)
from discreet.core import questions as q
from discreet.core.score_questions import CellCounts, CorrectCount, ErrorSums, TotalQuestion
from discreet.exact.cell_questions import CellBounds, CellQuestion, KindVote, TextCounts
from discreet.exact.histogram import LimitedHistogram, StabilityHistogram
from discreet.exact.pair_questions import BestPairs, PairScores
from discreet.objectives import Huber
from discreet.rows import as_rows
from discreet.rows.scored import scored_rows
from discreet.tables.cell_rows import CellRows
from discreet.tables.schema import Schema
from discreet.tables.source import source
from tests.audit.internals import Noise, PrivacyFilter, SeededBits

from .recording import record, record_both
from .tables import NEIGHBOURS, TABLE, logistic
from .transcript import (
    ANSWERLESS,
    CHOICES,
    GATES,
    SUMS,
    Transcript,
    WatchedState,
    describe,
    kinds,
    watching,
)

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
    assert steps[start + 1].startswith("charges (((Gaussian")
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


# Doors and questions

DOORS = {
    *("ask", "ask_all", "refine", "sampled_gradient", "descend", "release", "run", "reveal"),
    *("generator", "permutation", "draw_index"),
}

ZEROS = np.zeros(2)
SUM = Gaussian(5.0)
CHOICE = ExponentialMechanism(0.1, monotone=False)

ASKED = [
    (q.Gradient(Huber(1.0), ZEROS, clip=1.0), SUM),
    (q.RowSum(1.0), SUM),
    (q.SquareSum(1.0), SUM),
    (q.OuterSum(1.0), SUM),
    (q.TargetMoment(clip=1.0, target_weight=1.0), SUM),
    (q.TargetSum(clip=1.0), SUM),
    (q.ClassCounts(2), SUM),
    (q.ExponentCounts(2), SUM),
    (q.EdgeCounts((0, 1), np.array([[0.0, 1.0]] * 2)), SUM),
    (q.ScoreSum(Huber(1.0), ZEROS, clip=1.0), SUM),
    (q.CurvatureSum(Huber(1.0), ZEROS, clip=1.0), SUM),
    (q.ScoreSquareSum(Huber(1.0), ZEROS, clip=1.0), SUM),
    (q.ScoreVariances(Huber(1.0), ZEROS, 1.0, np.eye(2), 1.0), SUM),
    (q.LineLosses(Huber(1.0), ZEROS, ZEROS, ZEROS, 1.0, ZEROS), CHOICE),
    (q.CornerGradient(Huber(1.0), ZEROS, 1.0, ZEROS), CHOICE),
    (q.CandidateLosses(Huber(1.0), np.zeros((2, 2)), ZEROS, 1.0, ZEROS), CHOICE),
    (q.MedianNorm(), CHOICE),
    (q.MedianSlope(Huber(1.0), ZEROS), CHOICE),
    (CorrectCount(), SUM),
    (CellCounts.confusion(2), Laplace(0.1)),
    (ErrorSums(0.0, 1.0), Laplace(0.1)),
    (BestPairs((np.arange(2),) * 2, ((0, 1),), 1), CHOICE),
    (PairScores((np.arange(2),) * 2, ((0, 1),)), SUM),
    (q.ColumnBounds(0, coverage=0.9), CHOICE),
]


OF_CELLS = [
    (KindVote("a"), Laplace(1.0)),
    (CellBounds("a", coverage=0.9), CHOICE),
    (TextCounts("a"), StabilityHistogram(1.0, 1e-6, "add_remove")),
    (TextCounts("a"), LimitedHistogram(StabilityHistogram(1.0, 1e-6, "add_remove"), Laplace(1.0))),
]


def asking_of_cells():
    """Return a curator of a few cells with a large budget."""
    rows = CellRows(source({"a": ["1", "2", "x"]}), Schema, None, SeededBits(0))
    curator = Curator(rows, Account(Budget(100.0, 1e-6, "add_remove")), Noise(SeededBits(1)))
    curator.open("approximate")
    return curator


def asking(question=None):
    """Return a curator of a few rows that a question is about, with a large budget."""
    X, y = np.array([[0.5, 0.0], [0.1, 0.7], [-0.3, 0.2]]), np.array([0.0, 1.0, 1.0])
    rows = as_rows(X, y, fit_intercept=False, row_norm=1.0)
    if isinstance(question, BestPairs | PairScores):
        rows = as_rows(np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), y, fit_intercept=False)
    if isinstance(question, TotalQuestion):
        rows = scored_rows(X, y, lambda table: table[:, 0])
    curator = Curator(rows, Account(Budget(100.0, 1e-6, "add_remove")), Noise(SeededBits(1)))
    curator.open("gdp")
    return curator


def test_every_door_of_the_curator_is_watched():
    public = {name for name in dir(Curator) if not name.startswith("_")}
    doors = {name for name in public if callable(getattr(Curator, name))} - ANSWERLESS
    assert doors == DOORS
    with watching(Transcript()):
        assert all(hasattr(vars(Curator)[name], "__wrapped__") for name in doors)


def test_every_question_is_a_sum_or_a_choice():
    answers = {kind.__name__: get_type_hints(kind.release)["return"] for kind in kinds()}
    names = {name for name, answer in answers.items() if answer is not NoisySum}
    assert names == CHOICES - DOORS
    assert GATES | SUMS <= DOORS
    # every public class of the module but the bases is one of them
    defined = {kind for kind in vars(q).values() if isinstance(kind, type)}
    public = {k for k in defined if issubclass(k, q.Question) and not k.__name__.startswith("_")}
    assert set(kinds()) >= public - {q.Question, q.SumQuestion}
    assert {type(question) for question, _ in ASKED + OF_CELLS} == set(kinds())


@pytest.mark.parametrize(
    ("question", "mechanism"), ASKED + OF_CELLS, ids=lambda one: type(one).__name__
)
def test_questions_are_recorded_by_their_class(question, mechanism):
    name = type(question).__name__
    curator = asking_of_cells() if isinstance(question, CellQuestion) else asking(question)
    with watching(Transcript()) as transcript:
        answer = curator.ask(question, mechanism)
    assert transcript.questions == {name}
    assert [asked for asked, _ in transcript.answers] == [f"ask {name}"]
    assert transcript.steps[0].startswith(f"asks ask {name}")
    assert transcript.steps[1].startswith("charges")
    assert any(step.startswith("draws") for step in transcript.steps[2:])
    own = [release for release in transcript.releases if release.question == name]
    assert len(own) == isinstance(answer, NoisySum)
    for release in own:
        assert np.array_equal(release.values, answer.values)
        multiples = np.ldexp(release.values, -release.grid)
        assert np.array_equal(multiples, np.rint(multiples))


def test_questions_that_are_asked_together_have_their_own_grids():
    both = [ASKED[1], ASKED[-1], (ASKED[3][0], Gaussian(1e-3))]
    curator = asking()
    curator = Curator(curator._rows, Account(Budget(1e9, 1e-6, "add_remove")), Noise(SeededBits(1)))
    curator.open("gdp")
    with watching(Transcript()) as transcript:
        curator.ask_all(both)
    assert transcript.questions == {"RowSum", "ColumnBounds", "OuterSum"}
    assert [name for name, _ in transcript.answers] == ["ask_all RowSum ColumnBounds OuterSum"]
    grids = {one.question: one.grid for one in transcript.releases if "." not in one.question}
    assert set(grids) == {"RowSum", "OuterSum"}
    assert grids["OuterSum"] < grids["RowSum"]


def test_answers_given_together_are_replayed():
    transcripts = [Transcript()]
    transcripts.append(Transcript(transcripts[0]))
    answers = []
    for transcript, seed in zip(transcripts, (1, 2), strict=True):
        curator = asking()
        curator._noise = Noise(SeededBits(seed))
        with watching(transcript):
            first, _ = curator.ask_all([ASKED[0], ASKED[1]])
            answers.append(first.values)
            curator.refine(first, mechanism=SUM)  # the answer that was given is the newest
    assert np.array_equal(*answers)


def test_an_answer_without_noise_of_a_grid_is_recorded_as_such(monkeypatch):
    def unprotected(self, exact, mechanism, public, noise):
        return NoisySum(exact.values + 1e-3, 1.0, mechanism)

    monkeypatch.setattr(q.SumQuestion, "release", unprotected)
    curator = asking()
    with watching(Transcript()) as transcript:
        curator.ask(*ASKED[1])
    assert [release.grid for release in transcript.releases] == [None]
