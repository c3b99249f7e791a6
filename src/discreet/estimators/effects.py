"""Effects of single columns in a fitted model, with the noise that the solver is known to have.

The effect of a column is its part of the score: a curve for a column with splines, a line for a
number, one value per category for one-hot columns. Effects are shown around their mean, since only
differences within a column matter. All of it is computed from the released model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from discreet.errors import NotSupported
from discreet.preparation.features import Splines
from discreet.preparation.pipeline import unclipped_map
from discreet.validate import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from discreet.estimators.base import PrivateLinearModel

POINTS = 101
"""Points of a curve."""

BAND = 1.96
"""Standard deviations of the noise on either side of an effect: 95 % of the noise."""

MOST_LABELS = 20
"""Categories of one panel that are labelled."""

Units = Mapping[str, Callable[[FloatArray], FloatArray]]
"""By the name of a column, its own units from the numbers in X."""


@dataclass(frozen=True, eq=False)
class Effect:
    """Effect of one column on the score, around its mean.

    Attributes
    ----------
    name : str
        Name of the column.
    at : ndarray or tuple of str
        Numbers in units of X, or categories.
    values : ndarray of shape (n_models, n_points)
        The effect, one row per linear model.
    deviation : ndarray of shape (n_points,), optional
        Standard deviation of the noise in it; None if the solver does not state its noise.
    """

    name: str
    at: FloatArray | tuple[str, ...]
    values: FloatArray
    deviation: FloatArray | None


def effects(model: PrivateLinearModel, names: Sequence[str] | None = None) -> tuple[Effect, ...]:
    """Return the effects of the columns, in the order of their features.

    ``names`` are those of the columns of X. Columns called ``column=category`` are categories of
    one column.
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
    if names is None:
        names = getattr(model, "feature_names_in_", None)
    wide = int(model.n_features_in_)
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
    basis = np.zeros((POINTS, model.features_.width(int(model.n_features_in_))))
    alone = Splines([0], [at[0]], [at[-1]], [splines.pieces[j]], [splines.degrees[j]])
    alone.fill(at[:, None], first, basis)
    return _effect(model, columns[column], _raw(model, column, at), basis)


def _of_group(
    model: PrivateLinearModel, members: Sequence[tuple[int, int]], columns: Sequence[str]
) -> Effect:
    """Return the effect of one-hot columns, or of a number from 0 to 1 or between its bounds.

    ``members`` are pairs of a feature and its column. Of categories, the mark of missing numbers
    is compared with 0.
    """
    wide = model.features_.width(int(model.n_features_in_))
    name, mark, _ = columns[members[0][1]].partition("=")
    if mark:
        categories = tuple(columns[column].partition("=")[2] for _, column in members)
        basis = np.zeros((len(members), wide))
        basis[range(len(members)), [feature for feature, _ in members]] = 1.0
        if len(members) == 1:
            categories, basis = ("(given)", *categories), np.vstack([np.zeros(wide), basis])
        return _effect(model, name, categories, basis)
    feature, column = members[0]
    at = np.linspace(0.0, 1.0, POINTS)
    basis = np.zeros((POINTS, wide))
    basis[:, feature] = at
    return _effect(model, name, _raw(model, column, at), basis)


def _raw(model: PrivateLinearModel, column: int, values: FloatArray) -> FloatArray:
    """Return numbers in units of X from those after privately chosen bounds."""
    bounds = model.features_.bounds
    if bounds is None or column not in bounds.columns:
        return values
    j = bounds.columns.index(column)
    return bounds.low[j] + values * (bounds.high[j] - bounds.low[j])


def _effect(
    model: PrivateLinearModel, name: str, at: FloatArray | tuple[str, ...], basis: FloatArray
) -> Effect:
    """Return the effect of features given at some points, around its mean, and its noise.

    Weights w of prepared rows are carried to Lᵀw. With independent noise of standard deviation s
    in each entry of w, the noise in c·Lᵀw has the deviation s·‖L·c‖.
    """
    centred = basis - basis.mean(axis=0)
    deviation = None
    if model.deviation_ is not None:
        prepared = centred
        if (levels := model.prepared_coef_.shape[1] - basis.shape[1]) > 0:  # not columns of X
            made = model.features_.expansion
            first = int(model.n_features_in_) - (0 if made is None else len(made.columns))
            prepared = np.insert(centred, [first] * levels, 0.0, axis=1)
        linear = unclipped_map(model.preparation_, prepared.shape[1]).linear
        moved = prepared * linear if linear.ndim == 1 else prepared @ linear.T
        deviation = model.deviation_ * np.linalg.norm(moved, axis=1)
    return Effect(name, at, np.atleast_2d(model.coef_) @ centred.T, deviation)


def plot_effects(
    model: PrivateLinearModel, names: Sequence[str] | None = None, units: Units | None = None
) -> Figure:
    """Draw the effects of all columns, one panel each, with a band of 95 % of the noise.

    ``units`` has functions that bring numbers in X to a column's own units, by its name.
    """
    from matplotlib.figure import Figure

    found = effects(model, names)
    across = min(4, len(found))
    down = math.ceil(len(found) / across)
    figure = Figure(figsize=(3.4 * across, 2.6 * down + 0.6), layout="constrained")
    panels = np.atleast_1d(figure.subplots(down, across, squeeze=False)).ravel()
    labels = getattr(model, "classes_", ())
    shown = [str(label) for label in labels] if len(labels) > 2 else []
    for panel, effect in zip(panels, found, strict=False):
        _draw(panel, effect, (units or {}).get(effect.name), shown)
    for panel in panels[len(found) :]:
        panel.set_axis_off()
    if shown:
        panels[0].legend(fontsize=7)
    noise = (
        "bands: 95 % of the noise"
        if model.deviation_ is not None
        else f"the noise of solver {model.solver_!r} is not stated"
    )
    figure.suptitle(
        f"Effects on the score at ε = {model.guarantee_.epsilon:g} ({noise})", fontsize=10
    )
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
    band = None if effect.deviation is None else BAND * effect.deviation
    if isinstance(effect.at, tuple):
        places = np.arange(len(effect.at))
        for k, values in enumerate(effect.values):
            label = labels[k] if labels else None
            panel.errorbar(places, values, yerr=band, fmt="o", ms=3, lw=1, label=label)
        some = places[:: math.ceil(len(places) / MOST_LABELS)]
        short = [effect.at[k] if len(effect.at[k]) <= 14 else f"{effect.at[k][:13]}…" for k in some]
        panel.set_xticks(some, short, rotation=60, ha="right", fontsize=6)
        return
    at = effect.at if units is None else units(effect.at)
    for k, values in enumerate(effect.values):
        (line,) = panel.plot(at, values, lw=1.5, label=labels[k] if labels else None)
        if band is not None:
            panel.fill_between(at, values - band, values + band, color=line.get_color(), alpha=0.2)
