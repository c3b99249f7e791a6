"""Private estimates of kinds, bounds and categories, column by column, for a draft of a schema.

Every question has its share of the budget, fixed by public numbers: the number of columns, their
types in Parquet, the number of rows, and answers that were released before. A curator answers them
(`discreet.exact.cell_questions`); nothing here reads a row. Proofs: docs/proofs/ranges.md,
docs/proofs/histogram.md.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from discreet.accounting.profiles import Mechanism
from discreet.core import Budget, Curator, Laplace, PermuteAndFlip
from discreet.core.ranges import tail_share
from discreet.core.session import Session, bits_of
from discreet.errors import NotSupported, PrivacyLeakWarning, TableError
from discreet.exact.cell_questions import CellBounds, CellQuestion, KindVote, TextCounts
from discreet.exact.histogram import LimitedHistogram, StabilityHistogram
from discreet.ledger import Dataset, check_dataset
from discreet.log import note
from discreet.tables import columns
from discreet.tables.cell_rows import CellRows
from discreet.tables.messages import counted, quoted
from discreet.tables.reader import ShowShare
from discreet.tables.schema import Schema, Spent, Target
from discreet.validate import choice, number

if TYPE_CHECKING:
    from discreet.tables.draft import Layout

Task = Literal["classes", "numbers"]
Asked = tuple[CellQuestion[Any], Mechanism]
Texts = StabilityHistogram | LimitedHistogram

DISTINCT_LIMIT = 50_000
"""Distinct texts, about, beyond which a column holds names or free text."""

VOTE_SHARE = 1 / 8
"""Share of a column's ε for the three votes on its kind; a clear majority needs little."""

LIMIT_SHARE = 1 / 16
"""Share of the rest of a column's ε for the question whether it holds too many distinct texts."""

CLEAR_LEAD = 7.0
"""Noise scales by which numbers must lead; noise alone leads by that with probability 0.05 %."""

MOST_CLASSES = 100
"""Number of values beyond which a target that reads as numbers has no classes."""

CLASSES_COVER = 0.99
"""Share of the rows that classes hold by their noisy counts, less two standard deviations."""

COVER_DEVIATIONS = 3.0
"""Standard deviations of noise by which the counts of all categories may be below the rows."""

LEAST_COVER = 0.9
"""Share of the rows that classes hold at least, however large the noise is."""

NOISE_PART = 0.5
"""Part of the share that bounds may cut which is set aside for the noise of their selection."""

_ROUNDING = 1 - 2.0**-36
"""Factor on shares of a budget: parts are rounded, and their sum must not exceed it."""

_RARE = "no category was frequent enough to be released; list them if they are public"
_MANY = "it holds too many distinct texts for categories, like a name or a free text"
_NO_CLASSES = "was to be the target, but no two classes were frequent enough to be released"


@dataclass(frozen=True)
class ColumnShare:
    """One column that is asked about, and the mechanisms for its share of the budget.

    ``whole`` says that bounds are whole numbers, ``prefix`` by how many letters texts are grouped.
    """

    name: str
    bounds: PermuteAndFlip | None = None
    texts: Texts | None = None
    whole: bool = False
    prefix: int | None = None

    @property
    def histogram(self) -> StabilityHistogram | None:
        """The histogram of texts, without a limit on their number."""
        return self.texts.histogram if isinstance(self.texts, LimitedHistogram) else self.texts

    def asked(self, coverage: float) -> dict[str, Asked]:
        """Return the questions about this column, by what they are about."""
        found: dict[str, Asked] = {}
        if self.texts is not None:
            found["texts"] = (TextCounts(self.name, self.prefix, DISTINCT_LIMIT), self.texts)
        if self.bounds is not None:
            found["bounds"] = (CellBounds(self.name, coverage, self.whole), self.bounds)
        return found


