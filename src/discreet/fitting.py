"""`discreet.fit`: from a table to a private model, in one call.

The function does what the command ``discreet fit`` does: it chooses the estimator by the target,
takes bounds, labels and the unit from the schema, reads the table in bounded memory, fits, and adds
the cost of estimating the schema to that of the fit. Without a schema, the types of the columns and
the caller's declarations are one; both are public, and no row is read for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Any

import numpy as np
import scipy.sparse as sp

from discreet import tables
from discreet.column_kinds import SHOWN, ColumnType, by_name, check_columns, columns_of, level_texts
from discreet.design import Design, EncodedRows
from discreet.errors import NotSupported, TableError
from discreet.estimators import (
    GammaRegressor,
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    OrdinalClassifier,
    PoissonRegressor,
    QuantileRegressor,
)
from discreet.evaluation.model import check_threshold
from discreet.ledger import Dataset
from discreet.preparation import Bounds, Radius, Step, check_steps
from discreet.sites import Federation
from discreet.solvers import resolve
from discreet.table_model import TableModel, with_unit
from discreet.tables import Boolean, Categorical, Column, Date, Ignored, Numeric, Schema, Target
from discreet.tables.columns import nearest
from discreet.tables.csv_files import TextPart
from discreet.tables.draft import Layout, layout
from discreet.tables.reader import gathered
from discreet.tables.schema import as_schema, as_target
from discreet.tables.source import Source
from discreet.validate import FloatArray, choice

__all__ = ["CLASSIFIERS", "REGRESSORS", "fit"]

CLASSIFIERS: dict[str, Callable[..., Any]] = {
    "logistic": LogisticRegression,
    "huber": partial(LinearSVC, loss="huber"),
    "hinge": partial(LinearSVC, loss="hinge"),
    "sigmoid": partial(LinearSVC, loss="sigmoid"),
    "ordinal": OrdinalClassifier,
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


_ARGUMENTS = {"weight": "sample_weight", "exposure": "exposure", "offset": "exposure"}
"""Arguments of an estimator's fit, by those of `fit` that name a column of numbers."""


