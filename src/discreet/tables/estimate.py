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
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from discreet.core import Account, Budget, Laplace, PermuteAndFlip
from discreet.core.bits import Bits, SeededBits, SystemBits
from discreet.core.filters import Mechanism
from discreet.core.noise import Noise
from discreet.core.ranges import edges, select_bounds_from_counts, tail_share
from discreet.errors import NotSupported, PrivacyLeakWarning, TableError
from discreet.ledger import Dataset, check_dataset
from discreet.log import note
from discreet.rows import cell_counts
from discreet.tables import cells, columns
from discreet.tables.histogram import StabilityHistogram, noisy_limit, noisy_vote
from discreet.tables.reading import IdCodes, OneRowEach, Progress, batches
from discreet.tables.schema import Schema, Spent, Target
from discreet.validate import choice, number

if TYPE_CHECKING:
    from discreet.tables.draft import Layout
    from discreet.tables.sources import Source

Task = Literal["classes", "numbers"]

DISTINCT_LIMIT = 50_000  # distinct texts, about, beyond which a column holds names or free text
LONGEST_TEXT = 200  # letters beyond which a cell counts nowhere, which keeps memory bounded

# Shares of a column's ε for two votes, whether it holds numbers and whole ones (a clear majority
# needs little), and of the rest for the question whether it holds too many distinct texts.
VOTE_SHARE, LIMIT_SHARE = 1 / 8, 1 / 16

# A target that reads as numbers has classes if there are this many at most, and they hold this
# share of the rows: less two standard deviations of the noise in that sum, but at least the last.
MOST_CLASSES, CLASSES_COVER, LEAST_COVER = 100, 0.99, 0.9

_CLEAR_LEAD = 7.0  # noise scales; noise alone leads by that with probability 0.05 %
_ROUNDING = 1 - 2.0**-36  # parts of a budget are rounded; their sum must not exceed it
_RARE = "no category was frequent enough to be released; list them if they are public"
_MANY = "it holds too many distinct texts for categories, like a name or a free text"
_NO_CLASSES = "was to be the target, but no two classes were frequent enough to be released"


@dataclass(frozen=True)
class Question:
    """One column that is asked about, and the mechanisms for it.

    ``whole`` says that bounds are whole numbers, ``prefix`` by how many letters texts are grouped.
    """

    name: str
    bounds: PermuteAndFlip | None = None
    histogram: StabilityHistogram | None = None
    limit: Laplace | None = None
    whole: bool = False
    prefix: int | None = None

    @property
    def uses(self) -> list[tuple[Mechanism, int]]:
        """Mechanisms to charge, and the number of uses of each."""
        listed = ((self.bounds, 2), (self.histogram, 1), (self.limit, 1))
        return [(mechanism, times) for mechanism, times in listed if mechanism is not None]


@dataclass
class Tally:
    """Exact counts of a column, collected while the file is read."""

    question: Question
    most_texts: int | None
    cells: NDArray[np.int64]
    texts: Counter[str] = field(default_factory=Counter)
    given_up: bool = False

    @classmethod
    def of(cls, question: Question, noise: Noise) -> Tally:
        """Start to count for a question; its limit on texts is drawn with noise."""
        limit = question.limit
        most = None if limit is None else noisy_limit(DISTINCT_LIMIT, limit, noise)
        return cls(question, most, np.zeros(2 * edges(question.whole).size + 1, dtype=np.int64))

    def add(self, values: Any) -> None:
        """Count a block of cells."""
        question = self.question
        if question.bounds is not None:
            self.cells += cell_counts(cells.lenient_numbers(values), edges(question.whole))
        if question.histogram is not None and not self.given_up:
            for text, count in text_counts(values):
                self.texts[text[: question.prefix].strip(columns.SPACES)] += count
            if self.most_texts is not None and len(self.texts) > self.most_texts:
                self.given_up = True
                self.texts.clear()

    def release(self, noise: Noise) -> dict[str, float]:
        """Release the frequent texts and their noisy counts; none if the column was given up."""
        if self.question.histogram is None or self.given_up:
            return {}
        counts = np.array(list(self.texts.values()), dtype=np.int64)
        released = self.question.histogram.release(list(self.texts), counts, noise)
        return {text: count for text, count in released.items() if "\x00" not in text}


