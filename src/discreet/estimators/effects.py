"""Coefficients and effects of columns in a fitted model: tables, intervals and figures.

The effect of a column is its part of the score: a curve for a column with splines, a line for a
number, one value per category for one-hot columns. Effects are shown around their mean, since only
differences within a column matter. All of it is computed from the released model.

A category or a part of a curve that no row has gets whatever weight the noise gives it. A default
fit releases noisy means of the features, which say where rows are. The mean of an effect is then
that over the rows, and a figure leaves out where rows are too few to be noticed.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from discreet.errors import NotSupported
from discreet.inference import Coefficients, Intervals, Summary, score_intervals
from discreet.inference.selection import selected as choose_coefficients
from discreet.objectives import Logistic
from discreet.preparation.features import Splines
from discreet.preparation.pipeline import unclipped_map
from discreet.preparation.steps import FittedCentre
from discreet.statement import neighbours
from discreet.validate import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from discreet.estimators.base import PrivateLinearModel
    from discreet.figures import Figure

POINTS = 101
"""Points of a curve."""

BAND = 1.96
"""Standard deviations of the noise on either side of an effect: 95 % of the noise."""

LEAST = 5.0
"""Standard deviations of the noise in it that a mean must exceed, to say that there are rows."""

MOST_LABELS = 20
"""Categories of one panel that are labelled."""

Units = Mapping[str, Callable[[FloatArray], FloatArray]]
"""By the name of a column, its own units from the numbers in X."""


@dataclass(frozen=True, eq=False)
class Effect:
    """Effect of one column on the score, around its mean: one row of values per linear model.

    ``at`` has numbers in units of X, or categories. ``deviation`` is the standard deviation of the
    noise at each point, None if the solver does not state its noise. ``expected`` is False where
    the released means show no rows, or too few: the effect means nothing there.
    """

    name: str
    at: FloatArray | tuple[str, ...]
    values: FloatArray
    deviation: FloatArray | None
    expected: NDArray[np.bool_]


def effects(model: PrivateLinearModel, names: Sequence[str] | None = None) -> tuple[Effect, ...]:
    """Return the effects of the columns, in the order of their features.

    ``names`` are those of the columns of X; ``column=category`` is a category of a column.
    """
    check_is_fitted(model, "coef_")
    map = model.features_
    if map.expansion is not None and not isinstance(map.expansion, Splines):
        raise NotSupported(
            'a model with features="kernel" has no effects of single columns. Use '
            'features="additive".'
        )
    columns = column_names(model, names)
    wide = len(columns)
    kept = range(wide) if map.expansion is None else map.expansion.kept(wide)
    groups: dict[str, list[tuple[int, int]]] = {}
    for feature, column in enumerate(kept):
        name, mark, _ = columns[column].partition("=")
        groups.setdefault(name + mark, []).append((feature, int(column)))
    found = [_of_group(model, members, columns) for members in groups.values()]
    if map.expansion is not None:
        first = wide - len(map.expansion.columns)
        for j, width in enumerate(map.expansion.widths):
            found.append(_of_curve(model, map.expansion, j, first, columns))
            first += width
    return tuple(found)


def column_names(model: Any, names: Sequence[str] | None) -> list[str]:
    """Return the given names of X's columns, those it was fitted with, or x0, x1 and so on."""
    if names is None and model.design_ is not None:
        names = model.design_.feature_names
    elif names is None:
        names = getattr(model, "feature_names_in_", None)
    wide = model.n_encoded_
    columns = [f"x{j}" for j in range(wide)] if names is None else [str(name) for name in names]
    if len(columns) != wide:
        raise ValueError(f"names must have one entry per column of X, {wide}; got {len(columns)}.")
    return columns


def _of_curve(
    model: PrivateLinearModel, splines: Splines, j: int, first: int, columns: Sequence[str]
) -> Effect:
    """Return the effect of a column with splines, whose features begin at ``first``."""
    column = splines.columns[j]
    at = np.linspace(splines.low[j], splines.high[j], POINTS)
    basis = np.zeros((POINTS, model.features_.width(model.n_encoded_)))
    low, high = at[:1], at[-1:]
    alone = Splines((0,), low, high, (splines.pieces[j],), (splines.degrees[j],))
    alone.fill(at[:, None], first, basis)
    return _effect(model, columns[column], _raw(model, column, at), basis)


