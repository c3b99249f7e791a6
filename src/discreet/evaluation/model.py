"""Evaluate fitted models: estimators, pipelines and searches, on rows in memory or on tables.

Every release is one question to a curator, asked in `discreet.estimators.scoring`. Proof:
docs/proofs/scoring.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from discreet import tables
from discreet.card.leaks import steps_of
from discreet.column_kinds import is_table
from discreet.core import Budget
from discreet.design import EncodedRows, unit_of_table
from discreet.errors import ModelFileError, NotSupported, PrivacyError, PrivacyLeakWarning
from discreet.estimators import measures
from discreet.estimators.classifiers import LinearClassifier, LogisticRegression
from discreet.estimators.familiar import warn
from discreet.estimators.levels import OrdinalClassifier
from discreet.estimators.measures import TwoClassScores
from discreet.estimators.regressors import LinearRegressor
from discreet.estimators.scoring import (
    CellRelease,
    Subgroups,
    Terms,
    count_confusion,
    count_errors,
    score_regressor,
)
from discreet.evaluation import subgroups as subgroup_rule
from discreet.evaluation.report import Evaluation
from discreet.ledger import Dataset
from discreet.tables import LevelCodes, Schema
from discreet.validate import number

_EXACT = (
    "These figures are exact: they are a release about the rows of this table, with no privacy at "
    "all. Show them only if those rows are public, or pass epsilon= to have them with noise."
)

_BY_ROW = "the steps before the model transform each row by itself"


def evaluate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    epsilon: float | None = None,
    relation: str = "add_remove",
    groups: Any = None,
    by: Any = None,
    threshold: float | None = None,
    target_bounds: tuple[float, float] | None = None,
    ledger: Dataset | None = None,
) -> Evaluation:
    """Measure a fitted model on rows that have the target: AUC, recall, calibration, errors.

    Parameters
    ----------
    model : estimator, Pipeline, search or TableModel
        A fitted classifier or regressor of discreet; a pipeline of scikit-learn whose last step is
        one, or a search that was refitted. What comes before the model transforms X.
    X : array, CSR matrix, DataFrame or table
        Rows as for ``model.predict``; for a `TableModel` any source that ``Schema.open`` takes.
    y : array of shape (n_samples,), optional
        Labels or numbers. For a `TableModel`, or a pipeline that starts with a `TableTransformer`,
        it may be left out: the table has the target.
    epsilon : float, optional
        Privacy budget of the evaluation (δ = 0: Laplace noise on counts). Without it the figures
        are exact and not private, and a `PrivacyLeakWarning` says so.
    relation : {"add_remove", "replace_one"}
        Neighbouring data sets.
    groups : sequence of ids, optional
        Whose row each row is: each person then has a total weight of 1, and the guarantee is for
        people. For a `TableModel` the name of the column with the ids; by default the schema's
        unit.
    by : str, array or pair, optional
        Subgroups that are measured, too: a column of X, or one value per row. Its levels must be
        public: a pandas category, a polars Enum, booleans, a column that the schema of a table
        lists; or a pair such as ``("sex", ["F", "M"])`` lists them.
    threshold : float, optional
        Predict the second of two classes if its probability is above this; by default the class of
        the higher score.
    target_bounds : (float, float), optional
        Public bounds of a numeric target; by default those that the model was fitted with.
    ledger : Dataset, optional
        Data set of a ledger that is charged.

    Returns
    -------
    Evaluation

    Notes
    -----
    *Privacy.* With ``epsilon``, one noisy histogram is released on the whole budget, by subgroup,
    true class and bin of the score (or of the error). All measures, those of all rows and those of
    each subgroup, are computed from it. Its ε adds to that of every other release about the same
    rows. Proof: docs/proofs/scoring.md.

    Examples
    --------
    >>> import numpy as np
    >>> import discreet
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 3))
    >>> y = (X[:, 0] + rng.logistic(size=4000) > 0).astype(int)
    >>> model = discreet.LogisticRegression(epsilon=1.0, classes=[0, 1]).fit(X[:2000], y[:2000])
    >>> found = discreet.evaluate(model, X[2000:], y[2000:], epsilon=0.5)
    >>> bool(found.measures["AUC"] > 0.6)
    True
    """
    model = getattr(model, "best_estimator_", model)
    asked = Asked.of(epsilon, relation, ledger, threshold)
    first: Any = model.steps[0][1] if isinstance(model, Pipeline) and model.steps else None
    reads_tables = hasattr(model, "estimator") and isinstance(model.schema, Schema)  # a TableModel
    by_schema = reads_tables or (y is None and isinstance(first, tables.TableTransformer))
    if by_schema and target_bounds is not None:
        raise ValueError("target_bounds: the table is read by its schema, which states the bounds.")
    if reads_tables:
        return _of_table_model(model, X, y, asked, groups, by)
    if by_schema:
        if groups is not None:
            raise ValueError("groups: the table is read by its schema, whose unit says whose rows.")
        form: Any = {"sparse": first.sparse, "dtype": first.dtype}
        return evaluate_table(Pipeline(model.steps[1:]), first.schema, X, asked, by, **form)
    if y is None:
        raise ValueError("y must have the true label or number of each row.")
    design = getattr(last_step(model), "design_", None)
    if design is not None and is_table(X) and last_step(model) is model:
        groups = unit_of_table(X, design.schema.unit, groups)
    if groups is None:
        _check_unit(model, asked)
    subgroups = None
    if by is not None:
        known = None if design is None else design.schema
        subgroups, column = subgroup_rule.of_rows(by, X, known)
        X = X if column is None else _without(X, column, model)
    terms = Terms(asked.budget, ledger, groups, subgroups)
    return measured(model, X, y, terms, asked, target_bounds)


@dataclass(frozen=True)
class Asked:
    """Checked settings of an evaluation that do not depend on the rows."""

    budget: Budget | None
    ledger: Dataset | None
    threshold: float | None

    @classmethod
    def of(
        cls, epsilon: float | None, relation: str, ledger: Dataset | None, threshold: float | None
    ) -> Asked:
        """Check the settings, before anything is read or spent."""
        if epsilon is None and ledger is not None:
            raise ValueError(
                "a ledger counts what is spent on these rows, and an exact evaluation cannot be "
                "counted. Pass epsilon=0.1, for example."
            )
        budget = None if epsilon is None else Budget(epsilon, 0.0, relation)
        return cls(budget, ledger, threshold)


def evaluate_table(
    model: Any, schema: Schema, table: Any, asked: Asked, by: Any = None, **reading: Any
) -> Evaluation:
    """Read a table by its schema, and measure a model of its encoded rows.

    The unit of the schema is that of the evaluation. ``reading`` has keywords of `tables.read`.
    """
    target = schema.target
    if target is None:
        raise ModelFileError(
            "this model does not know which column it predicts; its schema has no target."
        )
    bounds = None
    if not target.is_classification:
        if target.low is None or target.high is None:
            raise ModelFileError(
                "errors are measured within public bounds of the target, and this model was fitted "
                "without. Fit it with target_bounds=(low, high)."
            )
        bounds = (target.low, target.high)
    _check_threshold(model, asked)
    found = None if by is None else subgroup_rule.of_table(by, schema)
    levels = found if isinstance(found, LevelCodes) else None
    encoded = tables.read(table, schema, levels=levels, **reading)
    if isinstance(found, LevelCodes):
        found = Subgroups(found.name, found.levels, found.codes())
    y: Any = encoded.y
    design = getattr(last_step(model), "design_", None)
    X = encoded.X if design is None else EncodedRows(encoded.X, schema)
    if target.is_classification:
        labels = np.asarray(target.labels)
        classes = getattr(last_step(model), "classes_", labels)
        # a model whose labels are numbers or truth values has them in the order of the texts
        y = (labels if design is None or len(classes) != len(labels) else classes)[y]
    terms = Terms(asked.budget, asked.ledger, encoded.groups, found)
    return measured(model, X, y, terms, asked, bounds)


def measured(
    model: Any,
    X: Any,
    y: Any,
    terms: Terms,
    asked: Asked,
    bounds: tuple[float, float] | None,
) -> Evaluation:
    """Measure an estimator, or a pipeline that ends with one, on rows in memory."""
    _check_threshold(model, asked)
    before: list[Any] = []
    while isinstance(model, Pipeline):
        before += [step for _, step in model.steps[:-1] if step not in (None, "passthrough")]
        model = model.steps[-1][1]
    _check_model(model)
    for step in before:
        X = step.transform(X)
    if terms.budget is None:
        warn(_EXACT, PrivacyLeakWarning)
    if isinstance(model, LinearRegressor):
        found = _of_numbers(model, X, y, terms, bounds)
    elif isinstance(model, LinearClassifier) and len(model.classes_) == 2:
        found = _of_two_classes(model, X, y, terms, asked.threshold)
    else:
        found = _of_classes(model, X, y, terms)
    outside = [step for step in before if not isinstance(step, tables.TableTransformer)]
    guarantee = found.guarantee
    if guarantee is not None and outside:
        guarantee = replace(guarantee, conditions=(*guarantee.conditions, _BY_ROW))
        found = replace(found, guarantee=guarantee)
    return found


def check_threshold(threshold: float, estimator: Any, labels: Sequence[Any]) -> None:
    """Refuse a threshold that is no probability, and models that have none to compare it with."""
    number("threshold", threshold, above=0.0, below=1.0)
    if not isinstance(estimator, LogisticRegression) or len(labels) != 2:
        raise ValueError("threshold= is for logistic models of two classes.")


def last_step(model: Any) -> Any:
    """Return the estimator at the end of a model: of a search the best one, of a pipeline the last.

    Others are returned as they are.
    """
    model = getattr(model, "best_estimator_", model)
    while isinstance(model, Pipeline):
        model = model.steps[-1][1]
    return model


def _check_threshold(model: Any, asked: Asked) -> None:
    """Refuse a threshold that the last step of a model cannot take."""
    model = last_step(model)
    if asked.threshold is not None:
        check_threshold(asked.threshold, model, getattr(model, "classes_", ()))


def _check_model(model: Any) -> None:
    """Refuse models that are not fitted, or that no measure here is for."""
    if not isinstance(model, LinearClassifier | LinearRegressor | OrdinalClassifier):
        raise NotSupported(
            "evaluate measures classifiers and regressors of discreet, and pipelines that end with "
            f"one; got {type(model).__name__}."
        )
    check_is_fitted(model, "coef_")


def _check_unit(model: Any, asked: Asked) -> None:
    """Refuse or point out a loss of the unit: a promise for one row where people have several."""
    for step in steps_of(model):
        unit = getattr(getattr(step, "schema", None), "unit", None)
        if unit is not None:
            raise PrivacyError(
                f"The schema in this pipeline names the unit {unit!r}, but evaluate got no groups: "
                "its promise would be for one row. Pass the ids of all rows, "
                f"groups=table[{unit!r}], or leave y out if the table has the target."
            )
    guarantee = getattr(last_step(model), "guarantee_", None)
    if asked.budget is not None and guarantee is not None and guarantee.unit != "row":
        warn(
            "The model was fitted to people with several rows, but evaluate got no groups: its "
            "promise is for one row. Pass groups=ids, unless each person has one row here.",
            PrivacyLeakWarning,
        )


def _of_table_model(
    model: Any, table: Any, y: Any, asked: Asked, groups: Any, by: Any
) -> Evaluation:
    """Evaluate a model of tables, which has a method for it."""
    if y is not None:
        raise ValueError(
            "y: a TableModel takes the target from the table. Leave y out, and name the target's "
            "column as in the schema."
        )
    if groups is not None and not isinstance(groups, str):
        raise ValueError(
            "groups: a TableModel takes ids from the table. Pass the name of their column, or "
            "leave groups out if the schema names the unit."
        )
    if asked.threshold is not None:
        model = replace(model, threshold=asked.threshold)
    settings: Any = {}
    if asked.budget is not None:
        settings = {"epsilon": asked.budget.epsilon, "relation": str(asked.budget.relation)}
    found: Evaluation = model.evaluate(table, unit=groups, by=by, ledger=asked.ledger, **settings)
    return found


def _without(X: Any, column: str, model: Any) -> Any:
    """Return X without the column of the subgroups, if the model was fitted without it."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        width = getattr(model, "n_features_in_", None)
        known = width is not None and X.shape[1] == width
    else:
        known = column in list(names)
    return X if known else X[[name for name in X.columns if name != column]]