@dataclass(frozen=True)
class ColumnAnswer:
    """What was released of a column: bounds, or frequent texts and their noisy counts.

    ``texts`` is None if they were not asked for, or if the column was given up.
    """

    share: ColumnShare
    bounds: tuple[float, float] | None = None
    texts: dict[str, float] | None = None

    @property
    def frequent(self) -> dict[str, float]:
        """Texts that a file can hold, and their noisy counts."""
        return {text: n for text, n in (self.texts or {}).items() if "\x00" not in text}


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
        self.budget = budget
        self.task = task
        typical = "Typical: 0.9 to 0.99."
        given = number("coverage", coverage, above=0.0, below=1.0, remedy=typical)
        self.coverage = given
        self._aim = 1 - NOISE_PART * (1 - given)
        self._payer = None if ledger is None else ledger.noting(solver="private draft of a schema")
        self._bits = bits_of(random_state)
        if not self._bits.secure:
            warnings.warn(
                "random_state fixes the noise, so this draft protects nobody: test mode, not "
                "private. Leave random_state=None for real data.",
                PrivacyLeakWarning,
                stacklevel=3,
            )

    def run(self, found: Layout, progress: ShowShare) -> Schema:
        """Split the budget among the columns, ask about them, and make a schema of the answers."""
        stated = _stated(found)
        asked = self._asked_names(found, stated)
        # The caller's statement about the target need not be voted on.
        voted = [
            name
            for name in asked
            if not found.kinds and name not in stated and not (self.task and name == found.target)
        ]
        share = 1 / max(len(asked), 1) * _ROUNDING
        whole_share = self.budget.epsilon * share
        rest = {name: whole_share * (1 - VOTE_SHARE * (name in voted)) for name in asked}
        smallest = min(rest.values(), default=whole_share)
        most = DISTINCT_LIMIT + 1
        self._mechanisms("numeric", self.task is None, smallest, share, most)  # can be made
        session, curator = self._open(found, 2 if voted else 1, progress)
        try:
            each = Laplace(whole_share * VOTE_SHARE / 3)
            kinds, whole = self._vote(curator, voted, found.dates, each)
            schema = self._estimated(found, curator, {**stated, **kinds}, whole, rest, share)
        except BaseException:
            session.account.abandon()
            raise
        session.account.confirm()
        return schema

    def _estimated(
        self,
        found: Layout,
        curator: Curator,
        kinds: dict[str, columns.Kind],
        whole: set[str],
        rest: Mapping[str, float],
        share: float,
    ) -> Schema:
        """Ask for bounds and texts of columns whose kinds are known; ``rest`` is the ε of each."""
        if found.target is not None and self.task is not None:
            kinds[found.target] = "numeric" if self.task == "numbers" else "categorical"
        # Classes that are written as numbers are whole. Where that was voted on, others have none.
        voted = not found.kinds and found.target not in _stated(found)
        may_be_both = self.task is None and (found.target in whole or not voted)
        size = curator.n_rows or found.source.n_rows or 0
        epsilons = self._divided(found.target, kinds, rest, size)
        at_most = size or DISTINCT_LIMIT + 1
        delta_share = _ROUNDING / max(len(epsilons), 1)
        shares = [
            ColumnShare(
                name,
                *self._mechanisms(
                    kinds[name],
                    may_be_both and name == found.target,
                    epsilon,
                    delta_share,
                    at_most,
                ),
                whole=name in whole or name in found.whole,
                prefix=found.hints.get(name, columns.Hint()).prefix,
            )
            for name, epsilon in epsilons.items()
        ]
        answers = self._answers(curator, shares)
        self._warn(shares, curator.n_rows, found)
        return self._schema(found, answers, kinds, whole | found.whole, curator.n_rows)

    def _divided(
        self, target: str | None, kinds: Mapping[str, str], rest: Mapping[str, float], size: int
    ) -> dict[str, float]:
        """Return the ε of each column that is asked about.

        Bounds that would cut too much are left to the fit, and nothing is spent on them. What they
        and columns of other kinds leave over is for a numeric target, else for all others alike.
        Public numbers and answers that were released before decide.
        """
        asked = {
            name: epsilon
            for name, epsilon in rest.items()
            if kinds[name] == "categorical"
            or name == target
            or (
                kinds[name] == "numeric"
                and not (size and self._cuts_much(self._cut(epsilon / 2, size)))
            )
        }
        left = sum(epsilon for name, epsilon in rest.items() if name not in asked)
        if target in asked and kinds[target] == "numeric":
            asked[target] += left * _ROUNDING
            return asked
        return {name: epsilon + left / len(asked) * _ROUNDING for name, epsilon in asked.items()}

    def _cut(self, epsilon: float, size: int) -> float:
        """Return the share of the rows that bounds, each found with this ε, aim to cut."""
        return 2 * tail_share(self._aim, size, PermuteAndFlip(epsilon, monotone=False))

    def _cuts_much(self, cut: float) -> bool:
        """Return True if bounds that aim to cut a share, and their noise, may cut too much."""
        return cut > 1 - self._aim + 2.0**-19  # shares are rounded up

    def _widening(self, cut: float) -> float:
        """Return the factor by which bounds of a target are widened that aim to cut a share of it.

        Their noise may cut the same share of what is left. Where the survival function S of the
        distance from the middle is log-concave, as for tails that fall at least exponentially,
        S(k·h) ≤ S(h)^k: the widened bounds keep what they should.
        """
        outside = 1 - (1 - cut) ** 2
        return max(math.log(1 - self.coverage) / math.log(outside), 1.0)

    def _widened(self, target: Target, share: ColumnShare, n_rows: int) -> Target:
        """Return a numeric target with bounds that are widened about their middle, and round."""
        if target.low is None or target.high is None or share.bounds is None:
            return target
        factor = self._widening(self._cut(share.bounds.epsilon, n_rows))
        if factor == 1.0:
            return target
        middle = target.low + (target.high - target.low) / 2
        reach = (target.high - target.low) / 2 * factor
        low = _two_digits(math.floor, middle - reach, share.whole)
        return replace(target, low=low, high=_two_digits(math.ceil, middle + reach, share.whole))

    def _asked_names(self, found: Layout, stated: Mapping[str, columns.Kind]) -> list[str]:
        """Return the columns that are asked about: those whose content is not public."""
        unasked = ("boolean", "ignored", "hashed", "date")
        return [
            name
            for name in found.names
            if name != found.unit and (name == found.target or stated.get(name) not in unasked)
        ]

    def _open(self, found: Layout, passes: int, progress: ShowShare) -> tuple[Session, Curator]:
        """Open the budget, which charges the ledger; no row is read."""
        b = self.budget
        unit: Literal["row", "person"] = "row" if found.unit is None else "person"
        session = Session(b, unit, ledger=self._payer, bits=self._bits)
        [choice_bits] = session.bits.spawn(1)
        rows = CellRows(
            found.source, found.reading, found.unit, choice_bits, passes=passes, progress=progress
        )
        curator = session.curator(rows)
        curator.open("approximate")
        note("Private draft: ε = %g, δ = %g, %s, one %s.", b.epsilon, b.delta, b.relation, unit)
        return session, curator

    def _mechanisms(
        self, kind: str, may_be_both: bool, epsilon: float, share: float, n_rows: int
    ) -> tuple[PermuteAndFlip | None, Texts | None]:
        """Split a column's ε among its mechanisms; a target of numbers may have classes, too."""
        bounds: PermuteAndFlip | None = None
        texts: Texts | None = None
        if kind == "numeric":
            of_bounds = epsilon / 2 if may_be_both else epsilon
            bounds = PermuteAndFlip(of_bounds / 2, monotone=False)
            epsilon -= of_bounds
        if kind != "numeric" or may_be_both:
            delta = self.budget.delta * share
            limited = n_rows > DISTINCT_LIMIT
            of_texts = epsilon * (1 - LIMIT_SHARE) if limited else epsilon
            texts = StabilityHistogram(of_texts, delta, self.budget.relation)
            if limited:
                texts = LimitedHistogram(texts, Laplace(epsilon * LIMIT_SHARE))
        return bounds, texts

    def _vote(
        self, curator: Curator, names: Sequence[str], form: str | None, mechanism: Laplace
    ) -> tuple[dict[str, columns.Kind], set[str]]:
        """Decide which columns of a text file hold numbers, whole ones, or dates."""
        kinds: dict[str, columns.Kind] = {}
        whole = set()
        # Where nearly all cells are missing, noise decides, and bounds would be noise, too.
        votes = [
            (vote, mechanism)
            for name in names
            for vote in (
                KindVote(name, lead=CLEAR_LEAD),
                KindVote(name, "date", form=form, lead=CLEAR_LEAD),
                KindVote(name, "whole"),
            )
        ]
        answers = curator.ask_all(votes) if votes else []
        for (vote, _), answer in zip(votes, answers, strict=True):
            if vote.of == "number":
                kinds[vote.column] = "numeric" if answer else "categorical"
            elif vote.of == "whole" and answer:
                whole.add(vote.column)
            elif answer and kinds[vote.column] == "categorical":
                kinds[vote.column] = "date"
        return kinds, whole

    def _answers(self, curator: Curator, shares: Sequence[ColumnShare]) -> dict[str, ColumnAnswer]:
        """Ask for bounds and texts of all columns together."""
        asked = [
            (share, what, question)
            for share in shares
            for what, question in share.asked(self._aim).items()
        ]
        found = curator.ask_all([question for _, _, question in asked]) if asked else []
        by_name: dict[str, dict[str, Any]] = {share.name: {} for share in shares}
        for (share, what, _), answer in zip(asked, found, strict=True):
            by_name[share.name][what] = answer
        return {share.name: ColumnAnswer(share, **by_name[share.name]) for share in shares}

    def _schema(
        self,
        found: Layout,
        answers: dict[str, ColumnAnswer],
        kinds: Mapping[str, columns.Kind],
        whole: Set[str],
        n_rows: int,
    ) -> Schema:
        made: dict[str, columns.Column] = {}
        own: Target | None = None
        for name in found.names:
            if name == found.unit:
                continue
            if name == found.target and name in answers:
                own = _target(answers[name], n_rows)
                if own is None:
                    made[name] = columns.Ignored(_NO_CLASSES)
                    warnings.warn(f"{name!r} {_NO_CLASSES}.", UserWarning, stacklevel=5)
                else:
                    own = self._widened(own, answers[name].share, n_rows)
            elif name in answers:
                made[name] = self._column(answers[name], n_rows)
            else:
                made[name] = _unasked(found, name, kinds.get(name), name in whole)
        what = [] if found.kinds else ["which columns hold numbers, whole ones, and dates"]
        for field_name, estimated in (("bounds", "bounds"), ("texts", "categories")):
            names = [n for n, each in answers.items() if getattr(each.share, field_name)]
            what += [f"{estimated} of {', '.join(names)}"] if names else []
        b = self.budget
        spent = Spent(
            b.epsilon, b.delta, str(b.relation), tuple(what), self._bits.secure, found.unit
        )
        if all(isinstance(column, columns.Ignored) for column in made.values()):
            raise TableError(
                "Nothing in this file could be estimated within the budget, which is spent: no "
                "column holds numbers or frequent categories. Describe it in a schema of your own."
            )
        return Schema(made, own, found.file, spent, found.unit)

    def _column(self, answer: ColumnAnswer, n_rows: int) -> columns.Column:
        """Return the kind of a column that was asked about.

        Every cell must be acceptable: a later refusal would reveal what was not released here.
        """
        share = answer.share
        if answer.bounds is not None and share.bounds is not None:
            if self._cuts_much(self._cut(share.bounds.epsilon, n_rows)):
                return _left_to_the_fit(share.whole)
            low, high = answer.bounds
            return replace(_left_to_the_fit(share.whole), low=low, high=high)
        if answer.texts is None:
            return columns.Ignored(_MANY)
        added = (columns.MISSING, columns.OTHER)
        values = [text for text in answer.frequent if text not in added]
        if not values:
            return columns.Ignored(_RARE)
        if len(values) > 1 or self._covers(answer, n_rows):
            return columns.Categorical(tuple(values), unseen="average", prefix=share.prefix)
        # One level has no effect unless it is compared with other texts, which are in many rows.
        return columns.Categorical(tuple(values), "other", prefix=share.prefix, gaps="average")

    def _covers(self, answer: ColumnAnswer, n_rows: int) -> bool:
        """Return True if the released categories are all rows, up to noise in their counts."""
        histogram = answer.share.histogram
        counts = answer.frequent.values()
        noise = 0.0 if histogram is None else histogram.scale * math.sqrt(2 * len(counts))
        return sum(counts) >= max(n_rows - COVER_DEVIATIONS * noise, n_rows * LEAST_COVER)

    def _warn(self, shares: Sequence[ColumnShare], n_rows: int, found: Layout) -> None:
        """Warn of a budget that is too small or too large, by public numbers."""
        size = counted(n_rows, "row") if found.unit is None else f"{n_rows:,} people"
        texts = []
        if self.budget.delta * n_rows >= 1:
            texts.append(
                f"delta={self.budget.delta:g} is at least 1/n = {1 / n_rows:g}: a mechanism could "
                "publish a whole row under such a guarantee. Use a delta well below 1/n."
            )
        weak = []
        for share in shares:
            own = share.bounds if share.name == found.target else None  # others are left to the fit
            cut = 0.0 if own is None else self._cut(own.epsilon, n_rows)
            rare = share.histogram is not None and share.histogram.threshold >= n_rows / 2
            if cut >= 0.5 or rare:
                weak.append(share.name)
            elif self._cuts_much(cut):
                texts.append(
                    f"The budget is too small to keep {self.coverage:.0%} of the numbers of the "
                    f"target {share.name!r}: bounds that keep about {1 - cut:.1%} "
                    f"were found and widened {self._widening(cut):.1f} times, which is enough if "
                    "the tails of the target fall at least exponentially. If bounds are publicly "
                    "known, write them under [target] in the schema; or spend more."
                )
        if weak:
            texts.append(
                f"The budget is too small for {size} and this many columns: the estimates for "
                f"{quoted(weak)} are mostly noise. Spend more, or fill in what is publicly "
                "known and leave the rest out."
            )
        for text in texts:
            warnings.warn(text, UserWarning, stacklevel=5)


