"""Questions about the cells of a table, as data: what a private draft of a schema asks.

They have the shape of `discreet.core.questions`, and `discreet.core.curator.Curator.ask` answers
them. A table may be larger than memory, so an exact answer is collected block by block: `start` is
the answer for no rows, and `add` adds those of a block. A row has at most one cell in a column, and
a cell counts once at most, by its own content and public numbers. Where the unit is a person, one
row of each person is read (`discreet.tables.cell_rows`), so all sensitivities are for people, too.

Proofs: docs/proofs/histogram.md, docs/proofs/ranges.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.budget import Relation
from discreet.core.mechanisms import (
    ExponentialMechanism,
    Laplace,
    PermuteAndFlip,
    SelectionMechanism,
)
from discreet.core.noise import Noise
from discreet.core.questions import Answer, Public, Question
from discreet.core.ranges import refuse_monotone, select_bounds_from_counts
from discreet.errors import PrivacyError
from discreet.exact.histogram import (
    GaussianHistogram,
    LimitedHistogram,
    StabilityHistogram,
    noisy_limit,
)
from discreet.rows.moments import edges
from discreet.validate import FloatArray, check_fields, integer, number

CellKind: TypeAlias = Literal["number", "date", "whole"]
"""Kind of cells that a vote is about."""


class Cells(Protocol):
    """Cells of some rows, by column.

    Privacy
    -------
    Every count is a sum over rows, to which the cell of one row adds at most 1 in one place, or
    takes 1 from a margin, by its own content.
    """

    def margin(self, column: str, of: CellKind, form: str | None) -> int:
        """Return the number of cells that are numbers or dates, less that of other texts.

        With "whole": the number of whole numbers, less that of other numbers.
        """

    def number_counts(self, column: str, candidates: FloatArray) -> NDArray[np.int64]:
        """Count the numbers between candidates, as `discreet.rows.moments.cell_counts` does."""

    def text_counts(self, column: str, prefix: int | None) -> Mapping[str, int]:
        """Count the rows that hold each text, or each start of texts of ``prefix`` letters."""


class CellQuestion(Question[Cells, Answer]):
    """Base of questions about the cells of one column, whose answers add up over blocks."""

    column: str

    def start(self) -> Any:
        """Return the exact answer for no rows."""
        raise NotImplementedError

    def add(self, exact: Any, cells: Cells) -> Any:
        """Return the exact answer with the rows of another block."""
        raise NotImplementedError

    def on(self, rows: Cells) -> Any:
        """Return the exact answer for the cells of one block."""
        return self.add(self.start(), rows)


@dataclass(frozen=True)
class KindVote(CellQuestion[bool]):
    """Vote between cells of one kind and others: numbers, dates of a form, or whole numbers.

    Missing cells do not vote, nor do texts in a vote on whole numbers. The answer is True if the
    first group leads by more than ``lead`` noise scales, but at most a quarter of the rows.

    The unit is a row, or a person of whom one row is read. A row adds −1, 0 or 1 to the margin:
    adding or removing it moves the margin by at most 1, replacing it by at most 2.
    """

    column: str
    of: CellKind = "number"
    form: str | None = None
    lead: float = 0.0
    mechanisms: ClassVar[tuple[type, ...]] = (Laplace,)
    protected: ClassVar[str] = "number of cells of one kind less that of another kind, in a column"
    proof: ClassVar[str] = "histogram"

    def __post_init__(self) -> None:
        check_fields(self, number, "lead", least=0.0)

    def sensitivity(self, relation: Relation) -> float:
        """Bound the change of the margin."""
        return float(relation.rows_changed)

    def start(self) -> int:
        """Return the margin of no rows."""
        return 0

    def add(self, exact: int, cells: Cells) -> int:
        """Add the margin of a block."""
        return exact + cells.margin(self.column, self.of, self.form)

    def release(self, exact: int, mechanism: Laplace, public: Public, noise: Noise) -> bool:
        """Compare the noisy margin with a public number."""
        noisy, scale = mechanism.release(
            np.array([float(exact)]),
            sensitivity=self.sensitivity(public.relation),
            magnitude=float(public.n_rows),
            noise=noise,
        )
        return bool(noisy[0] > min(self.lead * scale, public.n_rows / 4))


@dataclass(frozen=True)
class CellBounds(CellQuestion[tuple[float, float]]):
    """Choice of public bounds between which about ``coverage`` of a column's numbers lie.

    With ``whole`` they are whole numbers. Cells that are not numbers are not counted. There are two
    choices among public candidates, by counts of numbers below them: the mechanism is used twice.

    The unit is a row, or a person of whom one row is read. A row has at most one number in the
    column, and moves each score by at most 1 under both relations.
    """

    column: str
    coverage: float
    whole: bool = False
    mechanisms: ClassVar[tuple[type, ...]] = (ExponentialMechanism, PermuteAndFlip)
    uses: ClassVar[int] = 2
    protected: ClassVar[str] = "two quantiles of a column's numbers among public candidates"
    proof: ClassVar[str] = "ranges"

    def __post_init__(self) -> None:
        check_fields(self, number, "coverage", above=0.0, below=1.0)

    def check(self, public: Public, mechanism: Any) -> None:
        """Raise if the mechanism counts on monotone scores."""
        refuse_monotone(mechanism)
        super().check(public, mechanism)

    def sensitivity(self, relation: Relation) -> float:
        """Bound the change of any score; `select_bounds_from_counts` adds noise for it."""
        return 1.0

    def start(self) -> NDArray[np.int64]:
        """Return the counts of no rows."""
        return np.zeros(2 * edges(self.whole).size + 1, dtype=np.int64)

    def add(self, exact: NDArray[np.int64], cells: Cells) -> NDArray[np.int64]:
        """Add the counts of a block."""
        return exact + cells.number_counts(self.column, edges(self.whole))

    def release(
        self,
        exact: NDArray[np.int64],
        mechanism: SelectionMechanism,
        public: Public,
        noise: Noise,
    ) -> tuple[float, float]:
        """Choose both bounds."""
        return select_bounds_from_counts(
            exact, public.n_rows, self.coverage, mechanism, noise, whole=self.whole
        )


@dataclass(frozen=True)
class TextCounts(CellQuestion[dict[str, float] | None]):
    """Release of the texts of a column that many rows hold, with their noisy counts.

    With ``prefix`` texts are grouped by this many first letters. With a `LimitedHistogram` the
    column is given up, and the answer is None, if it holds more than about ``most`` distinct texts.

    The unit is a row, or a person of whom one row is read. A row holds at most one text: adding or
    removing it changes one count by 1, replacing it changes two. It changes the number of distinct
    texts by at most 1 under both relations. The secret limit is drawn before rows are read, so that
    memory is bounded by it.
    """

    column: str
    prefix: int | None = None
    most: int = 50_000
    mechanisms: ClassVar[tuple[type, ...]] = (
        StabilityHistogram,
        LimitedHistogram,
        GaussianHistogram,
    )
    protected: ClassVar[str] = "number of rows that hold each text of a column; number of texts"
    proof: ClassVar[str] = "histogram"

    def __post_init__(self) -> None:
        check_fields(self, integer, "most", least=1)
        if self.prefix is not None:
            check_fields(self, integer, "prefix", least=1)

    def check(self, public: Public, mechanism: Any) -> None:
        """Raise if the mechanism has noise for another relation."""
        super().check(public, mechanism)
        if mechanism.relation is not public.relation:
            raise PrivacyError(
                f"This mechanism has noise for {str(mechanism.relation)!r}, but the budget is for "
                f"{str(public.relation)!r}. Nothing was spent."
            )

    def prepare(self, mechanism: Any, noise: Noise) -> TextCounts:
        """Draw the secret limit, if there is one."""
        if not isinstance(mechanism, LimitedHistogram):
            return self
        public = {each.name: getattr(self, each.name) for each in fields(self)}
        return _LimitedTextCounts(**public, secret=noisy_limit(self.most, mechanism.limit, noise))

    def sensitivity(self, relation: Relation) -> float:
        """Bound the sum of the changes of counts, for which the mechanism has noise."""
        return float(relation.rows_changed)

    def start(self) -> Counter[str] | None:
        """Return the counts of no rows."""
        return Counter()

    def add(self, exact: Counter[str] | None, cells: Cells) -> Counter[str] | None:
        """Add the counts of a block; None stays None, which is a column that was given up."""
        if exact is not None:
            exact.update(cells.text_counts(self.column, self.prefix))
        return exact

    def release(
        self, exact: Counter[str] | None, mechanism: Any, public: Public, noise: Noise
    ) -> dict[str, float] | None:
        """Release the texts whose noisy count reaches the threshold, in alphabetical order."""
        if exact is None:
            return None
        histogram = mechanism.histogram if isinstance(mechanism, LimitedHistogram) else mechanism
        counts = np.array(list(exact.values()), dtype=np.int64)
        released: dict[str, float] = histogram.release(
            list(exact),
            counts=counts,
            noise=noise,
            sensitivity=self.sensitivity(public.relation),
        )
        return released


@dataclass(frozen=True)
class _LimitedTextCounts(TextCounts):
    """The same question while rows are read: the column is given up beyond a secret limit."""

    secret: int = field(default=0, repr=False)

    def start(self) -> Counter[str] | None:
        """Return the counts of no rows; they may be too many already."""
        return Counter() if self.secret >= 0 else None

    def add(self, exact: Counter[str] | None, cells: Cells) -> Counter[str] | None:
        """Add the counts of a block, and forget all of them beyond the limit."""
        exact = super().add(exact, cells)
        return None if exact is None or len(exact) > self.secret else exact