def text_counts(values: Any) -> Iterable[tuple[str, int]]:
    """Count the distinct texts of a block; missing cells are left out."""
    pa = cells.arrow()
    compute = pa.compute
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    texts = cells.whole_as_integers(values).drop_null()
    texts = texts.filter(compute.less_equal(compute.utf8_length(texts), LONGEST_TEXT))
    found = compute.value_counts(texts)
    return zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True)


class Estimate:
    """One private draft: checked settings and one budget; see `draft_private`."""

    def __init__(
        self,
        budget: Budget,
        coverage: float,
        ledger: Dataset | None,
        random_state: Any,
        task: Task | None,
    ) -> None:
        if task is not None:
            choice("task", task, ("classes", "numbers"))
        if budget.pure:
            raise NotSupported(
                "A private draft finds categories that nobody listed, which needs delta > 0: give "
                "one well below 1/n, for example 1e-9. With delta=0, list the categories in a "
                "schema of your own."
            )
        check_dataset(ledger)
        self.budget, self.task = budget, task
        typical = "Typical: 0.9 to 0.99."
        self.coverage = number("coverage", coverage, above=0.0, below=1.0, remedy=typical)
        self._payer = None if ledger is None else ledger.noting(solver="private draft of a schema")
        self._bits = _bits(random_state)
        self._noise = Noise(self._bits)

    def run(self, found: Layout, progress: Progress) -> Schema:
        """Charge for the questions, read the file, and release the answers."""
        target, stated = found.target, _stated(found)
        unasked = ("boolean", "ignored", "hashed")
        names = [name for name in found.names if name != found.unit]
        asked = [n for n in names if n == target or stated.get(n) not in unasked]
        share = 1 / max(len(asked), 1) * _ROUNDING
        needs_vote = not found.kinds
        # The caller's statement about the target need not be voted on.
        voted = [
            name
            for name in asked
            if needs_vote and name not in stated and (self.task is None or name != target)
        ]
        vote = Laplace(self.budget.epsilon * share * VOTE_SHARE / 2)  # numbers? whole numbers?
        column = self.budget.epsilon * share
        rest = {name: column * (1 - VOTE_SHARE * (name in voted)) for name in asked}
        least = min(rest.values(), default=column)
        self._question("", "numeric", True, least, share, DISTINCT_LIMIT + 1)  # all can be made
        unit, b = "row" if found.unit is None else "person", self.budget
        account = Account(b, self._payer, unit)
        filter_ = account.open("approximate")
        note("Private draft: ε = %g, δ = %g, %s, one %s.", b.epsilon, b.delta, b.relation, unit)
        kinds, whole = stated, set(found.whole)
        n_rows, first = found.source.n_rows, 0.0
        people: OneRowEach | None = None
        if found.unit is not None:
            people, first = OneRowEach(IdCodes(found.unit, found.file.missing)), 0.2
            for_ids = _batches(found.source, found.reading(), progress, 0.0, first)
            people.choose((batch[found.unit] for batch in for_ids), self._bits.spawn(1)[0])
            n_rows = people.count
        middle = (1 + first) / 2
        if needs_vote:
            if voted:
                filter_.charge(vote, 2 * len(voted))
            records = _batches(found.source, found.reading(), progress, first, middle, people)
            votes, whole, n_rows = self._vote(records, voted, vote)
            kinds = {**stated, **votes}
        if target is not None and self.task is not None:
            kinds[target] = "numeric" if self.task == "numbers" else "categorical"
        at_most = DISTINCT_LIMIT + 1 if n_rows is None else n_rows
        questions = [
            replace(
                self._question(name, kinds[name], name == target, rest[name], share, at_most),
                whole=name in whole,
                prefix=found.hints.get(name, columns.Hint()).prefix,
            )
            for name in asked
            if kinds[name] != "ignored"
        ]
        for question in questions:
            for mechanism, times in question.uses:
                filter_.charge(mechanism, times)
        tallies = {each.name: Tally.of(each, self._noise) for each in questions}
        if questions:
            as_read: dict[str, columns.Column] = {
                each.name: columns.Numeric() if each.histogram is None else columns.Boolean()
                for each in questions
            }
            start, counted_rows = middle if needs_vote else first, 0
            schema = found.reading(as_read)
            for batch in _batches(found.source, schema, progress, start, 1.0, people):
                counted_rows += len(next(iter(batch.values())))
                for name, tally in tallies.items():
                    tally.add(batch[name])
            n_rows = counted_rows if n_rows is None else n_rows
        n_rows = n_rows or 0
        size = columns.counted(n_rows, "row") if found.unit is None else f"{n_rows:,} people"
        self._warn(questions, n_rows, size)
        schema = self._schema(found, tallies, n_rows)
        account.confirm()
        return schema

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
        return Question(name, bounds, histogram, limit)

    def _vote(
        self, records: Iterable[dict[str, Any]], names: Sequence[str], mechanism: Laplace
    ) -> tuple[dict[str, columns.Kind], set[str], int]:
        """Decide which columns of a text file hold numbers, or whole ones, and count its rows."""
        margins: Counter[str] = Counter()
        of_whole: Counter[str] = Counter()
        n_rows = 0
        for batch in records:
            n_rows += len(next(iter(batch.values())))
            for name in names:
                margins[name] += cells.number_margin(batch[name])
                of_whole[name] += cells.whole_margin(batch[name])
        kinds: dict[str, columns.Kind] = {}
        whole = set()
        # Where nearly all cells are missing, noise decides, and bounds would be noise, too.
        clear = _CLEAR_LEAD * mechanism.scale(float(self.budget.relation.rows_changed))
        above = min(clear, n_rows / 4)
        for name in names:
            settings = (n_rows, mechanism, self.budget.relation, self._noise)
            is_numeric = noisy_vote(margins[name], *settings, above)
            kinds[name] = "numeric" if is_numeric else "categorical"
            if noisy_vote(of_whole[name], *settings):
                whole.add(name)
        return kinds, whole, n_rows

    def _schema(self, found: Layout, tallies: dict[str, Tally], n_rows: int) -> Schema:
        made: dict[str, columns.Column] = {}
        own: Target | None = None
        for name in found.names:
            if name == found.unit:
                continue
            if name == found.target and name in tallies:
                own = self._target(tallies[name], n_rows)
                if own is None:
                    made[name] = columns.Ignored(_NO_CLASSES)
                    warnings.warn(f"{name!r} {_NO_CLASSES}.", UserWarning, stacklevel=4)
            elif name in tallies:
                made[name] = self._column(tallies[name], n_rows)
            else:
                made[name] = _unasked(found, name)
        what = [] if found.kinds else ["which columns hold numbers, and whole ones"]
        for field_name, estimated in (("bounds", "bounds"), ("histogram", "categories")):
            names = [n for n, each in tallies.items() if getattr(each.question, field_name)]
            what += [f"{estimated} of {', '.join(names)}"] if names else []
        b, secure = self.budget, self._bits.secure
        spent = Spent(b.epsilon, b.delta, str(b.relation), tuple(what), secure, found.unit)
        if all(isinstance(column, columns.Ignored) for column in made.values()):
            raise TableError(
                "Nothing in this file could be estimated within the budget, which is spent: no "
                "column holds numbers or frequent categories. Describe it in a schema of your own."
            )
        return Schema(made, own, found.file, spent, found.unit)

    def _column(self, tally: Tally, n_rows: int) -> columns.Column:
        # Every cell must be acceptable: a later refusal would reveal what was not released here.
        question = tally.question
        if question.bounds is not None:
            low, high = self._bounds(question.bounds, tally, n_rows)
            settings: Any = {"missing": True, "invalid": "missing", "integer": question.whole}
            return columns.Numeric(low, high, **settings)
        if tally.given_up:
            return columns.Ignored(_MANY)
        added = (columns.MISSING, columns.OTHER)
        values = [text for text in tally.release(self._noise) if text not in added]
        if not values:
            return columns.Ignored(_RARE)
        return columns.Categorical(tuple(values), missing=True, prefix=question.prefix)

    def _target(self, tally: Tally, n_rows: int) -> Target | None:
        """Return classes, or bounds of a number; None if neither could be released.

        A label that was too rare to be released, or a missing one, counts as the commonest (by the
        noisy counts), and a text among numbers as the middle of the bounds: a refusal would reveal
        that such a row exists.
        """
        question, classes = tally.question, tally.release(self._noise)
        enough = len(classes) > 1
        if enough and question.bounds and question.histogram:  # numbers, unless of few values
            deviation = question.histogram.scale * math.sqrt(2 * len(classes))
            needed = max(CLASSES_COVER * n_rows - 2 * deviation, LEAST_COVER * n_rows)
            enough = len(classes) <= MOST_CLASSES and sum(classes.values()) >= needed
        if enough:
            commonest = max(classes, key=lambda label: classes[label])
            return Target(question.name, tuple(classes), other=commonest)
        if question.bounds is None:
            return None
        low, high = self._bounds(question.bounds, tally, n_rows)
        return Target(question.name, low=low, high=high, invalid="middle")

    def _bounds(self, by: PermuteAndFlip, tally: Tally, n_rows: int) -> tuple[float, float]:
        settings = (tally.cells, n_rows, self.coverage, by, self._noise)
        return select_bounds_from_counts(*settings, whole=tally.question.whole)

    def _warn(self, questions: list[Question], n_rows: int, size: str) -> None:
        """Warn of a budget that is too small or too large, by public numbers."""
        texts = []
        if self.budget.delta * n_rows >= 1:
            texts.append(
                f"delta={self.budget.delta:g} is at least 1/n = {1 / n_rows:g}: a mechanism could "
                "publish a whole row under such a guarantee. Use a delta well below 1/n."
            )
        weak, kept = [], {}
        for question in questions:
            bounds, histogram = question.bounds, question.histogram
            tail = 0.0 if bounds is None else tail_share(self.coverage, n_rows, bounds)
            rare = histogram is not None and histogram.threshold >= n_rows / 2
            if tail >= 0.25 or rare:
                weak.append(question.name)
            elif tail > 1 - self.coverage:  # twice what each side may cut
                kept[question.name] = round(100 * (1 - 2 * tail))
        if weak:
            texts.append(
                f"The budget is too small for {size} and this many columns: the estimates for "
                f"{columns.quoted(weak)} are mostly noise. Spend more, or fill in what is publicly "
                "known and leave the rest out."
            )
        if kept:
            range_ = " to ".join(map(str, sorted({min(kept.values()), max(kept.values())})))
            texts.append(
                f"coverage={self.coverage:g} is more than the budget can buy for "
                f"{size}: the bounds of {columns.quoted(kept)} will keep about {range_} "
                "% of the numbers as they are, and clip the rest. Spend more, or fill in bounds "
                "that are publicly known."
            )
        for text in texts:
            warnings.warn(text, UserWarning, stacklevel=4)