def _two_digits(towards: Callable[[float], int], value: float, whole: bool) -> float:
    """Return a number of two digits beside a value, as bounds are; ``towards`` rounds."""
    power = math.floor(math.log10(abs(value))) - 1 if value else 0
    power = max(power, 0) if whole else power
    return float(f"{towards(value / 10.0**power)}e{power}")


def _left_to_the_fit(whole: bool) -> columns.Numeric:
    """Return a column of numbers whose bounds the fit finds with part of its budget."""
    return columns.Numeric(invalid="missing", gaps="average", integer=whole)


def _target(answer: ColumnAnswer, n_rows: int) -> Target | None:
    """Return classes, or bounds of a number; None if neither could be released.

    A label that was too rare to be released, or a missing one, counts as the commonest (by the
    noisy counts), and a text among numbers as the middle of the bounds: a refusal would reveal
    that such a row exists.
    """
    classes = answer.frequent
    name = answer.share.name
    histogram = answer.share.histogram
    enough = len(classes) > 1
    if enough and answer.bounds and histogram:  # numbers, unless of few values
        deviation = histogram.scale * math.sqrt(2 * len(classes))
        needed = max(CLASSES_COVER * n_rows - 2 * deviation, LEAST_COVER * n_rows)
        enough = len(classes) <= MOST_CLASSES and sum(classes.values()) >= needed
    if enough:
        commonest = max(classes, key=lambda label: classes[label])
        return Target(name, tuple(classes), other=commonest)
    if answer.bounds is None:
        return None
    low, high = answer.bounds
    return Target(name, low=low, high=high, invalid="middle")


