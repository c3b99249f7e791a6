"""A fitted model of a table: it encodes new tables by its schema, predicts, and is measured.

`discreet.fit` returns a `TableModel`, and the command ``discreet`` reads one from a model file.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TextIO

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from discreet import tables
from discreet.card import Card, card
from discreet.core import Budget, Guarantee, Relation
from discreet.errors import AveragedCellsWarning, ModelFileError, PrivacyLeakWarning
from discreet.estimators import averaged, model_file
from discreet.estimators.classifiers import LogisticRegression
from discreet.estimators.evaluation import Calibration, confusion_measures, score_two_classes
from discreet.estimators.scoring import score_classifier, score_regressor
from discreet.ledger import Dataset
from discreet.tables import Schema, Spent
from discreet.validate import FloatArray, number

if TYPE_CHECKING:
    from discreet.figures import Figure

__all__ = ["Evaluation", "FitReport", "PredictedBlock", "TableModel"]

_EXACT = (
    "These figures are exact: they are a release about the rows of this table, with no privacy at "
    "all. Show them only if those rows are public, or pass epsilon= to have them with noise."
)


@dataclass(frozen=True)
class FitReport:
    """Public facts about a fit, as the command ``discreet fit`` prints them.

    Attributes
    ----------
    rows : int or None
        Number of rows; None if the unit is a person, whose number of rows is not public.
    columns : int
        Number of encoded columns.
    unit : str or None
        Column with the id of the person that a row belongs to.
    reading_seconds, fitting_seconds : float
        Durations.
    guarantee : Guarantee
        The promise of the fit alone.
    schema_cost : Spent or None
        Budget that was spent before, on estimating the schema from the same rows.
    spent : Budget or None
        Both together; see `TableModel.spent`.
    entry : int or None
        Entry of the ledger.
    ledger : Dataset or None
        Data set of the ledger; the report shows its state when it is printed.
    """

    rows: int | None
    columns: int
    unit: str | None
    reading_seconds: float
    fitting_seconds: float
    guarantee: Guarantee
    schema_cost: Spent | None = None
    spent: Budget | None = None
    entry: int | None = None
    ledger: Dataset | None = None

    @property
    def durations(self) -> str:
        """Sentence on the size of the table and the time that reading and fitting took."""
        shape = f"{self.rows:,} rows and {self.columns:,} encoded columns"
        if self.unit is not None:
            shape = f"the rows of all people, {self.columns:,} encoded columns,"
        return (
            f"Read {shape} in {self.reading_seconds:.1f} s; fitted in {self.fitting_seconds:.1f} s."
        )

    def __str__(self) -> str:
        """State the guarantee, the entry of the ledger, and the total with the schema's cost."""
        lines = [str(self.guarantee)]
        if self.ledger is not None:
            lines.append(f"Entry {self.entry} of the ledger; data set {self.ledger!r}.")
        cost = self.schema_cost
        if cost is not None and self.spent is not None:
            lines.append(
                f"Estimating the schema from the same rows spent ε = {cost.epsilon:g}, "
                f"δ = {cost.delta:g} before. Together: ε = {self.spent.epsilon:g}, "
                f"δ = {self.spent.delta:g}."
            )
        return "\n\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as data that JSON can hold."""
        charged = None
        if self.ledger is not None:
            charged = {"entry": self.entry, **self.ledger.summary()}
        return {
            "rows": self.rows,
            "unit": self.unit,
            "columns": self.columns,
            "seconds": round(self.reading_seconds + self.fitting_seconds, 3),
            "guarantee": self.guarantee.to_dict(),
            "spent_on_schema": None if self.schema_cost is None else asdict(self.schema_cost),
            "ledger": charged,
        }