def _of_group(
    model: PrivateLinearModel, members: Sequence[tuple[int, int]], columns: Sequence[str]
) -> Effect:
    """Return the effect of one-hot columns, or of a number from 0 to 1 or between its bounds.

    ``members`` are pairs of a feature and its column. A mark of missing numbers is compared with 0.
    """
    wide = model.features_.width(model.n_encoded_)
    name, mark, _ = columns[members[0][1]].partition("=")
    if mark:
        categories = tuple(columns[column].partition("=")[2] for _, column in members)
        basis = np.zeros((len(members), wide))
        basis[range(len(members)), [feature for feature, _ in members]] = 1.0
        if len(members) == 1:
            categories = ("(given)", *categories)
            basis = np.vstack([np.zeros(wide), basis])
        return _effect(model, name, categories, basis)
    feature, column = members[0]
    at = np.linspace(0.0, 1.0, POINTS)
    basis = np.zeros((POINTS, wide))
    basis[:, feature] = at
    return _effect(model, name, _raw(model, column, at), basis, line=True)


def _raw(model: PrivateLinearModel, column: int, values: FloatArray) -> FloatArray:
    """Return numbers in units of X from those after privately chosen bounds."""
    bounds = model.features_.bounds
    if bounds is None or column not in bounds.columns:
        return values
    j = bounds.columns.index(column)
    return np.asarray(bounds.low[j] + values * (bounds.high[j] - bounds.low[j]))


def released_means(model: PrivateLinearModel) -> FloatArray | None:
    """Return noisy means of the features, 0 where noise could have made them; None if unknown."""
    steps = model.preparation_
    first = next((k for k, step in enumerate(steps) if isinstance(step, FittedCentre)), None)
    if first is None:
        return None
    centre: Any = steps[first]
    before = unclipped_map(steps[:first], len(centre.mean))
    if not before.is_diagonal:
        return None
    clear = np.abs(centre.mean) > LEAST * centre.deviation
    means = np.where(clear, centre.mean, 0.0) / before.linear
    width = model.features_.width(model.n_encoded_)
    if (levels := len(means) - width) > 0:
        means = np.delete(means, range(first_level(model), first_level(model) + levels))
    return means


def first_level(model: Any) -> int:
    """Return the feature that the columns of levels begin at: after those of X that stay."""
    made = model.features_.expansion
    return int(model.n_encoded_) - (0 if made is None else len(made.columns))


def _effect(
    model: PrivateLinearModel,
    name: str,
    at: FloatArray | tuple[str, ...],
    basis: FloatArray,
    *,
    line: bool = False,
) -> Effect:
    """Return the effect of features given at some points, around its mean, and its noise.

    The features of categories and curves are shares of a row, so their means are shares of all
    rows. A point is expected if most of its share is in features that rows have. The effect of a
    ``line`` holds beyond the rows, too.

    Weights w of prepared rows are carried to Lᵀw. With independent noise of standard deviation s
    in each entry of w, the noise in c·Lᵀw has the deviation s·‖L·c‖.
    """
    means = None if line else released_means(model)
    own = np.zeros(basis.shape[1]) if means is None else np.where(basis.any(axis=0), means, 0.0)
    expected = np.ones(len(basis), dtype=bool)
    middle = basis.mean(axis=0)
    if own.any():
        shares = basis.sum(axis=1)
        expected = basis @ (own > 0.0) >= 0.5 * shares
        middle = own / own.sum() if shares.all() else own  # some rows have none of the features
    centred = basis - middle
    deviation = None
    if model.deviation_ is not None:
        prepared = centred
        if (levels := model.prepared_coef_.shape[1] - basis.shape[1]) > 0:  # not columns of X
            prepared = np.insert(centred, [first_level(model)] * levels, 0.0, axis=1)
        linear = unclipped_map(model.preparation_, prepared.shape[1]).linear
        moved = prepared * linear if linear.ndim == 1 else prepared @ linear.T
        deviation = model.deviation_ * np.linalg.norm(moved, axis=1)
    return Effect(name, at, np.atleast_2d(model.coef_) @ centred.T, deviation, expected)


