"""Measures of a model as text, as HTML for notebooks, as a DataFrame and as a figure.

Everything here is made of numbers that were released, or that are known to be exact.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.core import Guarantee
from discreet.estimators.measures import Calibration
from discreet.page import table
from discreet.statement import neighbours
from discreet.validate import FloatArray

if TYPE_CHECKING:
    import pandas as pd

    from discreet.figures import Figure

WIDTH = 92
"""Columns of text."""

Rows = list[list[str]]
"""Cells of a table as texts; the first row is the header."""


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Measures of a model on rows that have the target.

    ``print`` shows them as a table, and a notebook as HTML.

    Attributes
    ----------
    size : int
        Number of units that were scored: rows, or people, each with a total weight of 1. It is
        public for all rows together; that of a subgroup is counted, with noise if there is any.
    unit : str
        ``"row"`` or ``"person"``.
    measures : mapping
        Single numbers by name; NaN where one is not defined.
    labels, counts
        Labels, and the confusion matrix: true labels in rows, predicted ones in columns. None for
        a numeric target.
    calibration : tuple of Calibration or None
        Predicted and observed shares of the second class; None unless there are two classes.
    deviations : mapping
        Standard deviation that the noise causes, by measure; empty if the measures are exact.
    guarantee : Guarantee or None
        Promise of the evaluation; None if it is exact.
    by : str or None
        Name of the column that subgroups were made of.
    subgroups : mapping
        The same measures for each subgroup, by its level. The guarantee covers all of them.
    """

    size: int
    unit: str
    measures: Mapping[str, float]
    labels: tuple[Any, ...] | None = None
    counts: FloatArray | None = None
    calibration: tuple[Calibration, ...] | None = None
    deviations: Mapping[str, float] = field(default_factory=dict)
    guarantee: Guarantee | None = None
    by: str | None = None
    subgroups: Mapping[Any, Evaluation] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Number of units, and whether the figures are exact."""
        guarantee = self.guarantee
        how = "EXACT, NOT PRIVATE"
        if guarantee is not None:
            how = f"with noise, ε = {guarantee.epsilon:g}"
        units = "rows" if self.unit == "row" else "people, each with a total weight of 1"
        return f"Evaluation on {self.size:,} {units} ({how})"

    @property
    def promise(self) -> str:
        """Guarantee of the evaluation in a sentence; empty if it is exact."""
        guarantee = self.guarantee
        if guarantee is None:
            return ""
        return (
            f"This evaluation is {guarantee.epsilon:g}-differentially private (pure, δ = 0) for "
            f"{neighbours(guarantee)}; {guarantee.public[0]} is treated as public. Its ε adds to "
            "that of every other release about the same rows."
        )

    def __str__(self) -> str:
        lines = []
        for caption, rows in self.tables():
            lines += [caption, *_aligned(rows), ""]
        lines += textwrap.wrap(self.promise, WIDTH)
        return "\n".join(lines).rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the tables as HTML, for notebooks."""
        parts = [table(rows[0], rows[1:], caption=caption) for caption, rows in self.tables()]
        promise = f"<p>{escape(self.promise)}</p>" if self.promise else ""
        return f"<div>{''.join(parts)}{promise}</div>"

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as data that JSON can hold; NaN becomes None."""
        data: dict[str, Any] = {"rows" if self.unit == "row" else "people": self.size}
        for name, value in _numbers(self.measures).items():
            data[name.replace(" ", "_")] = value
        if self.labels is not None and self.counts is not None:
            data |= {"labels": list(self.labels), "counts": self.counts.tolist()}
        if self.calibration is not None:
            data["calibration"] = [asdict(each) for each in self.calibration]
        data["noise"] = _numbers(self.deviations)
        if self.by is not None:
            data["by"] = self.by
            parts = {str(level): part.to_dict() for level, part in self.subgroups.items()}
            for part in parts.values():
                del part["private"], part["guarantee"]
            data["subgroups"] = parts
        data["private"] = self.guarantee is not None
        data["guarantee"] = None if self.guarantee is None else self.guarantee.to_dict()
        return data

    def to_frame(self) -> pd.DataFrame:
        """Return a DataFrame with a row per measure: its value, and the noise in it (needs pandas).

        With subgroups, a column has the level; it is missing where a measure is of all rows.
        """
        import pandas as pd

        records = []
        parts: list[tuple[Any, Evaluation]] = [(None, self), *self.subgroups.items()]
        for level, part in parts:
            own = {} if self.by is None else {self.by: level}
            for name, value in part.measures.items():
                noise = part.deviations.get(name, 0.0)
                records.append({**own, "measure": name, "value": value, "noise": noise})
        return pd.DataFrame(records)

    def plot_calibration(self) -> Figure:
        """Draw the observed share of the second class against the predicted one, by subgroup too.

        The area of a point grows with the number of rows that it stands for.
        """
        if self.labels is None or not self.calibration:
            raise ValueError(
                "there is no calibration to draw: it needs two classes, a model with "
                "probabilities (LogisticRegression), and more rows than noise."
            )
        from discreet.figures import Figure

        figure = Figure(figsize=(5.0, 5.0), layout="constrained")
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
        curves = {"all": self, **{str(level): part for level, part in self.subgroups.items()}}
        most = max(group.count for group in self.calibration)
        for name, part in curves.items():
            groups = part.calibration or ()
            predicted = [group.predicted for group in groups]
            observed = [group.observed for group in groups]
            axes.plot(predicted, observed, linewidth=1, label=name)
            areas = [10 + 70 * min(max(group.count, 0.0) / most, 1.0) for group in groups]
            axes.scatter(predicted, observed, s=areas)
        if self.subgroups:
            axes.legend(title=self.by)
        axes.set_xlabel(f"predicted probability of {self.labels[1]}")
        axes.set_ylabel(f"observed share of {self.labels[1]}")
        axes.set_title(self.title, fontsize=9)
        return figure

    def tables(self) -> Iterator[tuple[str, Rows]]:
        """Yield the caption and the cells of each table: measures, confusion, calibration."""
        yield self.title, self._measure_rows()
        if self.labels is None or self.counts is None:
            return
        labels = list(map(str, self.labels))
        rows = [["true \\ predicted", *labels]]
        for label, row in zip(labels, self.counts, strict=True):
            rows.append([label, *(f"{count:,.0f}" for count in row)])
        yield "Confusion matrix", rows
        if self.calibration:
            rows = [["from", "to", "predicted", "observed", "number"]]
            for group in self.calibration:
                shares = (group.low, group.high, group.predicted, group.observed)
                rows.append([*(f"{share:.3f}" for share in shares), f"{group.count:,.0f}"])
            yield f"Calibration: probability of {labels[1]}", rows

    def _measure_rows(self) -> Rows:
        """Return the table of measures; with subgroups, one column each."""
        if not self.subgroups:
            header = ["measure", "value", "± noise"][: 3 if self.deviations else 2]
            return [header, *([name, *self._cells(name)] for name in self.measures)]
        parts = [self, *self.subgroups.values()]
        number = "rows" if self.unit == "row" else "people"
        rows = [[self.by or "", "all", *map(str, self.subgroups)]]
        rows.append([number, *(f"{part.size:,}" for part in parts)])
        for name in self.measures:
            rows.append([name, *(" ± ".join(part._cells(name)) for part in parts)])
        return rows

    def _cells(self, name: str) -> list[str]:
        """Return a measure as text, and its noise if there is any."""
        digits = ".6g" if self.labels is None else ".4f"
        cells = [f"{self.measures[name]:{digits}}"]
        if self.deviations:
            noise = self.deviations[name]
            small = ".2g" if self.labels is None else ".4f"
            cells.append("–" if np.isnan(noise) else f"{noise:{small}}")
        return cells


def _aligned(rows: Rows) -> list[str]:
    """Return lines of text, the first column to the left and numbers to the right."""
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append("  ".join(cells))
    return [lines[0], "-" * len(lines[0]), *lines[1:]]


def _numbers(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: None if np.isnan(value) else value for name, value in values.items()}
