"""Inference about a fitted model: its table of coefficients, and intervals of its predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from discreet.errors import NotSupported
from discreet.estimators.effects import column_names
from discreet.inference import Coefficients, Intervals, Summary, score_intervals
from discreet.inference.summary import forest_plot
from discreet.statement import neighbours
from discreet.validate import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from discreet.estimators.base import PrivateLinearModel

__all__ = ["conf_int", "cov_params", "intervals", "plot", "standard_errors", "summary"]

NOT_MEASURED = (
    "this fit released no Hessian of the model, and its coefficients are clipped and shrunk on "
    "purpose: fit with inference=True, which pays for intervals with a part of the budget"
)
TOO_LITTLE = (
    "the budget is too small for intervals at this number of rows and columns, so nothing was "
    "spent on them: use more rows, fewer columns or a larger epsilon"
)


def _reason(model: PrivateLinearModel) -> str:
    """Return why there are no intervals at all; empty if there are some."""
    if model.covariances_:
        return ""
    return TOO_LITTLE if model.inference else NOT_MEASURED


def _models(model: Any, names: Sequence[str] | None = None) -> tuple[Coefficients, ...]:
    """Return the coefficients of each model with their errors, if their columns have some."""
    check_is_fitted(model, "coef_")
    if model.features_.expansion is not None:
        raise NotSupported(
            "this model is linear in features that were made of the columns of X, so a column has "
            "no single coefficient. Fit with features='linear', or use plot_effects()."
        )
    columns = column_names(model, names)
    values = np.atleast_2d(model.coef_)
    if model.fit_intercept:
        columns.append("intercept")
        values = np.column_stack([values, np.atleast_1d(model.intercept_)])
    labels = [""] if len(values) == 1 else [str(label) for label in model.classes_]
    covariances = model.covariances_ or (None,) * len(values)
    return tuple(
        Coefficients.of(tuple(columns), *pair, _reason(model), label)
        for pair, label in zip(zip(values, covariances, strict=True), labels, strict=True)
    )


def summary(
    model: Any, level: float, *, odds_ratios: bool = False, names: Sequence[str] | None = None
) -> Summary:
    """Return the table of a model; see `PrivateLinearModel.summary`."""
    models = _models(model, names)
    if odds_ratios and not hasattr(model, "predict_proba"):
        raise NotSupported(
            "odds ratios are for logistic models. Pass odds_ratios=False for this one."
        )
    title = f"{type(model).__name__} under differential privacy"
    return Summary(title, models, _footer(model, models), level, odds_ratios)


def _footer(model: Any, models: Sequence[Coefficients]) -> tuple[str, ...]:
    """Return what the table rests on: sizes, promise, method and conditions."""
    guarantee = model.guarantee_
    promise = f"ε = {guarantee.epsilon:g}, δ = {guarantee.delta:g}"
    plural = "people" if guarantee.unit != "row" else "rows"
    lines = [
        f"{model.size_:,} {plural}; ({promise}) for {neighbours(guarantee)}; "
        f"solver {model.solver_}."
    ]
    if model.covariances_:
        lines.append(
            "Standard errors hold sampling error and privacy noise; 'noise' is the share of the "
            "latter in the variance ('bias', where shown, that of a bound on what columns too rare "
            "to be determined do to the others). No penalty, no clipping: in the score equations "
            "rows of large norm have less weight, which leaves the estimate where it is."
        )
        lines.append(
            "Conditions: independent "
            + ("people" if guarantee.unit != "row" else "rows")
            + ", a linear predictor that is right"
            + "".join(f", {need}" for need in model._errors_need)
            + ", and n large enough for normal approximations. See docs/inference.md."
        )
    reasons = dict.fromkeys(each.reason for each in models if each.reason)
    lines += [f"No interval (–): {reason}." for reason in reasons]
    if not guarantee.secure:
        lines.append("TEST MODE, NOT PRIVATE: a seed was fixed.")
    return tuple(lines)


def conf_int(model: Any, level: float) -> FloatArray:
    """Return intervals of the coefficients; see `PrivateLinearModel.conf_int`."""
    found = [np.column_stack(each.interval(level)) for each in _models(model)]
    return found[0] if len(found) == 1 else np.stack(found)


def standard_errors(model: Any) -> FloatArray:
    """Return standard errors of the coefficients, intercept first."""
    found = [each.errors for each in _models(model)]
    return found[0] if len(found) == 1 else np.stack(found)


def cov_params(model: Any) -> FloatArray:
    """Return covariances of the coefficients, intercept first."""
    models = _models(model)
    size = len(models[0].names)
    order = [size - 1, *range(size - 1)] if model.fit_intercept else list(range(size))
    if not model.covariances_:
        whole = [np.full((size, size), np.nan)] * len(models)
    else:
        whole = [each.total[np.ix_(order, order)] for each in model.covariances_]
    return whole[0] if len(whole) == 1 else np.stack(whole)


def plot(model: Any, level: float, names: Sequence[str] | None) -> Figure:
    """Draw the forest plot of a model."""
    return forest_plot(summary(model, level, names=names))


def intervals(model: Any, X: Any, scores: FloatArray, level: float, residual: float) -> Intervals:
    """Return intervals around the scores of new rows, which are checked already."""
    reason = _models(model)[0].reason
    if not model.covariances_ or np.asarray(model.covariances_[0].refused).all():
        raise NotSupported(f"predictions of this model have no intervals: {reason}.")
    rows = model.features_.transform(X)
    rows = rows.toarray() if sp.issparse(rows) else np.asarray(rows, dtype=np.float64)
    if model.fit_intercept:
        rows = np.column_stack([rows, np.ones(len(rows))])
    return score_intervals(model.covariances_[0], rows, scores, level, residual)