def plot_effects(
    model: PrivateLinearModel, names: Sequence[str] | None = None, units: Units | None = None
) -> Figure:
    """Draw the effects of all columns, one panel each, with a band of 95 % of the noise.

    ``units`` has functions that bring numbers in X to a column's own units, by its name; a design
    has them.
    """
    from discreet.figures import Figure

    found = effects(model, names)
    if units is None and model.design_ is not None:
        units = model.design_.units
    across = min(4, len(found))
    down = math.ceil(len(found) / across)
    figure = Figure(figsize=(3.4 * across, 2.6 * down + 0.6), layout="constrained")
    panels = np.atleast_1d(figure.subplots(down, across, squeeze=False)).ravel()
    labels: Sequence[Any] = getattr(model, "classes_", ())
    shown = [str(label) for label in labels] if len(np.atleast_2d(model.coef_)) > 1 else []
    for panel, effect in zip(panels, found, strict=False):
        _draw(panel, effect, (units or {}).get(effect.name), shown)
    for panel in panels[len(found) :]:
        panel.set_axis_off()
    if shown:
        panels[0].legend(fontsize=7)
    noise = "bands: 95 % of the noise"
    if model.deviation_ is None:
        noise = f"the noise of solver {model.solver_!r} is not stated"
    if not all(effect.expected.all() for effect in found):
        noise += "; gray: too few rows to tell"
    towards = f" of class {labels[1]}" if len(labels) == 2 else ""
    title = f"Effects on the score{towards} at ε = {model.guarantee_.epsilon:g} ({noise})"
    figure.suptitle(title, fontsize=10)
    return figure


def _draw(
    panel: Axes,
    effect: Effect,
    units: Callable[[FloatArray], FloatArray] | None,
    labels: Sequence[str],
) -> None:
    panel.set_title(effect.name, fontsize=9)
    panel.axhline(0.0, color="0.7", lw=0.8)
    panel.tick_params(labelsize=7)
    panel.xaxis.get_offset_text().set_fontsize(7)
    band = np.zeros(len(effect.expected)) if effect.deviation is None else BAND * effect.deviation
    known = effect.expected
    names = labels if len(labels) == len(effect.values) else [None] * len(effect.values)
    low = float((effect.values - band)[:, known].min())
    high = float((effect.values + band)[:, known].max())
    margin = 0.05 * (high - low) or 1.0
    panel.set_ylim(low - margin, high + margin)
    if isinstance(effect.at, tuple):
        places = np.arange(len(effect.at))
        for values, label in zip(effect.values, names, strict=True):
            panel.errorbar(
                places[known], values[known], yerr=band[known], fmt="o", ms=3, lw=1, label=label
            )
        some = places if len(places) <= MOST_LABELS else places[known]
        some = some[:: math.ceil(len(some) / MOST_LABELS)]
        short = [effect.at[k] if len(effect.at[k]) <= 14 else f"{effect.at[k][:13]}…" for k in some]
        panel.set_xticks(some, short, rotation=60, ha="right", fontsize=6)
        panel.set_xlim(-0.5, len(places) - 0.5)
        for place in places[~known]:
            panel.axvspan(place - 0.5, place + 0.5, color="0.93", lw=0)
        return
    at = effect.at if units is None else units(effect.at)
    ends = np.flatnonzero(np.diff(np.concatenate([[True], known, [True]])))
    for first, after in ends.reshape(-1, 2):  # of runs without rows, up to the points beside them
        panel.axvspan(at[max(first - 1, 0)], at[min(after, len(at) - 1)], color="0.93", lw=0)
    for values, label in zip(effect.values, names, strict=True):
        shown = np.where(known, values, np.nan)
        (line,) = panel.plot(at, shown, lw=1.5, label=label)
        if effect.deviation is not None:
            colour = line.get_color()
            panel.fill_between(at, shown - band, shown + band, color=colour, alpha=0.2)
    panel.set_xlim(at[0], at[-1])


