"""Private estimates of kinds, bounds and categories, column by column, for a draft of a schema.

Every question has its share of the budget, fixed by public numbers: the number of columns, their
types in Parquet, the number of rows, and answers that were released before. Exact counts are
collected while the file is read; a cell's count depends on that cell alone, so a row changes one
count per column, and nothing leaves but through mechanisms that were charged first. Proofs:
docs/proofs/ranges.md, docs/proofs/histogram.md.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.core import (
    Account,
    Accountant,
    Budget,
    Laplace,
    PermuteAndFlip,
    PrivacyFilter,
    Relation,
)
from discreet.core.bits import Bits, SeededBits, SystemBits
from discreet.core.filters import Mechanism
from discreet.core.noise import Noise
from discreet.core.ranges import cell_counts, edges, select_bounds_from_counts, tail_share
from discreet.errors import NotSupported, PrivacyLeakWarning, TableError
from discreet.tables.cells import arrow, lenient_numbers, number_margin
from discreet.tables.columns import (
    MISSING,
    OTHER,
    Boolean,
    Categorical,
    Column,
    Ignored,
    Numeric,
    counted,
    quoted,
)
from discreet.tables.histogram import StabilityHistogram, noisy_limit, numeric_vote
from discreet.tables.reading import batches
from discreet.tables.schema import Schema, Spent, Target
from discreet.validate import choice

if TYPE_CHECKING:
    from discreet.tables.draft import Layout

__all__ = ["Estimate", "Task"]

Task = Literal["classes", "numbers"]

Progress: TypeAlias = Callable[[float], None] | None

DISTINCT_LIMIT = 50_000
"""Distinct texts, about, beyond which a column is taken for names or free text."""

VOTE_SHARE = 1 / 8
"""Share of a column's ε for the vote whether it holds numbers: a clear majority needs little."""

LIMIT_SHARE = 1 / 16
"""Share of the rest for the question whether a column holds too many distinct texts."""

CLASSES_COVER = 0.99
"""A target that reads as numbers has classes if those found hold this share of the rows; two
standard deviations of the noise in that sum are allowed for."""

LEAST_COVER = 0.9
"""Whatever the noise, they must hold this share."""

MOST_CLASSES = 100
"""More values than these are not taken for classes of a target that reads as numbers."""

LONGEST_TEXT = 200
"""Letters beyond which a cell is no category; it counts nowhere, which keeps memory bounded."""

_ROUNDING = 1 - 2.0**-36  # parts of a budget are rounded; their sum must not exceed it
_RARE = "no category was frequent enough to be released; list them if they are public"
_MANY = "it holds too many distinct texts for categories, like a name or a free text"
_NO_CLASSES = "was to be the target, but no two classes were frequent enough to be released"


@dataclass(frozen=True)
class Question:
    """One column that is asked about, and the mechanisms for it."""

    name: str
    is_target: bool
    bounds: PermuteAndFlip | None = None
    histogram: StabilityHistogram | None = None
    limit: Laplace | None = None

    @property
    def uses(self) -> list[tuple[Mechanism, int]]:
        """Mechanisms to charge, and the number of uses of each."""
        listed = ((self.bounds, 2), (self.histogram, 1), (self.limit, 1))
        return [(mechanism, times) for mechanism, times in listed if mechanism is not None]


@dataclass
class Tally:
    """Exact counts of a column, collected while the file is read."""

    most_texts: int | None
    cells: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(2 * edges().size + 1, dtype=np.int64)
    )
    texts: Counter[str] = field(default_factory=Counter)
    given_up: bool = False

    def add(self, question: Question, values: Any) -> None:
        """Count a block of cells."""
        if question.bounds is not None:
            self.cells += cell_counts(lenient_numbers(values))
        if question.histogram is not None and not self.given_up:
            for text, count in text_counts(values):
                self.texts[text] += count
            if self.most_texts is not None and len(self.texts) > self.most_texts:
                self.given_up = True
                self.texts.clear()


