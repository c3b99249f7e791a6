"""A fitted model of a table: it encodes new tables by its schema, predicts, and is measured.

`discreet.fit` returns a `TableModel`, and the command ``discreet`` reads one from a model file.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TextIO

import numpy as np
from numpy.typing import NDArray

from discreet import tables
from discreet.card import Card, card
from discreet.core import Budget, Guarantee, Relation
from discreet.design import EncodedRows
from discreet.errors import AveragedCellsWarning, ModelFileError
from discreet.estimators import averaged, model_file
from discreet.estimators.explain import Explanation
from discreet.evaluation import Evaluation, evaluate_table
from discreet.evaluation.model import Asked, check_threshold
from discreet.ledger import Dataset
from discreet.tables import Schema
from discreet.validate import FloatArray

if TYPE_CHECKING:
    from discreet.figures import Figure

__all__ = ["FitReport", "PredictedBlock", "TableModel"]


@dataclass(frozen=True)
class FitReport:
    """Public facts about a fit, as the command ``discreet fit`` prints them.

    Attributes
    ----------
    size : str
        Sentence on the size of the table and the time that reading and fitting took.
    text : str
        The guarantee, the entry of the ledger, and the total with the schema's cost.
    record : mapping
        The same as data that JSON can hold: rows (None if the unit is a person, whose number of
        rows is not public), units (the number of rows or people), unit, columns, seconds,
        guarantee, spent_on_schema and ledger.
    """

    size: str
    text: str
    record: Mapping[str, Any]

    def __str__(self) -> str:
        return self.text


class PredictedBlock(NamedTuple):
    """Predictions for some records in turn; ``extra`` has columns of the table that were named."""

    predictions: NDArray[Any]
    probabilities: FloatArray | None
    extra: dict[str, Any]


@dataclass(frozen=True)
class TableModel:
    """A private model of a table, with the schema that encodes tables for it.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator of discreet.
    schema : Schema
        Public knowledge about the table, by which rows are encoded.
    threshold : float, optional
        Predict the second of two classes if its probability is above this; by default the class
        of the higher score. A model file does not keep it.
    reading_seconds, fitting_seconds : float, optional
        Durations of the fit, for its report; None for a model that was read from a file.

    Notes
    -----
    *Privacy.* All of it may be published. A prediction reveals something about its own row:
    protect it like the row.
    """

    estimator: Any
    schema: Schema
    threshold: float | None = None
    reading_seconds: float | None = None
    fitting_seconds: float | None = None

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        threshold: float | None = None,
        ignore_extra: bool = False,
    ) -> Self:
        """Read a model file that `save` or the command wrote.

        With ``ignore_extra``, columns of new tables that the schema lacks are left out.
        """
        loaded = model_file.load(path)
        if loaded.design_ is None:
            raise ModelFileError(
                f"{os.fspath(path)} holds a model of an array, which does not know the columns of "
                "a table. Use discreet.load in Python and give it rows of numbers."
            )
        schema = loaded.design_.schema
        if ignore_extra:
            schema = replace(schema, extra="ignore")
        return cls(loaded, schema, threshold)

    def save(self, path: str | os.PathLike[str] | TextIO) -> None:
        """Write a model file; `discreet.load` reads it as an estimator that takes tables."""
        model_file.save(self.estimator, path)

    @property
    def guarantee(self) -> Guarantee:
        """The promise of the fit alone."""
        guarantee: Guarantee = self.estimator.guarantee_
        return guarantee

    @property
    def spent(self) -> Budget | None:
        """Budget of the fit and of estimating the schema together.

        None if the fit promises nothing, or if the schema was estimated under another relation or
        for another unit, so that no sum of both is a guarantee.
        """
        guarantee: Guarantee = self.estimator.guarantee_
        cost = self.schema.spent
        if not guarantee.private:
            return None
        if cost is None:
            return Budget(guarantee.epsilon, guarantee.delta, guarantee.relation)
        same_unit = (cost.unit is None) == (guarantee.unit == "row")
        if Relation(cost.relation) is not guarantee.relation or not same_unit:
            return None
        return Budget(
            guarantee.epsilon + cost.epsilon, guarantee.delta + cost.delta, guarantee.relation
        )

    @property
    def report(self) -> FitReport:
        """Public facts about the fit; ``print`` states its guarantee and what is spent."""
        guarantee: Guarantee = self.estimator.guarantee_
        columns = self.estimator.n_encoded_
        rows = guarantee.n_units if self.schema.unit is None else None
        units = "rows" if self.schema.unit is None else "rows of all people"
        table = f"the {units}, {columns:,} encoded columns,"
        if rows is not None:
            table = f"{rows:,} rows and {columns:,} encoded columns"
        size = f"Fitted to {table.rstrip(',')}."
        seconds = None
        if self.reading_seconds is not None and self.fitting_seconds is not None:
            seconds = round(self.reading_seconds + self.fitting_seconds, 3)
            size = f"Read {table} in {self.reading_seconds:.1f} s; fitted in "
            size += f"{self.fitting_seconds:.1f} s."
        texts = [str(guarantee)]
        charged = None
        if self.estimator.ledger is not None:
            entry = self.estimator.ledger_entry_
            charged = {"entry": entry, **self.estimator.ledger.summary()}
            texts.append(f"Entry {entry} of the ledger; data set {self.estimator.ledger!r}.")
        cost = self.schema.spent
        total = self.spent
        if cost is not None and total is not None:
            texts.append(
                f"Estimating the schema from the same rows spent ε = {cost.epsilon:g}, "
                f"δ = {cost.delta:g} before. Together: ε = {total.epsilon:g}, δ = {total.delta:g}."
            )
        record = {
            "rows": rows,
            "units": guarantee.n_units,
            "unit": self.schema.unit,
            "columns": columns,
            "seconds": seconds,
            "guarantee": guarantee.to_dict(),
            "spent_on_schema": None if cost is None else asdict(cost),
            "ledger": charged,
        }
        return FitReport(size, "\n\n".join(texts), record)

    def predict(self, table: Any) -> NDArray[Any]:
        """Return a prediction for each row of a table: labels or numbers.

        ``table`` is any source that ``Schema.open`` takes. It needs no target column.
        """
        found = [block.predictions for block in self.predictions(table)]
        return np.concatenate(found) if found else np.array([])

    def predict_proba(self, table: Any) -> FloatArray:
        """Return the probability of each class for each row, in the order of the labels."""
        blocks = self.predictions(table, probabilities=True)
        found = [block.probabilities for block in blocks if block.probabilities is not None]
        return np.concatenate(found) if found else np.empty((0, len(self.estimator.classes_)))

    def predictions(
        self,
        table: Any,
        *,
        extra: Sequence[str] = (),
        probabilities: bool = False,
        progress: Callable[[float], None] | None = None,
    ) -> Iterator[PredictedBlock]:
        """Predict a table block by block, in bounded memory.

        Parameters
        ----------
        table
            Any source that ``Schema.open`` takes.
        extra : sequence of str
            Columns to hand through as Arrow arrays, such as an identifier.
        probabilities : bool
            Compute the probabilities of all classes, too.
        progress : callable, optional
            Called with the share of the table that was read.
        """
        if probabilities and not hasattr(self.estimator, "predict_proba"):
            kind = type(self.estimator).__name__
            raise ValueError(f"a {kind} has no probabilities; leave out probabilities=True.")
        decided = self.estimator
        if self.threshold is not None:
            decided = at_threshold(decided, self.threshold)
        blocks = self.schema.batches(table, extra=extra, progress=progress)
        return self._predicted(decided, blocks, probabilities)

    def _predicted(
        self, decided: Any, blocks: Iterator[tables.EncodedBlock], probabilities: bool
    ) -> Iterator[PredictedBlock]:
        """Yield predictions; one warning says how many cells of all blocks were averaged."""
        cells: Counter[str] = Counter()
        for block in blocks:
            rows = EncodedRows(block.X, self.schema)
            cells.update(averaged.counts(self.estimator, self.estimator.design_.encode(rows)))
            shares = None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AveragedCellsWarning)
                predictions = decided.predict(rows)
                if probabilities:
                    shares = self.estimator.predict_proba(rows)
            yield PredictedBlock(predictions, shares, block.extra)
        if cells:
            warnings.warn(averaged.text_by_column(cells), AveragedCellsWarning, stacklevel=2)

    def evaluate(
        self,
        table: Any,
        *,
        epsilon: float | None = None,
        relation: str = "add_remove",
        unit: str | None = None,
        by: Any = None,
        ledger: Dataset | None = None,
        **reading: Any,
    ) -> Evaluation:
        """Measure the model on a table that has the target: AUC, recall, calibration, errors.

        Parameters
        ----------
        table
            Any source that ``Schema.open`` takes, with the target.
        epsilon : float, optional
            Privacy budget of the evaluation (δ = 0: Laplace noise on counts). Without it the
            figures are exact and not private, and a `PrivacyLeakWarning` says so.
        relation : {"add_remove", "replace_one"}
            Neighbouring data sets.
        unit : str, optional
            Column with the id of the person that a row belongs to; by default the schema's unit.
        by : str, array or pair, optional
            Column whose levels are measured as subgroups. The schema lists them, or a pair such as
            ``("sex", ["F", "M"])`` does.
        ledger : Dataset, optional
            Data set of a ledger that is charged.
        **reading
            ``memory``, ``folder`` and ``progress`` as in ``Schema.open``.

        Notes
        -----
        *Privacy.* Exact figures about private rows are themselves a release. With ``epsilon`` the
        counts behind them are released with noise; its ε adds to that of every other release about
        the same rows. One noisy histogram gives all measures and subgroups, as in
        `discreet.evaluate`.
        """
        asked = Asked.of(epsilon, relation, ledger, self.threshold)
        schema = self.schema if unit is None else with_unit(self.schema, unit)
        return evaluate_table(self.estimator, schema, table, asked, by, **reading)

    def summary(self, level: float = 0.95, *, odds_ratios: bool | None = None) -> Any:
        """Return the table of coefficients, by column and in the units of the table."""
        return self.estimator.summary(level, odds_ratios=odds_ratios)

    def plot_effects(
        self,
        *,
        columns: Sequence[str] | None = None,
        panels: int | None = None,
        units: Mapping[str, Any] | None = None,
    ) -> Figure:
        """Draw the effect of each column on the score, in the units of the table.

        ``units`` has names of units by column, such as ``{"age": "years"}``, which label the axes.
        """
        shown: Any = {"columns": columns, "panels": panels, "units": units}
        figure: Figure = self.estimator.plot_effects(**shown)
        return figure

    def explain(self, table: Any) -> Explanation:
        """Return what each column contributes to the scores of a table's rows."""
        rows, _, _ = tables.read(table, self.schema, dtype="float64", target=False)
        found: Explanation = self.estimator.explain(EncodedRows(rows, self.schema))
        return found

    def card(self, **about: Any) -> Card:
        """Return the privacy card; ``about`` has the keywords of `discreet.card.card`."""
        return card(self.guarantee, model=self.estimator, schema=self.schema, **about)


def with_unit(schema: Schema, unit: str) -> Schema:
    """Return a schema with another unit; an error says that the unit is wrong."""
    try:
        return schema.with_unit(unit)
    except ValueError as error:
        raise ValueError(f"unit: {error}") from None


def at_threshold(estimator: Any, threshold: float) -> Any:
    """Return a model that predicts the second class where its probability is above a threshold."""
    check_threshold(threshold, estimator, getattr(estimator, "classes_", ()))
    shifted = copy.copy(estimator)
    shifted.intercept_ = estimator.intercept_ - estimator.link_.score(threshold)
    return shifted
