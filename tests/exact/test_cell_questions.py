"""Questions about cells: what reaches the noise, and the secret limit."""

from collections import Counter

import numpy as np
import pytest

from discreet.core import Account, Budget, Curator, Laplace, PermuteAndFlip, Relation
from discreet.core.bits import SeededBits
from discreet.core.mechanisms import SelectionMechanism
from discreet.core.noise import Noise
from discreet.core.questions import Public
from discreet.errors import BudgetExceeded, PrivacyError
from discreet.exact.cell_questions import CellBounds, KindVote, TextCounts
from discreet.exact.histogram import GaussianHistogram, LimitedHistogram, StabilityHistogram
from discreet.rows.moments import edges

RELATIONS = [Relation.ADD_REMOVE, Relation.REPLACE_ONE]


class Texts:
    """Blocks of texts of one column, as rows of a curator that write down when they are read."""

    unit = "row"
    grouped = False
    row_norm = None
    n_features = n_parameters = 0

    def __init__(self, *blocks, events=None):
        self.blocks = blocks
        self.public_size = sum(map(len, blocks))
        self.events = [] if events is None else events

    def answer(self, questions):
        self.events.append("read")
        exact = [question.start() for question in questions]
        for block in self.blocks:
            exact = [q.add(e, Block(block)) for q, e in zip(questions, exact, strict=True)]
        return exact


class Block:
    """Texts, each of which is a text and not a number."""

    def __init__(self, texts):
        self.texts = texts

    def margin(self, column, of, form):
        return 0 if of == "whole" else -len(self.texts)

    def number_counts(self, column, candidates):
        return np.zeros(2 * candidates.size + 1, dtype=np.int64)

    def text_counts(self, column, prefix):
        return Counter(text[:prefix] for text in self.texts)


def asked(rows, budget=None, noise=None):
    """Return a curator of rows, open for a large budget."""
    budget = Budget(1000.0, 1e-3, "add_remove") if budget is None else budget
    noise = Noise(SeededBits(0)) if noise is None else noise
    curator = Curator(rows, Account(budget), noise)
    curator.open("approximate")
    return curator


def histogram(epsilon=50.0, relation="add_remove"):
    return StabilityHistogram(epsilon, 1e-6, relation)


def limited(epsilon=50.0, relation="add_remove"):
    return LimitedHistogram(histogram(epsilon, relation), Laplace(epsilon))


@pytest.mark.parametrize("relation", RELATIONS)
def test_votes_have_noise_for_their_sensitivity(relation, monkeypatch):
    seen = []
    release = Laplace.release

    def spy(self, values, *, sensitivity, magnitude, noise):
        seen.append((values.tolist(), sensitivity, magnitude))
        return release(self, values, sensitivity=sensitivity, magnitude=magnitude, noise=noise)

    monkeypatch.setattr(Laplace, "release", spy)
    budget = Budget(9.0, 1e-6, relation)
    assert not asked(Texts(["a"] * 30, ["b"] * 10), budget).ask(KindVote("c"), Laplace(5.0))
    assert seen == [([-40.0], float(relation.rows_changed), 40.0)]


@pytest.mark.parametrize("lead", [0.0, 7.0])
def test_a_vote_needs_its_lead(lead):
    # Noise of scale 0.01: 100 standard deviations decide.
    public = Public(Relation.ADD_REMOVE, 1000, 0, 0, None)
    noise = Noise(SeededBits(0))
    question = KindVote("c", lead=lead * 100)
    won = [question.release(m, Laplace(100.0), public, noise) for m in (-1, 1, 6, 8, 251)]
    assert won == [False, lead == 0, lead == 0, True, True]
    small = Public(Relation.ADD_REMOVE, 16, 0, 0, None)
    assert question.release(5, Laplace(100.0), small, noise)  # a quarter of the rows suffices


@pytest.mark.parametrize("relation", RELATIONS)
def test_bounds_have_noise_for_their_sensitivity(relation, monkeypatch):
    seen = []
    select = PermuteAndFlip.select

    def spy(self, scores, *, sensitivity, **settings):
        seen.append(sensitivity)
        return select(self, scores, sensitivity=sensitivity, **settings)

    monkeypatch.setattr(PermuteAndFlip, "select", spy)
    question = CellBounds("c", 0.9)
    curator = asked(Texts(["a"] * 30), Budget(9.0, 1e-6, relation))
    low, high = curator.ask(question, PermuteAndFlip(2.0, monotone=False))
    assert seen == [question.sensitivity(relation)] * 2 == [1.0, 1.0]
    assert low < high
    assert {low, high} <= set(edges().tolist())
    assert sum(times for _, times in curator._filter.uses) == 2


def test_bounds_refuse_monotone_noise_before_a_charge():
    rows = Texts(["a"] * 30)
    curator = asked(rows)
    with pytest.raises(PrivacyError, match="not monotone"):
        curator.ask(CellBounds("c", 0.9), PermuteAndFlip(2.0, monotone=True))
    assert not curator._filter.uses
    assert not rows.events