def _n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _empty(X: Any, terms: Terms) -> Evaluation:
    """Return an evaluation that has no measures yet."""
    unit = "row" if terms.groups is None else "person"
    by = None if terms.subgroups is None else terms.subgroups.name
    return Evaluation(terms.size(_n_rows(X)), unit, {}, by=by)


def _count(counts: Any) -> int:
    """Return the number of units that noisy counts stand for."""
    return round(max(float(np.sum(counts)), 0.0))


def _levels(terms: Terms) -> tuple[Any, ...]:
    return () if terms.subgroups is None else terms.subgroups.levels


def _of_two_classes(
    model: LinearClassifier, X: Any, y: Any, terms: Terms, threshold: float | None
) -> Evaluation:
    empty = _empty(X, terms)
    whole, parts = measures.measure_two_classes(
        model, X, y, terms, size=empty.size, threshold=threshold
    )

    def filled(own: Evaluation, scores: TwoClassScores) -> Evaluation:
        return replace(
            own,
            measures=scores.measures(),
            labels=scores.confusion.labels,
            counts=scores.confusion.counts,
            calibration=scores.calibration,
            deviations=scores.deviations,
            guarantee=scores.guarantee,
        )

    part = replace(empty, by=None)
    found = [filled(replace(part, size=_count(each.confusion.counts)), each) for each in parts]
    return replace(filled(empty, whole), subgroups=dict(zip(_levels(terms), found, strict=True)))