NOT_MEASURED = (
    "this fit released no Hessian of the model, and its coefficients are made for predictions: "
    "shrunk, or at small budgets up to twice too large. Fit with inference=True, which pays for "
    "intervals with a part of the budget"
)
TOO_LITTLE = (
    "the budget is too small for intervals at this number of rows and columns, so nothing was "
    "spent on them: use more rows, fewer columns or a larger epsilon"
)


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
    why = TOO_LITTLE if model.inference else NOT_MEASURED  # if there are no intervals at all
    return tuple(
        Coefficients.of(tuple(columns), *pair, "" if model.covariances_ else why, label)
        for pair, label in zip(zip(values, covariances, strict=True), labels, strict=True)
    )


def summary(
    model: Any, level: float, *, odds_ratios: bool = False, names: Sequence[str] | None = None
) -> Summary:
    """Return the table of a model; see `PrivateLinearModel.summary`."""
    models = _models(model, names)
    if odds_ratios and not isinstance(model._loss(), Logistic):
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
            "Standard errors include sampling error and privacy noise. 'noise' is the share of the "
            "noise in the variance; 'bias', where it is shown, is the share of a bound on the "
            "effect of columns that are too rare to be determined. There is no penalty, and "
            "gradients are not clipped: rows of large norm have less weight in the score "
            "equations, which does not bias the estimate of a correctly specified model."
        )
        lines.append(
            f"Conditions: independent {plural}, a correctly specified model"
            + "".join(f", {need}" for need in model._errors_need)
            + ", and n large enough for normal approximations. See docs/inference.md."
        )
    for text in model._clipped():
        means = " Coefficients and intervals are for clipped targets." if model.covariances_ else ""
        lines.append(f"{text[0].upper()}{text[1:]}.{means}")
    lines += [f"Not checked: {text}." for text in model._unchecked()]
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


def selected(model: Any, rule: str, level: float) -> Any:
    """Return a copy of a model without what is not selected; see `select_coefficients`."""
    models = _models(model)
    if not model.covariances_ or not np.isfinite([each.errors for each in models]).any():
        raise NotSupported(f"there are no standard errors to select by: {models[0].reason}.")
    values = np.column_stack([np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)])
    size = values.shape[1] if model.fit_intercept else values.shape[1] - 1
    copied = copy.copy(model)
    found = []
    for row, covariance in zip(values, model.covariances_, strict=True):
        settings: Any = {"intercept": model.fit_intercept}
        row[:size], left = choose_coefficients(row[:size], covariance, rule, level, **settings)
        found.append(left)
    copied.coef_ = values[:, :-1].reshape(model.coef_.shape)
    copied.intercept_ = values[:, -1] if np.ndim(model.intercept_) else float(values[0, -1])
    old = np.column_stack([model.prepared_coef_, model.prepared_intercept_])
    carried = unclipped_map(model.preparation_, old.shape[1] - 1).adjoint(np.eye(old.shape[1]))
    whole = old @ carried
    levels = old.shape[1] - values.shape[1]
    of_levels = range(first_level(model), first_level(model) + levels)
    whole[:, np.delete(np.arange(whole.shape[1]), of_levels)] = values
    prepared = np.linalg.solve(carried.T, whole.T).T
    copied.prepared_coef_ = prepared[:, :-1]
    copied.prepared_intercept_ = prepared[:, -1]
    if levels:
        copied.levels_ = model.levels_ + (copied.intercept_ - model.intercept_)
    copied.covariances_ = tuple(found)
    return copied


def intervals(model: Any, X: Any, scores: FloatArray, level: float, residual: float) -> Intervals:
    """Return intervals around the scores of new rows, which are checked already."""
    reason = _models(model)[0].reason
    if not model.covariances_ or np.asarray(model.covariances_[0].refused).all():
        raise NotSupported(f"predictions of this model have no intervals: {reason}.")
    made: Any = model.features_.transform(X)
    sparse: bool = sp.issparse(made)
    rows = made.toarray() if sparse else np.asarray(made, dtype=np.float64)
    if model.fit_intercept:
        rows = np.column_stack([rows, np.ones(len(rows))])
    return score_intervals(model.covariances_[0], rows, scores, level, residual)
