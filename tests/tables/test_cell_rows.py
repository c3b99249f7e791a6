"""Cells of a table for a curator: neighbouring tables, people, and charges before reads."""

import itertools
from collections import Counter

import numpy as np
import pytest

from discreet.core import Account, Budget, Curator, Laplace, PermuteAndFlip, Relation, ranges
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.errors import BudgetExceeded, PrivacyError, TableError
from discreet.exact.cell_questions import CellBounds, KindVote, TextCounts
from discreet.exact.histogram import LimitedHistogram, StabilityHistogram

pa = pytest.importorskip("pyarrow")

from discreet.tables.cell_rows import CellRows  # noqa: E402
from discreet.tables.columns import Ignored  # noqa: E402
from discreet.tables.parts import ArrowPart  # noqa: E402
from discreet.tables.schema import Schema  # noqa: E402
from discreet.tables.source import Source, source  # noqa: E402

RELATIONS = [Relation.ADD_REMOVE, Relation.REPLACE_ONE]
CELLS = ["1", "2", "2.5", "x", "y", "nan", "1e3", None]
"""Cells that a row may have: whole and other numbers, texts, NaN, and a missing cell."""

QUESTIONS = [
    KindVote("a"),
    KindVote("a", "whole"),
    CellBounds("a", 0.9),
    CellBounds("a", 0.9, whole=True),
    TextCounts("a"),
    TextCounts("a", prefix=1),
]


def reading(unit=None):
    """Return a function that makes a schema of some columns."""

    def schema(wanted):
        return Schema({"a": Ignored(), "b": Ignored(), **wanted}, unit=unit)

    return schema


def rows_of(cells, ids=None, seed=0, block=3):
    """Return rows with a column ``a``, read in blocks of a few."""
    columns = {"a": pa.array(cells, pa.string()), "b": pa.array(["b"] * len(cells), pa.string())}
    unit = None if ids is None else "id"
    if ids is not None:
        columns["id"] = pa.array(ids, pa.int64())
    table = pa.table(columns)

    def stream(wanted, request):
        yield from table.select(wanted).to_batches(block)

    part = ArrowPart.of(pa.Table, table.schema, stream)
    return CellRows(Source((part,)), reading(unit), unit, SeededBits(seed))


def distance(question, first, second):
    """Return how far apart two exact answers are, in the norm of the question's sensitivity."""
    if isinstance(question, KindVote):
        return abs(first - second)
    if isinstance(question, TextCounts):
        return sum(((first - second) + (second - first)).values())
    pairs = zip(ranges._scores(first, 1 / 16), ranges._scores(second, 1 / 16), strict=True)
    return max(np.abs(one - other).max() for one, other in pairs)


def neighbours(cells, relation):
    """Yield all tables that differ from one in one row."""
    for place in range(len(cells)):
        rest = cells[:place] + cells[place + 1 :]
        if relation is Relation.ADD_REMOVE:
            yield rest
        else:
            yield from ([*cells[:place], cell, *cells[place + 1 :]] for cell in CELLS)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("question", QUESTIONS, ids=repr)
def test_neighbouring_tables_are_as_far_apart_as_stated(question, relation):
    largest = 0.0
    for cells in ([*CELLS, *CELLS[:4]], ["1"] * 7, ["x"] * 7, ["1.5", "x", "1.5"]):
        [exact] = rows_of(cells).answer([question])
        for other in neighbours(cells, relation):
            [near] = rows_of(other).answer([question])
            largest = max(largest, distance(question, exact, near))
            if isinstance(question, TextCounts):
                assert abs(len(exact) - len(near)) <= 1  # of which the limit is noisy
    assert largest <= question.sensitivity(relation)
    if not isinstance(question, CellBounds):  # bounds take the same noise for both relations
        assert largest == question.sensitivity(relation)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("question", QUESTIONS, ids=repr)
def test_a_person_with_many_rows_moves_an_answer_like_one_row(question, relation):
    # The person who differs comes last, so that the bits of the others are the same.
    cells = [*CELLS, *CELLS[:4]]
    ids = [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2]
    groups = [["1"] * 9, ["x"] * 9, ["2.5"] * 9, ["x", "y", "1", "2"] * 5, ["1"]]
    largest = 0.0
    for seed, (one, other) in itertools.product(range(3), itertools.permutations(groups, 2)):
        first = rows_of(cells + one, ids + [9] * len(one), seed)
        if relation is Relation.ADD_REMOVE:
            second = rows_of(cells, ids, seed)
        else:
            second = rows_of(cells + other, ids + [9] * len(other), seed)
        [exact] = first.answer([question])
        [near] = second.answer([question])
        largest = max(largest, distance(question, exact, near))
        assert first.public_size == 6
    assert 0 < largest <= question.sensitivity(relation)