def _stated(found: Layout) -> dict[str, columns.Kind]:
    """Return the kinds that are public: stated by the caller, by types or by names."""
    stated = dict(found.kinds)
    for name in found.names:
        hint = found.hints.get(name, columns.Hint())
        typed = found.kinds.get(name)
        if hint.kind is not None and typed != "ignored":
            stated[name] = hint.kind
        elif name in (found.unit, found.target):
            continue
        elif typed in (None, "numeric", "categorical") and columns.is_identifier(name):
            stated[name] = "ignored"
        elif typed in (None, "numeric") and columns.is_code(name):
            stated[name] = "categorical"
    return stated


def _unasked(found: Layout, name: str, kind: columns.Kind | None, whole: bool) -> columns.Column:
    """Return the kind of a column that was not asked about."""
    hint = found.hints.get(name, columns.Hint())
    if name in found.reasons:
        return columns.Ignored(found.reasons[name])
    if kind == "numeric":
        return _left_to_the_fit(whole)
    if kind == "hashed":
        return columns.Hashed(prefix=hint.prefix, gaps="average")
    if kind == "boolean":
        return columns.Boolean(gaps="average")
    if kind == "date":
        return columns.Date(invalid="missing", gaps="average", format=found.dates)
    return columns.Ignored("left out on request" if hint.kind == "ignored" else columns.IDENTIFIER)