def fit(
    target: str | None,
    table: Any,
    *,
    epsilon: float,
    delta: float = 1e-6,
    relation: str = "add_remove",
    schema: Schema | str | os.PathLike[str] | None = None,
    unit: str | None = None,
    columns: Mapping[int | str, Any] | Sequence[int | str] | None = None,
    classes: Sequence[Any] | None = None,
    target_bounds: tuple[float, float] | None = None,
    weight: str | None = None,
    exposure: str | None = None,
    offset: str | None = None,
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
    table : path, list of paths, table, or `discreet.sites.Federation`
        A file (CSV, Parquet, Feather), a folder or a pattern of such files, or a list of them; a
        pandas or polars table, or any other source that ``Schema.open`` takes. It may be larger
        than memory.
    epsilon, delta, relation
        Privacy budget of the fit. Estimating the schema from the same rows, if it was, comes on
        top: `TableModel.spent` is the total.
    schema : Schema or path, optional
        Public knowledge about the columns: bounds, categories, labels.
        `discreet.tables.draft_private` estimates a schema within a budget, `discreet.tables.draft`
        writes one to fill in. By default the types of the columns and the declarations below.
    unit : str, optional
        Column with the id of the person (or other unit) that a row belongs to: people are then
        protected with all of their rows. By default the schema's unit.
    columns : mapping, optional
        Without a schema: what is public about columns, as in `LogisticRegression`. Texts need an
        entry, and so does every column of a text file, which has no types.
    classes : sequence, optional
        Without a schema: the labels of the target. Booleans and the levels of a category are a
        declaration of them; whole numbers are taken to be 0 and 1 unless there are
        ``target_bounds`` or a loss of numbers.
    target_bounds : (float, float), optional
        Without a schema: public bounds of a numeric target. Without bounds no target is clipped,
        and the fit warns.
    weight : str, optional
        Column with the weight of each row, as ``sample_weight`` of the estimator; it is no feature.
        Set ``weight_bound`` if weights are private.
    exposure, offset : str, optional
        Column with the exposure of each row, such as days at risk, or with its logarithm; it is no
        feature. For counts and amounts (``loss`` "poisson" or "gamma"), whose ``target_bounds`` are
        then those of target over exposure, and whose predictions are for an exposure of 1. Counts
        need ``exposure_bound``, a public number.
    ledger : Dataset, optional
        Data set of a ledger that is charged.
    loss : str, optional
        For classes "logistic" (the default), "huber", "hinge", "sigmoid" or "ordinal" (classes in
        the order in which they are declared); for numbers "squared" (the default), "huber",
        "poisson", "gamma" or "quantile".
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
        ``features``, ``formula``, ``inference``, ``rows_per_unit``, ``quantile``,
        ``random_state``, ….

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

    Without a schema, what the types of the columns do not tell is declared in the call:

    >>> model = discreet.fit(
    ...     "readmitted",
    ...     visits,
    ...     epsilon=1.0,
    ...     classes=["no", "yes"],
    ...     columns={"age": (0, 100), "ward": ["A", "B"]},
    ... )
    >>> model.predict({"age": [25, 75], "ward": ["A", "B"]}).tolist()
    ['no', 'yes']
    """
    if engine is not None:
        choice("engine", engine, ("dask",))
    stated = _Stated(columns, classes, target_bounds, loss)
    aside = _named(weight=weight, exposure=exposure, offset=offset)
    if "groups" in settings:
        raise TypeError("fit takes ids from the table: pass unit='COLUMN', and leave out groups=.")
    if target is not None and not isinstance(target, str):
        raise TypeError(
            "target must be the name of the column to predict: fit('readmitted', table, …); got "
            f"{type(target).__name__}."
        )
    if schema is not None:
        found = _by_schema(target, as_schema(schema), unit, stated)
    else:
        found = _by_types(target, table, unit, stated, aside)
    elsewhere = engine is not None or isinstance(table, Federation)
    found = replace(found, schema=_adapted(found.schema, aside, elsewhere=elsewhere))
    declared = replace(found.schema, extra="ignore") if ignore_extra else found.schema
    own = declared.target
    assert own is not None  # a schema without one was refused
    declared.check_cost(relation, declared.unit)
    if settings.get("inference") is True and settings.get("features", "auto") == "auto":
        settings["features"] = "linear"  # a curve has no coefficient
    estimator = _estimator(
        own,
        found.labels,
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
    _check_exposure(aside, estimator, own)
    if estimator.formula is not None:  # wrong columns are an error before the table is read
        Design(declared).with_formula(estimator.check_formula())
    start = time.perf_counter()
    shown = None if progress is None else partial(progress, "reading")
    options = {"memory": memory, "folder": folder, "progress": shown}
    found = replace(found, schema=_as_read(declared, estimator, {*aside} - {"weight"}))
    if aside:
        table, numbers = _asides(table, found, aside, engine)
        found = replace(found, source=None)
    X, y, groups = _read(table, found, engine, options)
    begun = time.perf_counter()
    estimator.fit(X, y, groups=groups, **(numbers if aside else {}))
    estimator.progress = None
    if Design(declared).discovered:
        declared = replace(declared, columns=estimator.design_.schema.columns)
    if own.is_classification:  # it was fitted to codes, which need far less memory
        estimator.rename_classes(found.labels)
    return TableModel(estimator, declared, threshold, begun - start, time.perf_counter() - begun)


def _check_exposure(aside: Mapping[str, str], estimator: Any, target: Target) -> None:
    """Refuse an exposure of models that have none, and two of them."""
    keywords = [keyword for keyword in aside if keyword != "weight"]
    if not keywords:
        return
    [keyword, *more] = keywords
    if more:
        raise ValueError("exposure and offset were given: an offset is the logarithm of one.")
    if not isinstance(estimator, PoissonRegressor | GammaRegressor):
        kind = type(estimator).__name__
        raise ValueError(
            f"{keyword}={aside[keyword]!r} is for counts and amounts, loss='poisson' or 'gamma'; "
            f"the target {target.column!r} gets a {kind}, which has no exposure."
        )
    formula = estimator.check_formula()
    if formula is not None and formula.offsets:
        raise ValueError(f"the formula has an offset, and fit got {keyword} as well. Give one.")


def _named(**columns: str | None) -> dict[str, str]:
    """Return the columns that are named, by keyword."""
    return {keyword: name for keyword, name in columns.items() if name is not None}


def _as_read(schema: Schema, estimator: Any, exposures: set[str]) -> Schema:
    """Return the schema that a table is read by; ``exposures`` names exposure or offset, if given.

    With one or an offset, bounds of counts and amounts are those of the target over exposure, to
    which the estimator clips.
    """
    target = schema.target
    over = bool(exposures)
    if isinstance(estimator, PoissonRegressor | GammaRegressor):
        formula = estimator.check_formula()
        over = over or (formula is not None and bool(formula.offsets))
    if target is None or not over:
        return schema
    return replace(schema, target=Target(target.column, bounded=False))


def _adapted(schema: Schema, aside: Mapping[str, str], *, elsewhere: bool) -> Schema:
    """Return a schema for a fit with columns ``aside``, or on rows elsewhere."""
    for keyword, name in aside.items():
        schema = _set_aside(schema, keyword, name)
    return _marked(schema) if elsewhere and schema.spent is not None else schema


def _marked(schema: Schema) -> Schema:
    """Return a drafted schema for rows elsewhere, whose gaps nobody puts in the middle of a column.

    Missing numbers, dates and truth values get an effect of their own: a refusal would tell that
    there is one, where the draft has promised to accept any cell.
    """
    columns = dict(schema.columns)
    for name, column in schema.columns.items():
        if isinstance(column, Boolean | Date | Numeric) and column.gaps == "average":
            columns[name] = replace(column, missing=True)
    return replace(schema, columns=columns)


def _set_aside(schema: Schema, keyword: str, name: str) -> Schema:
    """Return a schema in which the column of weights, or of an exposure, is ignored."""
    assert schema.target is not None
    _check_aside(keyword, name, schema.target.column, schema.unit)
    if not isinstance(schema.columns.get(name, Ignored()), Ignored):
        raise ValueError(
            f"{keyword}: {name!r} is declared as a feature. Leave it out of columns, or declare it "
            "as Ignored()."
        )
    return replace(schema, columns={**schema.columns, name: Ignored(f"{keyword} of the rows")})


def _check_aside(keyword: str, name: str, target: str, unit: str | None) -> None:
    if name in (target, unit):
        raise ValueError(f"{keyword}: {name!r} is the target or the unit; name another column.")


def _asides(
    table: Any, found: _Declared, aside: Mapping[str, str], engine: str | None
) -> tuple[Any, dict[str, FloatArray]]:
    """Return the cells that all the rest is to be read from, and numbers as the estimator's fit.

    All of it comes from one pass: another one could have the records in another order.
    """
    if engine is not None or isinstance(table, Federation):
        [keyword, *_] = aside
        raise NotSupported(
            f"{keyword} is read from a table of this process. Leave it out, or fit one table here."
        )
    schema = found.schema
    read = table if found.source is None else found.source
    numbers: dict[str, Column] = {name: Numeric(shape="linear") for name in aside.values()}
    cells = gathered(read, replace(schema, columns={**schema.columns, **numbers}))
    made: dict[str, FloatArray] = {}
    for keyword, name in aside.items():
        others: dict[str, Column] = {other: Ignored() for other in schema.columns}
        own = replace(schema, columns=others | {name: numbers[name]})
        read_alone: Any = tables.read(cells, own, dtype="float64")[0]
        sparse: bool = sp.issparse(read_alone)
        column = np.asarray(read_alone.toarray() if sparse else read_alone)[:, 0]
        made[_ARGUMENTS[keyword]] = np.exp(column) if keyword == "offset" else column
    return cells, made


def _read(
    table: Any, found: _Declared, engine: str | None, options: dict[str, Any]
) -> tuple[Any, Any, Any]:
    """Read a table: rows that its schema has encoded, targets and units."""
    schema = found.schema
    read = table if found.source is None else found.source
    discovered = list(Design(schema).discovered)
    if discovered and engine is not None:
        raise NotSupported(
            f"the levels of {discovered[0]!r} are found in a table of this process, and the "
            f"engine {engine!r} reads on workers. Leave out engine, or list the levels."
        )
    if isinstance(table, Federation):
        if discovered:
            raise NotSupported(
                f"the levels of {discovered[0]!r} are found in one table, and these rows are at "
                "several sites. List the levels in the schema."
            )
        X, y, groups = table.open(schema)
        return EncodedRows(X, schema), y, groups
    try:
        if discovered:
            return _unencoded(read, schema, discovered[0])
        if engine is not None:
            from discreet.engines import dask  # an optional dependency

            made: Any = dask.open(table, schema, labels=False)
        else:
            made = tables.read(read, schema, **options)
    except TableError as problem:
        if not found.hint:
            raise
        raise TableError(f"{problem} {found.hint}") from None
    X, y, groups = made
    return EncodedRows(X, schema, is_own=True), y, groups


def _unencoded(source: Any, schema: Schema, name: str) -> tuple[Any, Any, Any]:
    """Read a table of which the column ``name`` cannot be encoded yet: cells, targets and units."""
    cells = gathered(source, schema)
    others = {each: Ignored() for each in schema.columns if each != name}
    # a kind that reads any cell, as only targets and units are used
    aside = replace(schema, columns={**others, name: Categorical(("?",), unseen="average")})
    _, y, groups = tables.read(cells, aside)
    own = [each for each in cells.column_names if each in schema.columns]
    return cells.select(own), y, groups


@dataclass(frozen=True)
class _Declared:
    """The schema of a fit, with its target; labels of the classes in the order of their codes.

    ``source`` is the table as it was opened for its types. ``hint`` ends the refusal of a table
    that does not match what was assumed of the target.
    """

    schema: Schema
    labels: Sequence[Any] = ()
    source: Source | None = None
    hint: str = ""


@dataclass(frozen=True)
class _Stated:
    """A caller's declarations in a fit without a schema."""

    columns: Any
    classes: Sequence[Any] | None
    target_bounds: tuple[float, float] | None
    loss: str | None


def _by_schema(target: str | None, schema: Schema, unit: str | None, stated: _Stated) -> _Declared:
    """Return the schema with the target and unit of the fit."""
    for name in ("columns", "classes", "target_bounds"):
        if getattr(stated, name) is not None:
            raise TypeError(f"fit takes {name} from the schema; leave out {name}=.")
    if target is not None:
        schema = schema.with_target(target)
    if schema.target is None:
        raise ValueError("the schema has no target: name the column to predict, fit('COLUMN', …).")
    schema = schema if unit is None else with_unit(schema, unit)
    assert schema.target is not None
    return _Declared(schema, schema.target.labels)


def _by_types(
    target: str | None, table: Any, unit: str | None, stated: _Stated, aside: Mapping[str, str]
) -> _Declared:
    """Return the schema that the types of a table's columns and the declarations make.

    Columns ``aside`` are no features unless they are declared. No record is read. The columns of a
    text file have no types: all of them must be declared.
    """
    if target is None:
        raise ValueError("name the column to predict, fit('COLUMN', …), or pass a schema with one.")
    given = check_columns(stated.columns)
    found = layout(table)
    for keyword, name in (("target", target), ("unit", unit), *aside.items()):
        if name is not None and name not in found.names:
            raise ValueError(f"{keyword}: {_absent(name, found)}")
    if unit == target:
        raise ValueError(f"unit: {unit!r} is the target; name another column.")
    for keyword, name in aside.items():
        _check_aside(keyword, name, target, unit)
    declared: dict[Any, Column] = {name: Ignored() for name in aside.values()}
    declared |= by_name(given, found.names)
    first = found.source.parts[0]
    fields = None if isinstance(first, TextPart) else first.fields()
    typed = {
        name: ColumnType.of(table, name, None if fields is None else fields.field(name).type)
        for name in found.names
    }
    own, labels, hint = _target(typed.pop(target), declared.pop(target, None), stated)
    if unit is not None:
        del typed[unit]
        declared.pop(unit, None)
    undeclared = [name for name in typed if name not in declared]
    if fields is None and undeclared:
        raise ValueError(_advice_on_text(undeclared))
    schema = Schema(columns_of(typed.values(), declared), own, file=found.file, unit=unit)
    return _Declared(schema, labels, found.source, hint)


def _absent(name: str, found: Layout) -> str:
    """Return the end of a message about a column that a table does not have."""
    if found.names_in_first_line:
        return (
            f"the first line of the file has no column {name!r}. If that line is a record, write a "
            "schema with header = false and the names of the columns in [file]."
        )
    return f"there is no column {name!r}; {nearest(name, map(str, found.names))}"


def _advice_on_text(names: Sequence[str]) -> str:
    """Return what to add for the columns of a text file."""
    lines = ", ".join(f"{name!r}: …" for name in names[:SHOWN])
    more = f" and {len(names) - SHOWN:,} more columns" if len(names) > SHOWN else ""
    return (
        "the columns of a text file have no types, so each has to be declared: "
        f"columns={{{lines}}}{more}, "
        'with (low, high) or None for numbers, ["…", "…"] for texts, and Ignored() of '
        "discreet.tables for those that are not used; or pass a schema, which "
        "discreet.tables.draft(table) writes to be filled in."
    )


def _target(
    typed: ColumnType, declared: Column | None, stated: _Stated
) -> tuple[Target, Sequence[Any], str]:
    """Return the target, the labels of its classes, and the hint for cells that do not match."""
    name = str(typed.name)
    ways = (declared, stated.classes, stated.target_bounds)
    if sum(way is not None for way in ways) > 1:
        raise ValueError(
            f"the target {name!r} is declared twice: give one of classes, target_bounds and its "
            "entry in columns."
        )
    if stated.target_bounds is not None:
        try:
            low, high = stated.target_bounds
        except (TypeError, ValueError):
            raise ValueError(
                f"target_bounds must be two numbers (low, high); got {stated.target_bounds!r}."
            ) from None
        return Target(name, low=low, high=high), (), ""
    if isinstance(declared, Numeric) and not declared.is_bounded:
        return Target(name, bounded=False), (), ""
    if declared is not None:
        target = as_target(name, declared)
        return target, target.labels, ""
    values = stated.classes if stated.classes is not None else typed.levels
    hint = ""
    if values is None and typed.held == "truth values":
        values = (False, True)
    elif values is None and typed.is_whole and stated.loss not in REGRESSORS:
        values = (0, 1)
        hint = (
            "A target of whole numbers is taken to be 0 or 1. Pass classes=[…] if it has other "
            "labels, or target_bounds=(low, high) if it is an amount or a count."
        )
    if values is not None:
        return *_classes(name, values), hint
    if typed.held == "numbers" and not typed.coded:
        return Target(name, bounded=False), (), ""
    kinds = "has no type, being in a text file" if typed.kind is None else f"holds {typed.held}"
    raise ValueError(
        f'the target {name!r} {kinds}: list its labels, classes=["…", "…"], or pass '
        "target_bounds=(low, high) if it is a number."
    )


def _classes(name: str, values: Sequence[Any]) -> tuple[Target, Sequence[Any]]:
    """Return a target of classes, and the labels in the order of their codes.

    Labels are the values as given, or as texts if these have another order.
    """
    texts = [text.strip() for text in level_texts(values)]
    target = Target(name, texts)
    by_text = dict(zip(texts, values, strict=True))
    labels = [by_text[text] for text in target.labels]
    if labels != np.unique(labels).tolist():
        return target, target.labels
    return target, labels


def _take_from(schema: Schema, estimator: Any) -> None:
    """Set what the schema states: private bounds, and the norm of a row.

    The default measures the units of columns without bounds itself. Other solvers, and steps that
    the caller chose, get such columns within bounds that a step before them finds. The norm is
    taken for solvers that need a bound on it, and for steps that do before any `Radius` has found
    one.
    """
    estimator.schema = schema
    steps = check_steps(estimator.preparation, 1.0)  # that norms have a bound is checked later
    default = isinstance(estimator.solver, str) and estimator.solver == "auto" and not steps
    if schema.unbounded and not default:
        if Design(schema).discovered:  # they are not yet at their places
            raise NotSupported(
                "levels that the fit finds need public bounds of all numbers, or the default: give "
                "(low, high) for each number in columns, or leave out solver and preparation."
            )
        steps = (Bounds(columns=schema.unbounded, whole=schema.whole, takes_gaps=True), *steps)
    estimator.preparation = steps or None
    if estimator.data_norm is None:
        before = takewhile(lambda step: not isinstance(step, Radius), steps)
        if resolve(estimator.solver).needs_row_bound or any(step.bounded for step in before):
            estimator.data_norm = schema.max_norm


def _estimator(
    target: Target,
    labels: Sequence[Any],
    loss: str | None,
    class_weight: Mapping[Any, float] | str | None,
    **settings: Any,
) -> Any:
    """Make the estimator for a target and a loss; classes are fitted by their codes."""
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
    if chosen == "ordinal":
        if class_weight is not None:
            raise ValueError("class_weight= is for classes without an order.")
        settings["classes"] = [target.labels.index(name) for name in target.texts]
    elif target.is_classification:
        settings["classes"] = list(range(len(labels)))
        if isinstance(class_weight, Mapping):
            class_weight = _by_code(class_weight, labels)
        settings["class_weight"] = class_weight
    elif class_weight is not None:
        raise ValueError("class_weight= is for targets with classes.")
    elif target.bounded:
        settings["target_bounds"] = (target.low, target.high)
    return known[chosen](**settings)


def _by_code(weights: Mapping[Any, float], labels: Sequence[Any]) -> dict[Any, float]:
    """Return the weights of classes by their codes."""
    unknown = [label for label in weights if label not in labels]
    if unknown:
        raise ValueError(
            f"class_weight must have weights of the labels {', '.join(map(repr, labels))}; got "
            f"{', '.join(map(repr, unknown))}."
        )
    return {labels.index(label): weight for label, weight in weights.items()}
