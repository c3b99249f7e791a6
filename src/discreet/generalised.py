"""`discreet.glm`: a generalised linear model from a formula, with intervals, as in statsmodels.

It is `discreet.fit` with names that statisticians know: a formula says what the model is, a family
which estimator fits it, and the result is the fitted estimator, with intervals.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from discreet import fitting
from discreet.column_kinds import by_name, check_columns
from discreet.errors import NotSupported
from discreet.formula import Formula
from discreet.ledger import Dataset
from discreet.tables import Ignored, Schema
from discreet.tables.columns import nearest
from discreet.tables.draft import layout
from discreet.tables.schema import as_schema

__all__ = ["FAMILIES", "glm"]

FAMILIES: dict[str, tuple[str, str]] = {
    "gaussian": ("squared", "identity"),
    "binomial": ("logistic", "logit"),
    "poisson": ("poisson", "log"),
    "gamma": ("gamma", "log"),
    "ordinal": ("ordinal", "logit"),
    "huber": ("huber", "identity"),
    "quantile": ("quantile", "identity"),
}
"""The loss of `discreet.fit` and the link of each family."""


def glm(
    formula: str,
    data: Any,
    *,
    family: str = "gaussian",
    link: str | None = None,
    epsilon: float,
    delta: float = 1e-6,
    relation: str = "add_remove",
    unit: str | None = None,
    columns: Mapping[int | str, Any] | Sequence[int | str] | None = None,
    schema: Schema | str | os.PathLike[str] | None = None,
    classes: Sequence[Any] | None = None,
    target_bounds: tuple[float, float] | None = None,
    weight: str | None = None,
    ledger: Dataset | None = None,
    **settings: Any,
) -> Any:
    """Fit a generalised linear model by a formula; the result has intervals.

    Levels, bounds and knots come from declarations or are paid for (`discreet.discover`), and never
    from the rows. Wrong names and missing declarations are errors before a row is read.

    Parameters
    ----------
    formula : str
        The target and the terms, as in statsmodels and R: ``"y ~ age * sex + bs(bmi, df=5) +
        C(ward, ref='A') + log(income) + I(age**2) + offset(log(days))"``. ``0 +`` leaves the
        constant out, and a dot stands for all other columns.
    data : path, list of paths, or table
        As in `discreet.fit`: pandas, polars, Arrow, or files.
    family : {"gaussian", "binomial", "poisson", "gamma", "ordinal", "huber", "quantile"}
        Distribution of the target, or loss. Links are the identity for numbers, the logit for
        classes, and the logarithm for counts and amounts.
    link : str, optional
        The link of the family, as a check; others are refused.
    epsilon, delta, relation
        Privacy budget of the fit.
    unit : str, optional
        Column with the id of the person that a row belongs to: people are then protected with all
        of their rows, and errors are robust to dependence within people.
    columns, schema
        What is public about columns: bounds, levels, or `discreet.discover`. Of columns that the
        formula does not name nothing has to be known.
    classes : sequence, optional
        Labels of the target; for "ordinal" from the lowest class to the highest.
    target_bounds : (float, float), optional
        Public bounds of a target of numbers; with an offset, of the target over ``exp(offset)`` for
        counts and amounts.
    weight : str, optional
        Column with the weight of each row; with ``weight_bound`` weights are private.
    ledger : Dataset, optional
        Data set of a ledger that is charged.
    **settings
        Other settings of the estimator: ``cov_type``, ``weight_bound``, ``rows_per_unit``,
        ``quantile``, ``threshold``, ``random_state``, ….

    Returns
    -------
    estimator
        A fitted `LinearRegression`, `LogisticRegression`, `PoissonRegressor`, `GammaRegressor`,
        `OrdinalClassifier`, `HuberRegressor` or `QuantileRegressor` with ``inference=True``.

    Notes
    -----
    *Privacy.* As in `discreet.fit`. The formula is public.

    Examples
    --------
    >>> import discreet
    >>> visits = discreet.datasets.load_visits()
    >>> model = discreet.glm(
    ...     "readmitted ~ age + C(ward, ref='general') + age:smoker",
    ...     visits,
    ...     family="binomial",
    ...     unit="patient",
    ...     epsilon=3.0,
    ...     columns={"age": (18, 100)},
    ... )
    >>> [name for name in model.params.index if name.startswith("age")]
    ['age', 'age:smoker']
    """
    name = family.lower() if isinstance(family, str) else family
    if name not in FAMILIES:
        raise ValueError(f"unknown family {family!r}; {nearest(str(family), FAMILIES)}")
    loss, known = FAMILIES[name]
    if link is not None and link != known:
        raise NotSupported(
            f"family={family!r} has the link {known!r} here; got link={link!r}. Leave it out."
        )
    if settings.pop("inference", True) is not True:
        raise NotSupported("glm fits models with intervals. Use discreet.fit for predictions.")
    declared = None if schema is None else as_schema(schema)
    names = _names(data, declared)
    available = [each for each in names if each not in _aside(formula, unit, weight)]
    parsed = Formula.of(formula, available)
    if parsed.response is None:
        raise ValueError(f"formula={formula!r} names no target: write 'target ~ {formula}'.")
    used = {*parsed.sources(names), parsed.response, unit, weight}
    if parsed.response not in names:
        raise ValueError(
            f"the formula names the target {parsed.response!r}, which the table does not have; "
            f"{nearest(parsed.response, names)}"
        )
    given: Any = columns
    if declared is None:
        kinds = by_name(check_columns(columns), names)
        given = kinds | {each: Ignored("not in the formula") for each in names if each not in used}
    else:
        declared = replace(
            declared,
            columns={
                each: column if each in used else Ignored("not in the formula")
                for each, column in declared.columns.items()
            },
        )
    right = parsed.text.partition("~")[2].strip()
    if "." in right.split():
        right = " + ".join(":".join(f.text for f in term) for term in parsed.terms)
    fitted = fitting.fit(
        parsed.response,
        data,
        epsilon=epsilon,
        delta=delta,
        relation=relation,
        schema=declared,
        unit=unit,
        columns=given,
        classes=classes,
        target_bounds=target_bounds,
        weight=weight,
        ledger=ledger,
        loss=loss,
        formula=right,
        fit_intercept=parsed.intercept,
        inference=True,
        **settings,
    )
    return fitted.estimator


def _names(data: Any, schema: Schema | None) -> list[str]:
    """Return the names of the columns of a table; no row is read."""
    if schema is not None:
        return list(schema.file_names)
    return [str(name) for name in layout(data).names]


def _aside(formula: str, unit: str | None, weight: str | None) -> set[str | None]:
    """Return the columns that a dot in a formula does not stand for."""
    return {str(formula).partition("~")[0].strip(), unit, weight}