def text_counts(values: Any) -> Iterable[tuple[str, int]]:
    """Count the distinct texts of a block; missing cells are left out."""
    pa = arrow()
    compute = pa.compute
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    is_float = pa.types.is_floating(values.type)
    if is_float:
        values = values.filter(compute.is_finite(values))
    texts = values.drop_null().cast(pa.string())
    if is_float:  # 3.0 is "3", as in encoding; cell by cell, so that no cell depends on another
        texts = compute.replace_substring_regex(texts, r"^(-?\d+)\.0$", r"\1")
    texts = texts.filter(compute.less_equal(compute.utf8_length(texts), LONGEST_TEXT))
    found = compute.value_counts(texts)
    return zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True)


class Estimate:
    """One private draft: checked settings and one budget.

    Parameters
    ----------
    budget : Budget
        Budget of all of it; δ must be positive.
    coverage, accountant, random_state, task
        As in `discreet.tables.draft.draft_private`.
    """

    def __init__(
        self,
        budget: Budget,
        coverage: float,
        accountant: Accountant | None,
        random_state: Any,
        task: Task | None = None,
    ) -> None:
        if task is not None:
            choice("task", task, ("classes", "numbers"))
        if budget.pure:
            raise NotSupported(
                "A private draft finds categories that nobody listed, which needs delta > 0: give "
                "one well below 1/n, for example 1e-9. With delta=0, list the categories in a "
                "schema of your own."
            )
        if not 0 < float(coverage) < 1:
            raise ValueError(
                f"coverage must be a number in (0, 1); got {coverage!r}. Typical: 0.9 to 0.99."
            )
        if accountant is not None and not isinstance(accountant, Accountant):
            raise ValueError(f"accountant must be an Accountant or None; got {accountant!r}.")
        self.budget = budget
        self.coverage = float(coverage)
        self.task = task
        self._account = Account(budget, accountant)
        bits = _bits(random_state)
        self._noise, self._secure = Noise(bits), bits.secure

    def run(
        self,
        path: Path,
        found: Layout,
        target: str | None,
        progress: Progress,
    ) -> Schema:
        """Ask and answer; see `discreet.tables.draft.draft_private`."""
        asked = [
            name
            for name in found.names
            if name == target or found.kinds.get(name) not in ("boolean", "ignored")
        ]
        share = 1 / max(len(asked), 1) * _ROUNDING
        needs_vote = not found.kinds
        # The caller's statement about the target need not be voted on.
        voted = [name for name in asked if needs_vote and (self.task is None or name != target)]
        vote = Laplace(self.budget.epsilon * share * VOTE_SHARE)
        whole = self.budget.epsilon * share
        rest = {name: whole * (1 - VOTE_SHARE * (name in voted)) for name in asked}
        least = min(rest.values(), default=whole)
        self._question("", "numeric", True, least, share, DISTINCT_LIMIT + 1)  # all can be made
        filter_ = self._account.open("approximate")
        kinds, n_rows = {**found.kinds}, found.n_rows or 0
        if needs_vote:
            if voted:
                filter_.charge(vote, len(voted))
            kinds, n_rows = self._vote(path, found, voted, vote, _part(progress, 0.0, 0.5))
        if target is not None and self.task is not None:
            kinds[target] = "numeric" if self.task == "numbers" else "categorical"
        questions = [
            self._question(name, kinds[name], name == target, rest[name], share, n_rows)
            for name in asked
            if kinds[name] != "ignored"
        ]
        second = _part(progress, 0.5 if needs_vote else 0.0)
        answers = self._ask(path, found, questions, filter_, second)
        self._warn(questions, n_rows)
        return self._schema(found, target, questions, answers, n_rows)

    def _question(
        self, name: str, kind: str, is_target: bool, epsilon: float, share: float, n_rows: int
    ) -> Question:
        """Split a column's ε among its mechanisms; a numeric target may need two kinds of them."""
        bounds = histogram = limit = None
        open_task = is_target and self.task is None
        if kind == "numeric":
            of_bounds = epsilon / 2 if open_task else epsilon
            bounds = PermuteAndFlip(of_bounds / 2, monotone=False)
            epsilon -= of_bounds
        if kind != "numeric" or open_task:
            if n_rows > DISTINCT_LIMIT:
                limit = Laplace(epsilon * LIMIT_SHARE)
                epsilon *= 1 - LIMIT_SHARE
            delta = self.budget.delta * share
            histogram = StabilityHistogram(epsilon, delta, self.budget.relation)
        return Question(name, is_target, bounds, histogram, limit)

    def _vote(
        self,
        path: Path,
        found: Layout,
        names: Sequence[str],
        mechanism: Laplace,
        progress: Progress,
    ) -> tuple[dict[str, str], int]:
        """Decide which columns of a text file hold numbers, and count its rows."""
        margins: Counter[str] = Counter()
        n_rows = 0
        for batch in _batches(path, found.any_cells(), progress):
            n_rows += len(next(iter(batch.values())))
            for name in names:
                margins[name] += number_margin(batch[name])
        relation = Relation(self.budget.relation)
        return {
            name: "numeric"
            if numeric_vote(margins[name], n_rows, mechanism, relation, self._noise)
            else "categorical"
            for name in names
        }, n_rows

    def _ask(
        self,
        path: Path,
        found: Layout,
        questions: list[Question],
        filter_: PrivacyFilter,
        progress: Progress,
    ) -> dict[str, Tally]:
        """Charge for all questions, then read the file once and collect the counts."""
        if not questions:
            return {}
        tallies = {}
        for question in questions:
            for mechanism, times in question.uses:
                filter_.charge(mechanism, times)
        for question in questions:
            limit = question.limit
            most = noisy_limit(DISTINCT_LIMIT, limit, self._noise) if limit is not None else None
            tallies[question.name] = Tally(most)
        as_read: dict[str, Column] = {
            question.name: Boolean() if question.histogram is not None else Numeric()
            for question in questions
        }
        for batch in _batches(path, found.reading(as_read), progress):
            for question in questions:
                tallies[question.name].add(question, batch[question.name])
        return tallies

    def _schema(
        self,
        found: Layout,
        target: str | None,
        questions: list[Question],
        tallies: dict[str, Tally],
        n_rows: int,
    ) -> Schema:
        """Release the answers and put them together."""
        asked = {question.name: question for question in questions}
        columns: dict[str, Column] = {}
        own: Target | None = None
        for name in found.names:
            if name == target and name in asked:
                own = self._target(asked[name], tallies[name], n_rows)
                if own is None:
                    columns[name] = Ignored(_NO_CLASSES)
                    warnings.warn(f"{name!r} {_NO_CLASSES}.", UserWarning, stacklevel=4)
            elif name in asked:
                columns[name] = self._column(asked[name], tallies[name], n_rows)
            elif found.kinds.get(name) == "boolean":
                columns[name] = Boolean(missing=True)
            else:
                columns[name] = Ignored(found.reasons[name])
        spent = Spent(
            self.budget.epsilon,
            self.budget.delta,
            str(self.budget.relation),
            _what(questions, found),
            self._secure,
        )
        if all(isinstance(column, Ignored) for column in columns.values()):
            raise TableError(
                "Nothing in this file could be estimated within the budget, which is spent: no "
                "column holds numbers or frequent categories. Describe it in a schema of your own."
            )
        return Schema(columns, own, found.file, spent)

    def _column(self, question: Question, tally: Tally, n_rows: int) -> Column:
        # Every cell must be acceptable: a later refusal would reveal what was not released here.
        if question.bounds is not None:
            low, high = self._bounds(question, tally, n_rows)
            return Numeric(low, high, missing=True, invalid="missing")
        if tally.given_up:
            return Ignored(_MANY)
        values = tuple(
            text for text in self._texts(question, tally) if text not in (MISSING, OTHER)
        )
        return Categorical(values, missing=True) if values else Ignored(_RARE)

    def _target(self, question: Question, tally: Tally, n_rows: int) -> Target | None:
        """Return classes, or bounds of a number; None if neither could be released.

        A label that was too rare to be released, or a missing one, counts as the commonest (by the
        noisy counts), and a text among numbers as the middle of the bounds: a refusal would reveal
        that such a row exists.
        """
        asked = question.histogram is not None and not tally.given_up
        classes = self._texts(question, tally) if asked else {}
        few = 2 <= len(classes) <= MOST_CLASSES
        if (few and self._cover(question, classes, n_rows)) or (
            question.bounds is None and len(classes) > 1
        ):
            commonest = max(classes, key=lambda label: classes[label])
            return Target(question.name, tuple(classes), other=commonest)
        if question.bounds is None:
            return None
        low, high = self._bounds(question, tally, n_rows)
        return Target(question.name, low=low, high=high, invalid="middle")

    def _cover(self, question: Question, classes: dict[str, float], n_rows: int) -> bool:
        """Return True if classes hold nearly all rows, by their noisy counts."""
        assert question.histogram is not None
        deviation = question.histogram.scale * math.sqrt(2 * len(classes))
        needed = max(CLASSES_COVER * n_rows - 2 * deviation, LEAST_COVER * n_rows)
        return sum(classes.values()) >= needed

    def _bounds(self, question: Question, tally: Tally, n_rows: int) -> tuple[float, float]:
        assert question.bounds is not None
        return select_bounds_from_counts(
            tally.cells, n_rows, self.coverage, question.bounds, self._noise
        )

    def _texts(self, question: Question, tally: Tally) -> dict[str, float]:
        assert question.histogram is not None
        texts = list(tally.texts)
        counts = np.array([tally.texts[text] for text in texts], dtype=np.int64)
        released = question.histogram.release(texts, counts, self._noise)
        return {text: count for text, count in released.items() if "\x00" not in text}

    def _warn(self, questions: list[Question], n_rows: int) -> None:
        """Warn of a budget that is too small or too large, by public numbers."""
        if self.budget.delta * n_rows >= 1:
            warnings.warn(
                f"delta={self.budget.delta:g} is at least 1/n = {1 / n_rows:g}: a mechanism could "
                "publish a whole row under such a guarantee. Use a delta well below 1/n.",
                UserWarning,
                stacklevel=4,
            )
        tails = {
            question.name: tail_share(self.coverage, n_rows, question.bounds)
            for question in questions
            if question.bounds is not None
        }
        weak = [
            question.name
            for question in questions
            if tails.get(question.name, 0.0) >= 0.25
            or (question.histogram is not None and question.histogram.threshold >= n_rows / 2)
        ]
        if weak:
            warnings.warn(
                f"The budget is too small for {counted(n_rows, 'row')} and this many columns: the "
                f"estimates for {quoted(weak)} are mostly noise. Spend more, or fill in what is "
                "publicly known and leave the rest out.",
                UserWarning,
                stacklevel=4,
            )
        missed = {
            name: 1 - 2 * tail
            for name, tail in tails.items()
            if tail > 1 - self.coverage and name not in weak  # twice what each side may cut
        }
        if missed:
            shares = sorted({round(100 * share) for share in missed.values()})
            kept = " to ".join(str(share) for share in dict.fromkeys((shares[0], shares[-1])))
            warnings.warn(
                f"coverage={self.coverage:g} is more than the budget can buy for "
                f"{counted(n_rows, 'row')}: the bounds of {quoted(missed)} will keep about "
                f"{kept} % of the numbers as they are, and clip the rest. Spend more, "
                "or fill in bounds that are publicly known.",
                UserWarning,
                stacklevel=4,
            )