@dataclass(frozen=True)
class Evaluation:
    """Measures of a model on a table that has the target.

    Attributes
    ----------
    size : int
        Number of units that were scored: rows, or people, each with a total weight of 1.
    unit : str
        ``"row"`` or ``"person"``.
    measures : mapping
        Single numbers by name; NaN where one is not defined.
    labels, counts
        Labels, and the confusion matrix: true labels in rows, predicted ones in columns. None for
        a numeric target.
    calibration : tuple of Calibration or None
        Predicted and observed shares of the second class; None unless there are two classes.
    deviations : mapping or None
        Standard deviation that the noise causes, by measure; None unless there are two classes.
    guarantee : Guarantee or None
        Promise of the evaluation; None if it is exact.
    """

    size: int
    unit: str
    measures: Mapping[str, float]
    labels: tuple[Any, ...] | None = None
    counts: FloatArray | None = None
    calibration: tuple[Calibration, ...] | None = None
    deviations: Mapping[str, float] | None = None
    guarantee: Guarantee | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the evaluation as data that JSON can hold; NaN becomes None."""
        data: dict[str, Any] = {"rows" if self.unit == "row" else "people": self.size}
        for name, value in _numbers(self.measures).items():
            data[name.replace(" ", "_")] = value
        if self.labels is not None and self.counts is not None:
            data |= {"labels": list(self.labels), "counts": self.counts.tolist()}
        if self.calibration is not None:
            data["calibration"] = [asdict(each) for each in self.calibration]
        if self.deviations is not None:
            data["noise"] = _numbers(self.deviations)
        data["private"] = self.guarantee is not None
        data["guarantee"] = None if self.guarantee is None else self.guarantee.to_dict()
        return data


def _numbers(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: None if np.isnan(value) else value for name, value in values.items()}


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
    pipeline : Pipeline
        A `discreet.tables.TableTransformer` and a fitted estimator of discreet.
    threshold : float, optional
        Predict the second of two classes if its probability is above this; by default the class
        of the higher score. A model file does not keep it.
    report : FitReport, optional
        Facts about the fit; None for a model that was read from a file.

    Notes
    -----
    *Privacy.* All of it may be published. A prediction reveals something about its own row:
    protect it like the row.
    """

    pipeline: Pipeline
    threshold: float | None = None
    report: FitReport | None = None

    def __post_init__(self) -> None:
        check_threshold(self.threshold, self.estimator, getattr(self.estimator, "classes_", ()))

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
        if not isinstance(loaded, Pipeline):
            raise ModelFileError(
                f"{os.fspath(path)} holds a model without a schema, so it cannot read tables. Use "
                "discreet.load in Python and give it the encoded rows."
            )
        if ignore_extra:
            loaded[0].schema = replace(loaded[0].schema, extra="ignore")
        return cls(loaded, threshold)

    def save(self, path: str | os.PathLike[str] | TextIO) -> None:
        """Write a model file, as `discreet.save` does; `discreet.load` reads the pipeline."""
        model_file.save(self.pipeline, path)

    @property
    def estimator(self) -> Any:
        """The fitted estimator."""
        return self.pipeline.steps[-1][1]

    @property
    def schema(self) -> Schema:
        """Public knowledge about the table."""
        schema: Schema = self.pipeline.steps[0][1].schema
        return schema

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
        return total_spent(self.guarantee, self.schema)

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
        encoder = self.pipeline.steps[0][1]
        form: Any = {"dtype": encoder.dtype, "sparse": encoder.sparse}
        blocks = self.schema.batches(table, extra=extra, progress=progress, **form)
        return self._predicted(blocks, probabilities)

    def _predicted(
        self, blocks: Iterator[tables.EncodedBlock], probabilities: bool
    ) -> Iterator[PredictedBlock]:
        """Yield predictions; one warning says how many cells of all blocks were averaged."""
        decided = _at_threshold(self.estimator, self.threshold)
        cells = 0
        for block in blocks:
            cells += averaged.count(self.estimator, block.X)
            shares = None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AveragedCellsWarning)
                predictions = decided.predict(block.X)
                if probabilities:
                    shares = self.estimator.predict_proba(block.X)
            yield PredictedBlock(predictions, shares, block.extra)
        if cells:
            said = averaged.text(self.estimator, cells, self.schema.feature_names)
            warnings.warn(said, AveragedCellsWarning, stacklevel=2)

    def evaluate(
        self,
        table: Any,
        *,
        epsilon: float | None = None,
        relation: str = "add_remove",
        unit: str | None = None,
        ledger: Dataset | None = None,
        memory: int | str | None = None,
        folder: str | os.PathLike[str] | None = None,
        progress: Callable[[float], None] | None = None,
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
        ledger : Dataset, optional
            Data set of a ledger that is charged.
        memory, folder, progress
            As in ``Schema.open``.

        Notes
        -----
        *Privacy.* Exact figures about private rows are themselves a release. With ``epsilon`` the
        counts behind them are released with noise; its ε adds to that of every other release about
        the same rows. For two classes one noisy histogram of scores gives all measures.
        """
        budget = None if epsilon is None else Budget(epsilon, 0.0, relation)
        schema = with_unit(self.schema, unit)
        target = schema.target
        if target is None:
            raise ModelFileError(
                "this model does not know which column it predicts; its schema has no target."
            )
        if budget is None and ledger is not None:
            raise ValueError(
                "a ledger counts what is spent on these rows, and an exact evaluation cannot be "
                "counted. Pass epsilon=0.1, for example."
            )
        places: Any = {"memory": memory, "folder": folder}
        encoded: Any = tables.read(table, schema, progress=progress, **places)
        X, y, groups = encoded
        if budget is None:
            warnings.warn(_EXACT, PrivacyLeakWarning, stacklevel=2)
        size = X.shape[0]
        unit_name = "row"
        if groups is not None:
            size = int(groups.max(initial=-1)) + 1
            unit_name = "person"
        asked = (budget, ledger, groups)
        if target.is_classification:
            return self._scored_classes(Evaluation(size, unit_name, {}), X, y, asked)
        if target.low is None or target.high is None:
            raise ModelFileError("the target of this model's schema has no bounds.")
        errors = score_regressor(self.estimator, X, y, (target.low, target.high), *asked)
        measures = {
            "mean absolute error": errors.mean_absolute_error,
            "root mean squared error": errors.root_mean_squared_error,
        }
        return Evaluation(size, unit_name, measures, guarantee=errors.guarantee)

    def _scored_classes(self, empty: Evaluation, X: Any, y: Any, asked: Any) -> Evaluation:
        """Return an evaluation with the measures of a classifier; ``asked`` are its last three."""
        labels = self.estimator.classes_
        if len(labels) > 2:
            scores = score_classifier(self.estimator, X, labels[y], *asked)
            return replace(
                empty,
                measures=confusion_measures(scores),
                labels=scores.labels,
                counts=scores.counts,
                guarantee=scores.guarantee,
            )
        found = score_two_classes(
            self.estimator, X, labels[y], *asked, size=empty.size, threshold=self.threshold
        )
        return replace(
            empty,
            measures=found.measures(),
            labels=found.confusion.labels,
            counts=found.confusion.counts,
            calibration=found.calibration,
            deviations=found.deviations,
            guarantee=found.guarantee,
        )

    def summary(self, level: float = 0.95, *, odds_ratios: bool = False) -> Any:
        """Return the table of coefficients, by the names of the encoded columns."""
        names = self.schema.feature_names
        return self.estimator.summary(level, odds_ratios=odds_ratios, names=names)

    def plot_effects(self) -> Figure:
        """Draw the effect of each column on the score, in the units of the table."""
        columns = self.schema.used.items()
        units = {name: each.decoded for name, each in columns if hasattr(each, "decoded")}
        figure: Figure = self.estimator.plot_effects(self.schema.feature_names, units)
        return figure

    def card(self, **about: Any) -> Card:
        """Return the privacy card; ``about`` has the keywords of `discreet.card.card`."""
        return card(self.guarantee, model=self.estimator, schema=self.schema, **about)


def total_spent(guarantee: Guarantee, schema: Schema) -> Budget | None:
    """Return the budget of a fit and of estimating its schema together; see `TableModel.spent`."""
    if not guarantee.private:
        return None
    cost = schema.spent
    if cost is None:
        return Budget(guarantee.epsilon, guarantee.delta, guarantee.relation)
    same_unit = (cost.unit is None) == (guarantee.unit == "row")
    if Relation(cost.relation) is not guarantee.relation or not same_unit:
        return None
    return Budget(
        guarantee.epsilon + cost.epsilon, guarantee.delta + cost.delta, guarantee.relation
    )


def with_unit(schema: Schema, unit: str | None) -> Schema:
    """Return a schema with another unit, if one is named."""
    try:
        return schema if unit is None else schema.with_unit(unit)
    except ValueError as error:
        raise ValueError(f"unit: {error}") from None


def check_threshold(threshold: float | None, estimator: Any, labels: Sequence[Any]) -> None:
    """Refuse a threshold that is no probability, and models that have none to compare it with."""
    if threshold is None:
        return
    number("threshold", threshold, above=0.0, below=1.0)
    if not isinstance(estimator, LogisticRegression) or len(labels) != 2:
        raise ValueError("threshold= is for logistic models of two classes.")


def _at_threshold(estimator: Any, threshold: float | None) -> Any:
    """Return a model that predicts the second class where its probability is above a threshold."""
    if threshold is None:
        return estimator
    shifted = copy.copy(estimator)
    shifted.intercept_ = estimator.intercept_ - estimator.link_.score(threshold)
    return shifted
