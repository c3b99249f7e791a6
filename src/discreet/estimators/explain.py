"""Explanations of single predictions: the contribution of each column to a score.

A linear or additive model is a sum over columns. The contribution of a column to the score of a row
is its part of the sum less that of the average row; with the baseline, the score of the average
row, contributions add up to the score. The average row has the released means of the features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from discreet.design import Design
from discreet.estimators import averaged
from discreet.estimators.effects import released_means, spline_rows, towards
from discreet.estimators.layout import ColumnFeatures, layout
from discreet.estimators.pair_terms import PairTerms
from discreet.page import table
from discreet.tables import Boolean, Date, Hashed, Numeric, Ordinal
from discreet.tables.columns import MISSING
from discreet.validate import FloatArray, integer

if TYPE_CHECKING:
    from discreet.figures import Figure

__all__ = ["Explanation", "explained"]

SHOWN = 15
"""Columns of a row that tables and figures name; the others are one line."""

OFFSET = "(offset)"
"""Name of the known part of a score."""

AVERAGED = "(average)"
"""Cell that is scored as the average of its column."""

UP = "#b5483a"
"""Colour of contributions that raise a score."""

DOWN = "#1f4e79"
"""Colour of contributions that lower a score."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """Contributions of columns to the scores of rows; print it, or call `to_frame` or `plot`.

    Attributes
    ----------
    columns : tuple of str
        Names of the columns.
    baseline : array of shape (n_models,)
        Scores of the average row.
    contributions : array of shape (n_rows, n_columns, n_models)
        What each column adds to the baseline.
    labels : tuple of str
        Classes of the models, if there are several.
    towards : str
        What a score is: log-odds of a class, or units of the target.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import LinearRegression
    >>> X = np.random.default_rng(0).random((2000, 2))
    >>> model = LinearRegression(epsilon=1.0, delta=1e-6, target_bounds=(0, 2))
    >>> model = model.fit(X, X.sum(axis=1))
    >>> found = model.explain(X)
    >>> found.columns
    ('x0', 'x1')
    >>> bool(np.allclose(found.scores[:, 0], model.predict(X)))
    True
    """

    columns: tuple[str, ...]
    baseline: FloatArray
    contributions: FloatArray
    labels: tuple[str, ...]
    towards: str
    _parts: tuple[ColumnFeatures, ...] = field(repr=False)
    _rows: Any = field(repr=False)
    _pairs: PairTerms | None = field(repr=False, default=None)
    _dates: Mapping[str, Date] = field(repr=False, default_factory=dict)

    @property
    def scores(self) -> FloatArray:
        """Scores of the rows, (n_rows, n_models): the baseline and all contributions."""
        return np.asarray(self.baseline + self.contributions.sum(axis=1))

    def __len__(self) -> int:
        return len(self.contributions)

    def cells(self, row: int = 0) -> tuple[str, ...]:
        """Return the cells of a row as the model sees them, in units of the columns."""
        one: Any = self._rows[[self._at(row)]]
        sparse: bool = sp.issparse(one)
        values = one.toarray()[0] if sparse else np.asarray(one)[0]
        found = tuple(_cell(part, values, self._dates.get(part.name)) for part in self._parts)
        found += ("",) * (OFFSET in self.columns)
        return found if self._pairs is None else found + self._pairs.cell_names(one)

    def _at(self, row: int) -> int:
        """Return the number of a row, which may count from the end."""
        count = len(self)
        at = row + count if isinstance(row, int) and row < 0 else row
        if not count:
            raise ValueError("there are no rows.")
        return integer("row", at, least=0, most=count - 1)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame: baseline, one column per column, and the score of each row.

        Several models have one line each for a row.
        """
        import pandas as pd

        frames = []
        for k in range(len(self.baseline)):
            frame = pd.DataFrame(self.contributions[:, :, k], columns=list(self.columns))
            frame.insert(0, "(baseline)", self.baseline[k])
            frame["(score)"] = self.scores[:, k]
            frames.append(frame)
        if len(frames) == 1:
            return frames[0]
        whole = pd.concat(frames, keys=list(self.labels)).swaplevel()
        return whole.sort_index(level=0, sort_remaining=False)

    def _lines(self, row: int) -> list[tuple[str, str, FloatArray]]:
        """Return name, cell and contributions of the largest columns of a row, and of the rest."""
        parts = self.contributions[self._at(row)]
        cells = self.cells(row)
        order = np.argsort(-np.abs(parts).max(axis=1), kind="stable")
        shown = [(self.columns[k], cells[k], parts[k]) for k in order[:SHOWN]]
        rest = order[SHOWN:]
        if rest.size:
            shown.append((f"{rest.size} other columns", "", parts[rest].sum(axis=0)))
        return shown

    def _table(self, row: int) -> tuple[list[str], list[list[str]]]:
        """Return headings and cells of a row's table."""
        labels = self.labels or (self.towards,)
        lines = [["average row", "", *map(_signed, self.baseline)]]
        for name, cell, values in self._lines(row):
            lines.append([name, cell, *map(_signed, values)])
        lines.append(["score", "", *map(_signed, self.scores[self._at(row)])])
        return ["column", "cell", *labels], lines

    def text(self, row: int = 0) -> str:
        """Return the table of a row: the largest contributions first."""
        headings, lines = self._table(row)
        widths = [max(len(line[j]) for line in [headings, *lines]) for j in range(len(headings))]
        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        found = [_padded(headings, widths), rule, _padded(lines[0], widths)]
        found += [_padded(line, widths) for line in lines[1:-1]]
        return "\n".join([*found, rule, _padded(lines[-1], widths)])

    def __str__(self) -> str:
        if not len(self):
            return "no rows"
        more = len(self) - 1
        note = f"\nRow 0; text(row) shows another of the {more:,} others." if more else ""
        return self.text() + note

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the table of the first row as HTML, for notebooks."""
        if not len(self):
            return "<p>no rows</p>"
        headings, lines = self._table(0)
        caption = f"Contributions of the columns to {self.towards}, row 0 of {len(self):,}"
        return table(headings, lines, caption=caption, texts=2)

    def plot(self, row: int = 0, label: str | None = None) -> Figure:
        """Draw the largest contributions of a row, from the average row to its score.

        ``label`` names one of several models; by default the one of the largest score.
        """
        from discreet.figures import Figure

        at = self._at(row)
        model = self._model(at, label)
        lines = self._lines(row)
        values = np.array([each[model] for _, _, each in lines])
        starts = self.baseline[model] + np.concatenate([[0.0], np.cumsum(values)[:-1]])
        places = np.arange(len(lines)) + 1
        figure = Figure(figsize=(7.0, 0.28 * len(lines) + 1.9), layout="constrained")
        panel = figure.subplots()
        colours = [UP if value > 0 else DOWN for value in values]
        panel.barh(places, values, left=starts, color=colours, height=0.7)
        score = float(self.scores[at, model])
        for place, value, start in zip(places, values, starts, strict=True):
            panel.plot([start + value] * 2, [place - 0.35, place + 1.35], color="0.6", lw=0.7)
            aside = 4 if value >= 0 else -4
            panel.annotate(
                _signed(value), (start + value, place), (aside, 0), textcoords="offset points",
                va="center", ha="left" if value >= 0 else "right", fontsize=7,
            )  # fmt: skip
        ends = [self.baseline[model], score]
        panel.plot(ends, [0, len(lines) + 1], "o", color="0.25", ms=4)
        names = [f"{name} = {_short(cell)}" if cell else name for name, cell, _ in lines]
        names = [f"average row: {ends[0]:.3g}", *names, f"score: {score:.3g}"]
        panel.set_yticks(np.arange(len(names)), names, fontsize=8)
        panel.set_ylim(len(names) - 0.4, -0.6)
        reached = np.array([*ends, *starts, *(starts + values)])
        room = 0.14 * float(np.ptp(reached)) or 1.0
        panel.set_xlim(reached.min() - room, reached.max() + room)
        panel.tick_params(axis="x", labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
        of = f"score of {self.labels[model]}" if self.labels else self.towards
        panel.set_xlabel(of, fontsize=9)
        figure.suptitle(f"Contributions of the columns, row {at}", fontsize=10)
        return figure

    def _model(self, at: int, label: str | None) -> int:
        """Return the number of the model that is drawn."""
        if label is None:
            return int(np.argmax(self.scores[at]))
        if str(label) not in self.labels:
            raise ValueError(f"label must be one of {', '.join(self.labels)}; got {label!r}.")
        return self.labels.index(str(label))


def explained(model: Any, X: Any, design: Design | None = None) -> Explanation:
    """Return the explanation of encoded rows."""
    parts = layout(model, design=design)
    X, offset = model.without_offset(X)
    encoded = X
    X = averaged.with_averages(model, X)
    weights = np.atleast_2d(model.coef_)
    means = _average_row(model, parts)
    made: Any = model.features_.transform(X)
    sparse: bool = sp.issparse(made)
    rows: FloatArray = np.array(made.toarray() if sparse else made, dtype=np.float64)
    averaged.average_cells(model, X, rows)
    rows -= means
    found = np.empty((len(rows), len(parts), len(weights)))
    for k, part in enumerate(parts):
        own = part.features
        found[:, k] = rows[:, own] @ weights[:, own].T
    labels: tuple[str, ...] = ()
    if len(weights) > 1:
        labels = tuple(str(label) for label in model.classes_)
    columns = tuple(part.name for part in parts)
    baseline = weights @ means + np.atleast_1d(model.intercept_)
    pairs = getattr(model, "pairs_", None)
    design = model.design_ if design is None else design
    kinds = {} if design is None else design.schema.columns
    if offset is not None:
        columns += (OFFSET,)
        found = np.concatenate(
            [found, np.broadcast_to(offset[:, None, None], found[:, :1].shape)], 1
        )
    if pairs is not None:
        columns += pairs.names
        baseline = baseline + pairs.means().sum(axis=0)
        own = pairs.contributions(encoded) - pairs.means()
        found = np.concatenate([found, own], axis=1)
    return Explanation(
        columns=columns,
        baseline=baseline,
        contributions=found,
        labels=labels,
        towards=towards(model),
        _parts=parts,
        _rows=X,
        _pairs=pairs,
        _dates={name: column for name, column in kinds.items() if isinstance(column, Date)},
    )


def _average_row(model: Any, parts: Sequence[ColumnFeatures]) -> FloatArray:
    """Return the features of the average row: released means, else the middle of bounds, or 0."""
    known = released_means(model)
    width = np.atleast_2d(model.coef_).shape[1]
    means = np.zeros(width) if known is None else known.copy()
    groups = {} if model.design_ is None else {each.name: each for each in model.design_.groups}
    bounds = model.features_.bounds
    for part in parts:
        if part.places and part.name in groups:  # as cells without a weight are scored
            means[list(part.places)] = averaged.shares(model, groups[part.name])
        elif part.curve:
            own = means[part.curve.start : part.curve.stop].clip(0.0)
            if not own.any():
                own = _middle_of_curve(model, part)
            means[part.curve.start : part.curve.stop] = own / own.sum()
        elif part.number is not None and known is None:
            public = isinstance(part.column, Numeric) and part.column.is_bounded
            if bounds is not None and part.encoded in bounds.columns:
                means[part.number] = sum(bounds.ends) / 2
            elif public or isinstance(part.column, Ordinal):
                means[part.number] = 0.5
    return means


def _middle_of_curve(model: Any, part: ColumnFeatures) -> FloatArray:
    """Return the features of a curve in the middle of its bounds."""
    made = model.features_.expansion
    j = made.columns.index(part.encoded)
    at = np.array([(made.low[j] + made.high[j]) / 2])
    return spline_rows(model, part, at)[0, part.curve.start : part.curve.stop]


def _cell(part: ColumnFeatures, values: FloatArray, date: Date | None) -> str:
    """Return a cell as a model sees it, from the encoded row; ``date`` is the column of a trend."""
    column = part.column
    if part.made:
        return ""
    if part.places:
        return _level(part, values)
    value = float(values[part.encoded])
    if part.mark is not None and column is not None and values[part.encoded + 1] == 1.0:
        return MISSING
    if isinstance(column, Boolean):
        return "yes" if value else "no"
    if isinstance(column, Ordinal):
        return column.values[round(value * (len(column.values) - 1))]
    if isinstance(column, Numeric):
        value = float(column.decoded(value))
        if date is not None:
            return date.date_of(value)
        return f"{round(value, 9):.6g}"
    return f"{value:.6g}"


def _level(part: ColumnFeatures, values: FloatArray) -> str:
    """Return the level of an encoded row."""
    own = values[part.encoded : part.encoded + len(part.places)]
    if part.column is None:  # columns of an array, which need not be beside each other
        return ""
    carried = np.flatnonzero(own == 1.0)
    if carried.size:
        level = part.levels[int(carried[0])]
        return f"#{level}" if isinstance(part.column, Hashed) and level != MISSING else level
    if part.contrasts and not own.any():
        return str(part.reference)
    return AVERAGED


def _signed(value: float) -> str:
    return f"{value:+.4f}"


def _short(text: str) -> str:
    return text if len(text) <= 22 else f"{text[:21]}…"


def _padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return a line of text: names and cells to the left, numbers to the right."""
    both = list(zip(cells, widths, strict=True))
    left = [f"{cell:<{width}}" for cell, width in both[:2]]
    return "  ".join([*left, *(f"{cell:>{width}}" for cell, width in both[2:])]).rstrip()
