"""`discreet.fit`: from a table and its schema to a private model, in one call.

The function does what the command ``discreet fit`` does: it chooses the estimator by the target,
takes bounds, labels and the unit from the schema, reads the table in bounded memory, fits, and adds
the cost of estimating the schema to that of the fit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any

from discreet import tables
from discreet.estimators import (
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
)
from discreet.evaluation.model import check_threshold
from discreet.ledger import Dataset
from discreet.preparation import Bounds, Radius, Step, check_steps
from discreet.solvers import resolve
from discreet.table_model import TableModel, with_unit
from discreet.tables import Schema, Spent, Target
from discreet.validate import choice

__all__ = ["CLASSIFIERS", "REGRESSORS", "fit"]

CLASSIFIERS: dict[str, Callable[..., Any]] = {
    "logistic": LogisticRegression,
    "huber": partial(LinearSVC, loss="huber"),
    "hinge": partial(LinearSVC, loss="hinge"),
    "sigmoid": partial(LinearSVC, loss="sigmoid"),
}
"""Estimators for targets with classes, by the name of the loss; the first is the default."""

REGRESSORS: dict[str, Callable[..., Any]] = {
    "squared": LinearRegression,
    "huber": HuberRegressor,
    "poisson": PoissonRegressor,
    "gamma": GammaRegressor,
    "quantile": QuantileRegressor,
}
"""Estimators for numeric targets, by the name of the loss; the first is the default."""

_OF_SCHEMA = ("classes", "groups", "columns", "target_bounds")
"""Settings of estimators that the schema states."""


def fit(
    target: str | None,
    table: Any,
    *,
    epsilon: float,
    delta: float = 1e-6,
    relation: str = "add_remove",
    schema: Schema | str | os.PathLike[str] | None = None,
    unit: str | None = None,
    ledger: Dataset | None = None,
    loss: str | None = None,
    class_weight: Mapping[str, float] | str | None = None,
    preparation: Sequence[Step] | None = None,
    threshold: float | None = None,
    ignore_extra: bool = False,
    memory: int | str | None = None,
    folder: str | os.PathLike[str] | None = None,
    engine: str | None = None,
    progress: Callable[[str, float], None] | None = None,
    **settings: Any,
) -> TableModel:
    """Fit a private model to a table; the result predicts other tables.

    Everything is checked before the table is read and before anything is spent.

    Parameters
    ----------
    target : str or None
        Column to predict; None: the schema's target.
    table : path, list of paths, or table
        A file (CSV, Parquet, Feather), a folder or a pattern of such files, or a list of them; a
        pandas or polars table, or any other source that ``Schema.open`` takes. It may be larger
        than memory.
    epsilon, delta, relation
        Privacy budget of the fit. Estimating the schema from the same rows, if it was, comes on
        top: `TableModel.spent` is the total.
    schema : Schema or path
        Public knowledge about the columns: bounds, categories, labels.
        `discreet.tables.draft_private` estimates a schema within a budget, `discreet.tables.draft`
        writes one to fill in.
    unit : str, optional
        Column with the id of the person (or other unit) that a row belongs to: people are then
        protected with all of their rows. By default the schema's unit.
    ledger : Dataset, optional
        Data set of a ledger that is charged.
    loss : str, optional
        For classes "logistic" (the default), "huber", "hinge" or "sigmoid"; for numbers "squared"
        (the default), "huber", "poisson", "gamma" or "quantile".
    class_weight : mapping or "balanced", optional
        Weight of each class by its label, public numbers; or "balanced": all classes have the same
        total weight, by a noisy count that the fit pays for.
    preparation : sequence of steps, optional
        Private steps before the model, such as ``[Centre(share=0.1), Whiten(share=0.1)]``. Columns
        whose bounds are private in the schema get a `Bounds` step before them.
    threshold : float, optional
        Predict the second of two classes if its probability is above this.
    ignore_extra : bool
        Leave out columns of tables that the schema lacks.
    memory, folder
        As in ``Schema.open``: largest size of the encoded table in memory, and the folder of the
        temporary file for a larger one.
    engine : {"dask"}, optional
        Read files and fit on the cluster of the current Dask client.
    progress : callable, optional
        Called with "reading" or "fitting", and the share of that which is done.
    **settings
        Other settings of the estimator: ``solver``, ``alpha``, ``data_norm``, ``fit_intercept``,
        ``features``, ``inference``, ``rows_per_unit``, ``quantile``, ``random_state``, ….

    Returns
    -------
    TableModel

    Notes
    -----
    *Privacy.* The model is (ε, δ)-differentially private for one row, or with a unit for one person
    with all of their rows. Names of columns and the schema are public. That every row matches the
    schema is assumed to be public.

    Examples
    --------
    >>> import discreet
    >>> from discreet.tables import Categorical, Numeric, Schema, Target
    >>> columns = {"age": Numeric(0, 100), "ward": Categorical(["A", "B"])}
    >>> schema = Schema(columns, target=Target("readmitted", classes=["no", "yes"]))
    >>> visits = {
    ...     "age": [30, 70] * 500,
    ...     "ward": ["A", "B"] * 500,
    ...     "readmitted": ["no", "yes"] * 500,
    ... }
    >>> model = discreet.fit("readmitted", visits, schema=schema, epsilon=1.0)
    >>> model.predict({"age": [25, 75], "ward": ["A", "B"]}).tolist()
    ['no', 'yes']
    >>> model.spent.epsilon
    1.0
    """
    if engine is not None:
        choice("engine", engine, ("dask",))
    declared = _declared(target, schema, unit)
    if ignore_extra:
        declared = replace(declared, extra="ignore")
    own = declared.target
    if own is None:
        raise ValueError("the schema has no target: name the column to predict, fit('COLUMN', …).")
    if declared.spent is not None:
        _check_cost(declared.spent, relation, declared.unit)
    estimator = _estimator(
        own,
        loss,
        class_weight,
        epsilon=epsilon,
        delta=delta,
        relation=str(relation),
        preparation=preparation,
        ledger=ledger,
        **settings,
    )
    _take_from(declared, estimator)
    if threshold is not None:
        check_threshold(threshold, estimator, getattr(estimator, "classes", ()))
    if progress is not None:
        estimator.progress = lambda at: progress("fitting", at.spent_share)
    estimator.check_settings()
    start = time.perf_counter()
    if engine is None:
        shown = None if progress is None else partial(progress, "reading")
        encoded: Any = tables.read(table, declared, memory=memory, folder=folder, progress=shown)
    else:
        from discreet.engines import dask  # an optional dependency

        encoded = dask.open(table, declared, labels=False)
    X, y, groups = encoded
    begun = time.perf_counter()
    estimator.fit(X, y, groups=groups)
    estimator.progress = None
    if own.is_classification:  # it was fitted to codes, which need far less memory
        estimator.rename_classes(own.labels)
    return TableModel(estimator, declared, threshold, begun - start, time.perf_counter() - begun)


def _declared(
    target: str | None, schema: Schema | str | os.PathLike[str] | None, unit: str | None
) -> Schema:
    """Return the schema of a fit with its target and unit; a path is read."""
    if target is not None and not isinstance(target, str):
        raise TypeError(
            "target must be the name of the column to predict: fit('readmitted', table, …); got "
            f"{type(target).__name__}."
        )
    if schema is None:
        raise ValueError(
            "fit needs a schema, which states the public bounds and categories of the table: pass "
            "schema='visits.toml' or a discreet.tables.Schema. discreet.tables.draft_private("
            "table, epsilon, delta) estimates one within a budget, discreet.tables.draft(table) "
            "writes one to fill in."
        )
    found = schema if isinstance(schema, Schema) else Schema.read(schema)
    if target is not None:
        found = found.with_target(target)
    return found if unit is None else with_unit(found, unit)


def _check_cost(cost: Spent, relation: str, unit: str | None) -> None:
    """Refuse a schema whose cost cannot be added to that of the fit."""
    if cost.relation != relation:
        raise ValueError(
            f"the schema was estimated under {cost.relation!r}; its guarantee and the model's add "
            f"up only under the same relation. Pass relation='{cost.relation}'."
        )
    if cost.unit != unit:
        drafted = "rows" if cost.unit is None else f"people by {cost.unit!r}"
        raise ValueError(
            f"the schema was estimated for {drafted}; its guarantee and the model's add up only "
            "for the same unit. Draft the schema again with the unit of the fit (unit=)."
        )


def _take_from(schema: Schema, estimator: Any) -> None:
    """Set what the schema states: columns with curves, private bounds, and the norm of a row.

    The norm is taken for solvers that need a bound on it, and for steps that do before any `Radius`
    has found one.
    """
    estimator.columns = schema.numeric
    steps = check_steps(estimator.preparation, 1.0)  # that norms have a bound is checked later
    if schema.unbounded:
        steps = (Bounds(columns=schema.unbounded, whole=schema.whole), *steps)
    estimator.preparation = steps or None
    if estimator.data_norm is None:
        before = takewhile(lambda step: not isinstance(step, Radius), steps)
        if resolve(estimator.solver).needs_row_bound or any(step.bounded for step in before):
            estimator.data_norm = schema.max_norm


def _estimator(
    target: Target,
    loss: str | None,
    class_weight: Mapping[str, float] | str | None,
    **settings: Any,
) -> Any:
    """Make the estimator for a target and a loss; the schema states some of its settings."""
    for name in _OF_SCHEMA:
        if name in settings:
            raise TypeError(f"fit takes {name} from the schema; leave out {name}=.")
    kind = "classes" if target.is_classification else "numbers"
    known = CLASSIFIERS if target.is_classification else REGRESSORS
    chosen = next(iter(known)) if loss is None else loss
    if chosen not in (*CLASSIFIERS, *REGRESSORS):
        names = ", ".join(dict.fromkeys((*CLASSIFIERS, *REGRESSORS)))
        raise ValueError(f"unknown loss {loss!r}. Known: {names}.")
    if chosen not in known:
        raise ValueError(
            f"loss={loss!r} is not for the target {target.column!r}, which has {kind}. Use one of "
            f"{', '.join(map(repr, known))}."
        )
    if "quantile" in settings and chosen != "quantile":
        raise ValueError("quantile= is for loss='quantile'.")
    if target.is_classification:
        settings["classes"] = list(range(len(target.labels)))
        if isinstance(class_weight, Mapping):
            class_weight = _by_code(class_weight, target.labels)
        settings["class_weight"] = class_weight
    elif class_weight is not None:
        raise ValueError("class_weight= is for targets with classes.")
    else:
        settings["target_bounds"] = (target.low, target.high)
    return known[chosen](**settings)


def _by_code(weights: Mapping[Any, float], labels: tuple[str, ...]) -> dict[Any, float]:
    """Return the weights of classes by their codes."""
    unknown = [label for label in weights if label not in labels]
    if unknown:
        raise ValueError(
            f"class_weight must have weights of the labels {', '.join(map(repr, labels))}; got "
            f"{', '.join(map(repr, unknown))}."
        )
    return {labels.index(label): weight for label, weight in weights.items()}