def test_one_pass_answers_all_questions():
    passes = []
    rows = rows_of([*CELLS, *CELLS[:4]])
    part = rows._source.parts[0]

    def stream(wanted, request):
        passes.append(wanted)
        return part.stream(wanted, request)

    watched = ArrowPart.of(pa.Table, part.fields(), stream)
    together = CellRows(Source((watched,)), reading(), None, SeededBits(0))
    assert together.public_size == 0
    assert together.answer([]) == []
    assert not passes
    found = together.answer(QUESTIONS)
    assert passes == [["a"]]
    assert together.public_size == len(CELLS) + 4
    for question, answer in zip(QUESTIONS, found, strict=True):
        [alone] = rows.answer([question])
        np.testing.assert_equal(answer, alone)
    assert found[0] == 3  # 7 numbers less 4 other texts: NaN is none
    assert found[4] == Counter({"1": 2, "2": 2, "2.5": 2, "x": 2, "y": 1, "nan": 1, "1e3": 1})


BOUNDS = PermuteAndFlip(0.5, monotone=False)
TEXTS = StabilityHistogram(1.0, 1e-6, "add_remove")
ASKED = [
    [(KindVote("a"), Laplace(1.0))],
    [(CellBounds("a", 0.9), BOUNDS)],
    [(TextCounts("a"), TEXTS)],
    [(TextCounts("a"), LimitedHistogram(TEXTS, Laplace(0.5)))],
    [(KindVote("a"), Laplace(0.5)), (TextCounts("b"), TEXTS), (CellBounds("a", 0.9), BOUNDS)],
]


class Watched:
    """A table whose cells say what had been charged when they were read."""

    def __init__(self, unit):
        self.reads = []
        self.curator = None
        table = pa.table({"a": ["1", "x"], "b": ["y", "z"], "id": [1, 2]})
        table = table if unit else table.drop_columns(["id"])

        def stream(wanted, request):
            self.reads.append([mechanism for mechanism, _ in self.curator._filter.uses])
            yield from table.select(wanted).to_batches()

        part = ArrowPart.of(pa.Table, table.schema, stream)
        name = "id" if unit else None
        self.rows = CellRows(Source((part,)), reading(name), name, SeededBits(0))

    def open(self, budget):
        account = Account(budget, unit=self.rows.unit)
        self.curator = Curator(self.rows, account, Noise(SeededBits(0)))
        self.curator.open("approximate")
        return self.curator


@pytest.mark.parametrize("unit", [False, True], ids=["rows", "people"])
@pytest.mark.parametrize("asked", ASKED, ids=range(len(ASKED)))
def test_every_read_was_charged_first(asked, unit):
    watched = Watched(unit)
    watched.open(Budget(3.0, 1e-5, "add_remove")).ask_all(asked)
    # With a unit, the ids are read in a pass of their own.
    assert watched.reads == [[mechanism for _, mechanism in asked]] * (2 if unit else 1)


@pytest.mark.parametrize("unit", [False, True], ids=["rows", "people"])
@pytest.mark.parametrize("asked", ASKED, ids=range(len(ASKED)))
def test_a_table_is_never_opened_without_the_budget(asked, unit):
    watched = Watched(unit)
    curator = watched.open(Budget(0.4, 1e-5, "add_remove"))
    with pytest.raises(BudgetExceeded):
        curator.ask_all(asked)
    assert not watched.reads


@pytest.mark.parametrize("unit", [False, True], ids=["rows", "people"])
def test_rows_are_refused_by_an_account_of_another_unit(unit):
    watched = Watched(unit)
    account = Account(Budget(3.0, 1e-5, "add_remove"), unit="row" if unit else "person")
    with pytest.raises(PrivacyError, match="privacy unit"):
        Curator(watched.rows, account, Noise(SeededBits(0)))
    assert not watched.reads


def test_a_computation_for_single_rows_is_refused_for_people():
    curator = Watched(unit=True).open(Budget(3.0, 1e-5, "add_remove"))
    with pytest.raises(PrivacyError, match="proven for single rows"):
        curator.run(
            lambda rows, noise: np.zeros(1),
            size=1,
            proven_for=Relation.ADD_REMOVE,
            mechanism=Laplace(1.0),
        )


def test_an_error_while_cells_are_counted_shows_none_of_them():
    class Failing(KindVote):
        def add(self, exact, cells):
            raise ValueError(f"SECRET {cells._cells}")

    with pytest.raises(TableError) as caught:
        rows_of(["SECRET"]).answer([Failing("a")])
    error = caught.value
    assert "SECRET" not in str(error)
    assert error.__cause__ is None
    assert error.__context__ is None


def test_numbers_with_types_count_as_their_texts():
    table = {"a": pa.array([3.0, 3.0, 0.5, np.nan, None]), "b": ["x"] * 5}
    rows = CellRows(source(table), reading(), None, SeededBits(0))
    texts, margin = rows.answer([TextCounts("a"), KindVote("a")])
    assert texts == Counter({"3": 2, "0.5": 1})
    assert margin == 2  # three numbers; NaN is neither a number nor missing