def _of_classes(
    model: LinearClassifier | OrdinalClassifier, X: Any, y: Any, terms: Terms
) -> Evaluation:
    empty = _empty(X, terms)
    labels = tuple(model.classes_.tolist())
    released = count_confusion(model, X, y, terms)

    def filled(own: Evaluation, cells: CellRelease) -> Evaluation:
        scores, deviations = measures.confusion_scores(cells, labels)
        return replace(
            own,
            measures=measures.confusion_measures(scores),
            labels=labels,
            counts=scores.counts,
            deviations=deviations,
            guarantee=scores.guarantee,
        )

    part = replace(empty, by=None)
    found = {}
    for k, level in enumerate(_levels(terms)):
        own = replace(released, counts=released.counts[k : k + 1])
        found[level] = filled(replace(part, size=_count(own.counts)), own)
    return replace(filled(empty, released), subgroups=found)


def _of_numbers(
    model: LinearRegressor, X: Any, y: Any, terms: Terms, bounds: tuple[float, float] | None
) -> Evaluation:
    if bounds is None:
        bounds = model.target_bounds
    if bounds is None:
        raise ValueError(
            "errors are measured within public bounds of the target, and the model was fitted "
            "without. Pass target_bounds=(low, high)."
        )
    low, high = float(bounds[0]), float(bounds[1])
    empty = _empty(X, terms)
    if terms.subgroups is None:
        return _of_sums(model, X, y, terms, (low, high), empty)
    edges = None if terms.budget is None else measures.error_edges()
    released = count_errors(model, X, y, (low, high), edges, terms)
    part = replace(empty, by=None)
    found = {}
    for k, level in enumerate(terms.subgroups.levels):
        own = replace(released, counts=released.counts[k : k + 1])
        values, deviations = measures.error_measures(own, high - low)
        found[level] = replace(
            part,
            size=_count(own.counts),
            measures=values,
            deviations=deviations,
            guarantee=released.guarantee,
        )
    values, deviations = measures.error_measures(released, high - low)
    return replace(
        empty,
        measures=values,
        deviations=deviations,
        guarantee=released.guarantee,
        subgroups=found,
    )


def _of_sums(
    model: LinearRegressor,
    X: Any,
    y: Any,
    terms: Terms,
    bounds: tuple[float, float],
    empty: Evaluation,
) -> Evaluation:
    """Measure a regressor on all rows by two sums, which are more precise than a histogram."""
    scores = score_regressor(model, X, y, bounds, terms.budget, terms.ledger, terms.groups)
    values = (scores.mean_absolute_error, scores.root_mean_squared_error)
    found = dict(zip(measures.ERRORS, values, strict=True))
    deviations: dict[str, float] = {}
    if terms.budget is not None:
        deviations = measures.sum_deviations(found, bounds, empty.size, terms.budget)
    return replace(empty, measures=found, deviations=deviations, guarantee=scores.guarantee)