def _bits(random_state: Any) -> Bits:
    if random_state is None:
        return SystemBits()
    from sklearn.utils import check_random_state

    state = check_random_state(random_state)
    warnings.warn(
        "random_state fixes the noise, so this draft protects nobody: test mode, not private. "
        "Leave random_state=None for real data.",
        PrivacyLeakWarning,
        stacklevel=4,
    )
    return SeededBits(int(state.randint(0, 2**31 - 1)))


def _batches(path: Path, schema: Schema, progress: Progress) -> Iterable[dict[str, Any]]:
    with closing(batches(path, schema, target=False, progress=progress, drafting=True)) as records:
        yield from records


def _part(progress: Progress, start: float, end: float = 1.0) -> Progress:
    """Return a callback for one pass that shows it as part of the whole."""
    if progress is None:
        return None
    return lambda share: progress(start + share * (end - start))


def _what(questions: list[Question], found: Layout) -> tuple[str, ...]:
    """List the estimates in words."""
    lists = {
        "bounds": [q.name for q in questions if q.bounds is not None],
        "categories": [q.name for q in questions if q.histogram is not None],
    }
    kinds = () if found.kinds else ("which columns hold numbers",)
    return (*kinds, *(f"{kind} of {', '.join(names)}" for kind, names in lists.items() if names))