def _stated(found: Layout) -> dict[str, columns.Kind]:
    """Return the kinds that are public: stated by the caller, by types or by names."""
    stated = dict(found.kinds)
    for name in found.names:
        hint, typed = found.hints.get(name, columns.Hint()), found.kinds.get(name)
        if hint.kind is not None and typed != "ignored":
            stated[name] = hint.kind
        elif name in (found.unit, found.target):
            continue
        elif typed in (None, "numeric", "categorical") and columns.is_identifier(name):
            stated[name] = "ignored"
        elif typed in (None, "numeric") and columns.is_code(name):
            stated[name] = "categorical"
    return stated


def _unasked(found: Layout, name: str) -> columns.Column:
    hint = found.hints.get(name, columns.Hint())
    kind = hint.kind or found.kinds.get(name)
    if name in found.reasons:
        return columns.Ignored(found.reasons[name])
    if kind == "hashed":
        return columns.Hashed(prefix=hint.prefix, missing=True)
    if kind == "boolean":
        return columns.Boolean(missing=True)
    return columns.Ignored("left out on request" if hint.kind == "ignored" else columns.IDENTIFIER)


def _bits(random_state: Any) -> Bits:
    if random_state is None:
        return SystemBits()
    state = check_random_state(random_state)
    warnings.warn(
        "random_state fixes the noise, so this draft protects nobody: test mode, not private. "
        "Leave random_state=None for real data.",
        PrivacyLeakWarning,
        stacklevel=4,
    )
    return SeededBits(int(state.randint(0, 2**31 - 1)))


def _batches(
    data: Source,
    schema: Schema,
    progress: Progress,
    start: float,
    end: float,
    people: OneRowEach | None = None,
) -> Iterable[dict[str, Any]]:
    """Yield the records in one pass, which is shown as part of the whole: one of each person."""
    part = progress and (lambda share: progress(start + share * (end - start)))
    options: Any = {"target": False, "progress": part, "drafting": True, "unit": True}
    kept = None if people is None else people.kept()
    with closing(batches(data, schema, **options)) as records:
        for batch in records:
            if kept is None or schema.unit is None:
                yield batch
            else:
                rows = cells.arrow().array(kept(batch.pop(schema.unit)))
                yield {name: values.take(rows) for name, values in batch.items()}