@pytest.mark.parametrize("make", [histogram, limited])
def test_noise_for_another_relation_is_refused_before_a_charge(make):
    rows = Texts(["a"] * 30)
    curator = asked(rows, Budget(200.0, 1e-3, "replace_one"))
    with pytest.raises(PrivacyError, match="noise for 'add_remove', but the budget is for"):
        curator.ask(TextCounts("c"), make())
    assert not curator._filter.uses
    assert not rows.events
    assert curator.ask(TextCounts("c"), make(relation="replace_one")) is not None


@pytest.mark.parametrize(
    ("question", "mechanism"),
    [
        (KindVote("c"), PermuteAndFlip(1.0, monotone=False)),
        (CellBounds("c", 0.9), Laplace(1.0)),
        (TextCounts("c"), Laplace(1.0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_mechanisms_are_refused(question, mechanism):
    rows = Texts(["a"] * 30)
    with pytest.raises(TypeError, match=f"{type(question).__name__} needs a"):
        asked(rows).ask(question, mechanism)
    assert not rows.events


def test_frequent_texts_are_released_by_prefix():
    # Counts of 300 and 200 at noise of scale 1/50 and a threshold below 2.
    curator = asked(Texts(["ab"] * 100, ["ac"] * 200, ["b"] * 200))
    found = curator.ask(TextCounts("c", prefix=1), histogram())
    assert {text: round(count) for text, count in found.items()} == {"a": 300, "b": 200}


def test_a_column_of_many_texts_is_given_up_and_forgotten():
    # Noise of scale 1/50 around limits of 10 and 12 texts: 50 scales decide.
    rows = Texts([f"t{k}" for k in range(6)] * 50, [f"t{k}" for k in range(11)] * 50)
    assert asked(rows).ask(TextCounts("c", most=12), limited()).keys() == {
        f"t{k}" for k in range(11)
    }
    assert asked(rows).ask(TextCounts("c", most=9), limited()) is None
    question = TextCounts("c", most=9).prepare(limited(), Noise(SeededBits(0)))
    assert [question.add(question.start(), Block(block)) is None for block in rows.blocks] == [
        False,
        True,
    ]
    assert question.add(None, Block(["a"])) is None  # it stays given up


def test_the_secret_limit_is_drawn_after_the_charge_and_before_the_read(monkeypatch):
    events = []
    rows = Texts(["a"] * 30, events=events)
    curator = asked(rows)
    draw = Laplace.draw_block

    def spy(self, noise, *arguments, **settings):
        events.append(("draw", len(curator._filter.uses)))
        return draw(self, noise, *arguments, **settings)

    monkeypatch.setattr(Laplace, "draw_block", spy)
    question = TextCounts("c", most=10)
    curator.ask(question, limited())
    assert events == [("draw", 1), "read"]
    ready = question.prepare(limited(), Noise(SeededBits(0)))
    assert "secret" not in repr(ready)
    assert question.prepare(histogram(), Noise(SeededBits(0))) is question


def test_the_cost_of_a_limited_histogram_is_that_of_both_parts():
    mechanism = LimitedHistogram(histogram(0.5), Laplace(0.25))
    assert 0.75 <= mechanism.loss.epsilon <= 0.75 * (1 + 1e-15)
    assert mechanism.loss.delta == 1e-6
    curator = asked(Texts(["a"] * 30), Budget(0.7, 1e-3, "add_remove"))
    with pytest.raises(BudgetExceeded):
        curator.ask(TextCounts("c"), mechanism)


def test_questions_that_are_asked_together_are_charged_before_one_read():
    rows = Texts(["a"] * 30, ["b"] * 30)
    curator = asked(rows)
    bounds = PermuteAndFlip(2.0, monotone=False)
    asks = [(KindVote("c"), Laplace(1.0)), (CellBounds("c", 0.9), bounds)]
    found = curator.ask_all([*asks, (TextCounts("c"), histogram())])
    assert len(found) == 3
    assert rows.events == ["read"]
    small = asked(rows, Budget(5.1, 1e-3, "add_remove"))
    with pytest.raises(BudgetExceeded):
        small.ask_all([*asks, (TextCounts("c"), histogram(0.2))])
    assert rows.events == ["read"]
    assert not small._filter.uses


def test_settings_are_checked():
    with pytest.raises(ValueError, match="lead"):
        KindVote("c", lead=-1.0)
    with pytest.raises(ValueError, match="coverage"):
        CellBounds("c", 1.0)
    with pytest.raises(ValueError, match="most"):
        TextCounts("c", most=0)
    with pytest.raises(ValueError, match="prefix"):
        TextCounts("c", prefix=0)


def test_every_question_states_its_proof():
    for kind in (KindVote, CellBounds, TextCounts):
        assert kind.protected
        assert kind.proof in ("histogram", "ranges")
        assert all(
            issubclass(mechanism, (Laplace, SelectionMechanism))
            or mechanism in (StabilityHistogram, LimitedHistogram, GaussianHistogram)
            for mechanism in kind.mechanisms
        )
