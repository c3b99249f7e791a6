"""What a private draft collects about the columns of a file while it is read: exact counts.

None of it leaves but through the mechanisms of `discreet.tables.estimate`. What a cell counts for
depends on that cell alone, so a row changes one count of each column.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core import Laplace, PermuteAndFlip
from discreet.core.filters import Mechanism
from discreet.core.histogram import StabilityHistogram
from discreet.core.ranges import cell_counts, edges
from discreet.tables.cells import numbers

__all__ = ["Question", "Tally", "margin_of", "numbers_of", "text_counts"]

LONGEST_TEXT = 200
"""Letters beyond which a cell is no category; it counts nowhere, which keeps memory bounded."""


def numbers_of(values: Any) -> NDArray[np.float64]:
    """The cells of a block as numbers; NaN where a cell is missing or holds other text."""
    found = numbers(values, (), lenient=True)
    if found is None:
        raise TypeError("a column that is neither text nor number was not left out")
    return found


def margin_of(values: Any) -> int:
    """How many cells of a block read as numbers, less how many hold other text."""
    count = int(np.count_nonzero(~np.isnan(numbers_of(values))))
    return 2 * count - (len(values) - values.null_count)


def text_counts(values: Any) -> Iterable[tuple[str, int]]:
    """The distinct texts of a block and their counts; missing cells are left out."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    is_float = pa.types.is_floating(values.type)
    if is_float:
        values = values.filter(pc.is_finite(values))
    texts = values.drop_null().cast(pa.string())
    if is_float:  # 3.0 is "3", as in encoding; cell by cell, so that no cell depends on another
        texts = pc.replace_substring_regex(texts, r"^(-?\d+)\.0$", r"\1")
    texts = texts.filter(pc.less_equal(pc.utf8_length(texts), LONGEST_TEXT))
    counted = pc.value_counts(texts)
    return zip(
        counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True
    )


@dataclass(frozen=True)
class Question:
    """What is asked about one column, and with which mechanisms."""

    name: str
    is_target: bool
    bounds: PermuteAndFlip | None = None
    histogram: StabilityHistogram | None = None
    limit: Laplace | None = None

    @property
    def uses(self) -> list[tuple[Mechanism, int]]:
        """What has to be charged for it, and how often each is used."""
        listed: list[tuple[Mechanism | None, int]] = [
            (self.bounds, 2),
            (self.histogram, 1),
            (self.limit, 1),
        ]
        return [(mechanism, times) for mechanism, times in listed if mechanism is not None]


@dataclass
class Tally:
    """What is collected about a column while the file is read; it holds exact counts."""

    most_texts: int | None
    cells: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(2 * edges().size + 1, dtype=np.int64)
    )
    texts: Counter[str] = field(default_factory=Counter)
    given_up: bool = False

    def add(self, question: Question, values: Any) -> None:
        """Count a block of cells."""
        if question.bounds is not None:
            self.cells += cell_counts(numbers_of(values))
        if question.histogram is not None and not self.given_up:
            for text, count in text_counts(values):
                self.texts[text] += count
            if self.most_texts is not None and len(self.texts) > self.most_texts:
                self.given_up = True
                self.texts.clear()
