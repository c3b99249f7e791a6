"""Effects of columns in a fitted model, and their figure.

The effect of a column is its part of the score: a curve for a column with splines, a line for a
number, one value per level for categories. Effects are shown around their mean, since only
differences within a column matter. All of it is computed from the released model.

A level or a part of a curve that no row has gets whatever weight the noise gives it. A default fit
releases noisy means of the features, which say where rows are. The mean of an effect is then that
over the rows, and a figure leaves out where rows are too few to be noticed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr
from sklearn.utils.validation import check_is_fitted

from discreet.design import Design
from discreet.estimators.layout import ColumnFeatures, layout
from discreet.estimators.pair_figures import draw_pair, split_names
from discreet.inference.covariance import chosen
from discreet.preparation.features import Splines
from discreet.preparation.pipeline import unclipped_map
from discreet.preparation.steps import FittedCentre, FittedScale, Scale
from discreet.tables import Boolean, Date, Numeric, Ordinal
from discreet.tables.columns import MISSING, OTHER
from discreet.validate import FloatArray, display, integer

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

SMALL_SHARE = 0.5
"""Share of rows in a feature, over an even one, below which rows are too few, unless it exceeds
`LEAST` deviations. It is half way between no rows and an even share."""

HIDDEN = 8.0
"""Standard deviations of the noise below which noise hides an even share. From 8 on, no rows and an
even share are 4 deviations from half of it."""

MARKS = (MISSING, OTHER)
"""Levels that a table need not have."""

TINY = 1e-12
"""Share of rows in a feature whose noisy mean is not above 0, though it may have rows."""

MOST_PANELS = 30
"""Panels of a figure that are drawn unless others are asked for."""

MOST_LABELS = 20
"""Categories of one panel that are labelled."""

LONGEST_LABEL = 14
"""Characters of a level's name that are shown below a panel."""

DATES = 3
"""Days that are labelled below a panel of dates."""

WIDE = 2.5
"""Standard deviations on either side of its mean that a line without bounds is drawn to."""

Units = Mapping[str, Callable[[FloatArray], FloatArray] | str]
"""By the name of a column, another unit from the numbers in X, or the name of their unit."""


@dataclass(frozen=True, eq=False)
class Effect:
    """Effect of one column on the score, around its mean: one row of values per linear model.

    ``at`` has numbers in units of X, or categories. ``deviation`` is the standard deviation of the
    noise at each point, None if the solver does not state its noise; in a model with intervals it
    is the standard error, one row per model. ``expected`` is False where the released means show no
    rows, or too few: the effect means nothing there. ``shares`` are those of the rows at each
    point. ``marked`` says that the last point is for missing cells.
    """

    name: str
    at: FloatArray | tuple[str, ...]
    values: FloatArray
    deviation: FloatArray | None
    expected: NDArray[np.bool_]
    shares: FloatArray
    marked: bool = False

    @property
    def size(self) -> float:
        """Root mean square of the effect over the rows, the largest of all models."""
        weights = self.shares * self.expected
        total = float(weights.sum())
        if total <= 0.0:
            return 0.0
        around = self.values - (self.values @ weights / total)[:, None]
        return float(np.sqrt(np.max(np.square(around) @ weights / total)))

    @property
    def refused(self) -> NDArray[np.bool_]:
        """True where a model with intervals has none, by model and point."""
        if self.deviation is None:
            return np.zeros(self.values.shape, dtype=bool)
        return np.isnan(np.broadcast_to(self.deviation, self.values.shape))


def effects(
    model: PrivateLinearModel,
    names: Sequence[str] | None = None,
    design: Design | None = None,
) -> tuple[Effect, ...]:
    """Return the effects of the columns, in the order of the table or of their features.

    ``names`` are those of the columns of X; ``column=category`` is a category of a column.
    """
    check_is_fitted(model, "coef_")
    if model.design_ is not None and model.design_.formula is not None:
        from discreet.estimators.term_effects import term_effects  # it draws with what is here

        return term_effects(model)
    found = (_of_column(model, part) for part in layout(model, names, design))
    return tuple(each for each in found if each is not None)


def _of_column(model: PrivateLinearModel, part: ColumnFeatures) -> Effect | None:
    """Return the effect of a column; None if it has no features."""
    wide = model.features_.width(model.n_encoded_)
    line = False
    at: FloatArray | tuple[str, ...]
    if part.places or (part.number is None and not part.curve):
        at, basis = _of_levels(part, wide)
    elif part.curve:
        at, basis = _of_curve(model, part)
    elif isinstance(part.column, Boolean | Ordinal):
        texts = ("no", "yes") if isinstance(part.column, Boolean) else part.column.values
        at = tuple(texts)
        basis = np.zeros((len(at), wide))
        basis[:, part.number] = np.linspace(0.0, 1.0, len(at))
        line = True
    else:
        line = True
        features = _reach(model, part)
        basis = np.zeros((POINTS, wide))
        basis[:, part.number] = features
        at = _raw(model, part.encoded, features)
    if len(basis) == 0:
        return None
    if part.mark is not None:
        missing = np.zeros(wide)
        missing[part.mark] = 1.0
        if part.curve:  # the number of a missing cell is 0
            missing += spline_rows(model, part, np.zeros(1))[0]
        basis = np.vstack([basis, missing])
    return _effect(model, part, at, basis, line=line)


def _of_levels(part: ColumnFeatures, wide: int) -> tuple[tuple[str, ...], FloatArray]:
    """Return the levels of a column and their features, the reference among them."""
    basis = np.zeros((len(part.places), wide))
    basis[range(len(part.places)), part.places] = 1.0
    levels = part.levels
    if part.contrasts:
        column: Any = part.column
        k = column.values.index(part.reference)
        levels = (*levels[:k], str(part.reference), *levels[k:])
        basis = np.insert(basis, k, 0.0, axis=0)
    elif len(levels) == 1 and part.column is None:  # a mark of an array's column
        levels = ("(given)", *levels)
        basis = np.vstack([np.zeros(wide), basis])
    return levels, basis


def _of_curve(model: PrivateLinearModel, part: ColumnFeatures) -> tuple[FloatArray, FloatArray]:
    """Return points of a curve and their features."""
    splines: Any = model.features_.expansion
    j = splines.columns.index(part.encoded)
    at = np.linspace(splines.low[j], splines.high[j], POINTS)
    return _raw(model, part.encoded, at), spline_rows(model, part, at)


def spline_rows(model: PrivateLinearModel, part: ColumnFeatures, at: FloatArray) -> FloatArray:
    """Return the features of a curve at some numbers."""
    splines: Any = model.features_.expansion
    wide = model.features_.width(model.n_encoded_)
    j = splines.columns.index(part.encoded)
    basis = np.zeros((len(at), wide))
    low = splines.low[j : j + 1]
    high = splines.high[j : j + 1]
    alone = Splines((0,), low, high, (splines.pieces[j],), (splines.degrees[j],))
    alone.fill(at[:, None], part.curve.start, basis)
    return basis


def _reach(model: PrivateLinearModel, part: ColumnFeatures) -> FloatArray:
    """Return the feature of a number from one end to the other: its bounds, or where rows are."""
    bounds = model.features_.bounds
    if bounds is not None and part.encoded in bounds.columns:
        return np.linspace(bounds.ends[0], bounds.ends[1], POINTS)
    if isinstance(part.column, Numeric) and part.column.is_bounded:
        return np.linspace(0.0, 1.0, POINTS)
    known = released_spread(model)
    if known is None or part.column is None:
        return np.linspace(0.0, 1.0, POINTS)
    assert part.number is not None  # curves have bounds
    mean, deviation = (float(each[part.number]) for each in known)
    return np.linspace(mean - WIDE * deviation, mean + WIDE * deviation, POINTS)


def _raw(model: PrivateLinearModel, column: int, values: FloatArray) -> FloatArray:
    """Return numbers in units of X from those after privately chosen bounds."""
    bounds = model.features_.bounds
    if bounds is None or column not in bounds.columns:
        return values
    j = bounds.columns.index(column)
    return np.asarray(bounds.origin[j] + values * bounds.unit[j])


def noisy_means(model: PrivateLinearModel) -> tuple[FloatArray, FloatArray] | None:
    """Return noisy means of the features and the deviations of their noise; None if unknown."""
    steps = model.preparation_
    first = next((k for k, step in enumerate(steps) if isinstance(step, FittedCentre)), None)
    if first is None:
        return None
    centre: Any = steps[first]
    before = unclipped_map(steps[:first], len(centre.mean))
    if not before.is_diagonal:
        return None
    means = centre.mean / before.linear
    deviations = np.abs(centre.deviation / before.linear)
    width = model.features_.width(model.n_encoded_)
    if (levels := len(means) - width) > 0:
        of_levels = range(first_level(model), first_level(model) + levels)
        means = np.delete(means, of_levels)
        deviations = np.delete(deviations, of_levels)
    return means, deviations


def released_means(model: PrivateLinearModel) -> FloatArray | None:
    """Return the posterior means of the means of the features; None if unknown.

    Levels, marks of missing cells and parts of curves have shares of the rows for means, which are
    not negative: their prior is even on the numbers from 0. The prior of other means is even on all
    numbers, so their posterior mean is the noisy mean.
    """
    found = noisy_means(model)
    if found is None:
        return None
    means, deviations = found
    made = model.features_.expansion
    if made is not None and not isinstance(made, Splines):
        return means
    shares: list[int] = []
    for part in layout(model):
        marks = [] if part.mark is None else [part.mark]
        shares += [*part.places, *part.curve, *marks]
    means = means.copy()
    means[shares] = nonnegative(means[shares], deviations[shares])
    return means


def nonnegative(values: FloatArray, deviations: FloatArray) -> FloatArray:
    """Return posterior means of numbers that are not negative, from values with Gaussian noise.

    The prior is even on the numbers from 0.
    """
    ratios = values / deviations
    hazards = np.exp(-np.square(ratios) / 2 - log_ndtr(ratios)) / math.sqrt(2 * math.pi)
    return np.maximum(values + deviations * hazards, 0.0)


def released_spread(model: PrivateLinearModel) -> tuple[FloatArray, FloatArray] | None:
    """Return means and about the standard deviations of the features; None if unknown.

    A `Scale` step divides columns by their deviations, up to noise and a common factor.
    """
    found = noisy_means(model)
    steps = model.preparation_
    last = next((k for k, step in enumerate(steps) if isinstance(step, FittedScale)), None)
    if found is None or last is None:
        return None
    width = model.prepared_coef_.shape[1]
    scaled = unclipped_map(steps[: last + 1], width)
    if not scaled.is_diagonal:
        return None
    deviations = Scale().norm / math.sqrt(width) / np.abs(scaled.linear)
    if (levels := width - len(found[0])) > 0:
        deviations = np.delete(deviations, range(first_level(model), first_level(model) + levels))
    return found[0], np.broadcast_to(deviations, found[0].shape)


def first_level(model: Any) -> int:
    """Return the feature that the columns of levels begin at: after those of X that stay."""
    made = model.features_.expansion
    return int(model.n_encoded_) - (0 if made is None else len(made.columns))


def _shares(
    model: PrivateLinearModel, part: ColumnFeatures, basis: FloatArray
) -> FloatArray | None:
    """Return the share of rows in each feature of a column, 0 where there are too few.

    Rows are too few if their share is neither above 5 deviations of its noise nor above half of an
    even share. If an even share is below 8 deviations, noise hides how many rows there are: the
    point is shown with its band, since a gap would say that there are none. So at small budgets a
    part without rows is shown, too. Missing and unlisted cells may well have no rows: only 5
    deviations show them.
    """
    found = noisy_means(model)
    if found is None:
        return None
    means, deviations = found
    even = basis.mean(axis=0)
    few = means <= np.minimum(LEAST * deviations, SMALL_SHARE * even)
    few &= even >= HIDDEN * deviations
    marks = [k for k, level in zip(part.places, part.levels, strict=True) if level in MARKS]
    marks += [] if part.mark is None else [part.mark]
    few[marks] = (means <= LEAST * deviations)[marks]
    return np.where(basis.any(axis=0) & ~few, np.maximum(means, TINY), 0.0)


def _effect(
    model: PrivateLinearModel,
    part: ColumnFeatures,
    at: FloatArray | tuple[str, ...],
    basis: FloatArray,
    *,
    line: bool,
) -> Effect:
    """Return the effect of features given at some points, around its mean, and its noise.

    The features of categories and curves are shares of a row, so their means are shares of all
    rows. A point is expected if most of its share is in features that rows have. The effect of a
    ``line`` holds beyond the rows, too. Levels of a model with intervals are differences from the
    reference level: an interval around the mean would depend on all of them.
    """
    own = _shares(model, part, basis)
    points = len(basis)
    expected = np.ones(points, dtype=bool)
    weights = np.ones(points)
    middle = basis[: len(at)].mean(axis=0)
    marked = part.mark is not None
    if own is not None and part.places and not model.covariances_:  # dropped by the fit
        own = np.where(np.atleast_2d(model.coef_).any(axis=0), own, 0.0)
    if own is not None and own.any() and not line:
        parts = basis.sum(axis=1)
        expected = basis @ (own > 0.0) >= 0.5 * parts
        left = max(0.0, 1.0 - float(own.sum()))  # of rows that have none of the features
        whole = bool(parts.all())
        middle = own / own.sum() if whole else own
        weights = np.where(parts > 0.0, basis @ own, left)
    elif own is not None and marked:
        expected[-1] = own[part.mark] > 0.0
        weights[-1] = 0.0
    if model.covariances_ and isinstance(at, tuple):  # as a table of coefficients has them
        middle = np.zeros(basis.shape[1])
    values = np.atleast_2d(model.coef_) @ (basis - middle).T
    noise = deviation_of(model, basis - middle)
    return Effect(part.name, at, values, noise, expected, weights, marked)


def deviation_of(model: PrivateLinearModel, centred: FloatArray) -> FloatArray | None:
    """Return the standard deviation of the noise in products with some rows of features.

    Weights w of prepared rows are carried to Lᵀw. With independent noise of standard deviation s
    in each entry of w, the noise in c·Lᵀw has the deviation s·‖L·c‖. A model with intervals knows
    the covariance of its coefficients.
    """
    if model.covariances_:
        constant = np.zeros((len(centred), int(model.fit_intercept)))
        rows = np.hstack([centred, constant])
        found = chosen(model.covariances_, model.cov_type)
        return np.array([each.parts(rows).errors for each in found])
    if model.deviation_ is None:
        return None
    prepared = centred
    if (levels := model.prepared_coef_.shape[1] - centred.shape[1]) > 0:  # not columns of X
        prepared = np.insert(centred, [first_level(model)] * levels, 0.0, axis=1)
    linear = unclipped_map(model.preparation_, prepared.shape[1]).linear
    moved = prepared * linear if linear.ndim == 1 else prepared @ linear.T
    return np.asarray(model.deviation_ * np.linalg.norm(moved, axis=1))


def plot_effects(
    model: PrivateLinearModel,
    names: Sequence[str] | None = None,
    units: Units | None = None,
    *,
    columns: Sequence[str] | None = None,
    panels: int | None = None,
    design: Design | None = None,
) -> Figure:
    """Draw the effects of columns, one panel each; see `PrivateLinearModel.plot_effects`."""
    from discreet.figures import Figure

    every = effects(model, names, design)
    pairs: Any = getattr(model, "pairs_", None)
    single, terms = split_names(columns, pairs)
    shown = _chosen(every, single, panels) if single != [] or not terms else []
    design = model.design_ if design is None else design
    given = _given_units(units, every)
    count = len(shown) + len(terms)
    across = min(5 if count > 12 else 4, count)
    down = math.ceil(count / across)
    figure = Figure(figsize=(2.9 * across + 0.3, 2.35 * down + 0.7), layout="constrained")
    axes = np.atleast_1d(figure.subplots(down, across, squeeze=False)).ravel()
    labels: Sequence[Any] = getattr(model, "classes_", ())
    several = [str(label) for label in labels] if len(np.atleast_2d(model.coef_)) > 1 else []
    for panel, effect in zip(axes, shown, strict=False):
        _draw_panel(panel, effect, design, given.get(effect.name), several)
    for panel, term in zip(axes[len(shown) :], terms, strict=False):
        draw_pair(panel, pairs, term, several)
    for panel in axes[count:]:
        panel.set_axis_off()
    for panel in axes[: len(shown) : across]:
        panel.set_ylabel(towards(model), fontsize=8)
    if several and shown:
        axes[0].legend(fontsize=7)
    title = _title(model, every, shown)
    if terms:
        title = _title(model, (), ()) if not shown else title
        title += "\npairs: gray numbers are within 95 % of their noise"
    figure.suptitle(title, fontsize=10)
    return figure


def _given_units(units: Units | None, every: Sequence[Effect]) -> Units:
    """Check a caller's units of columns, and return them."""
    if units is None:
        return {}
    known = [effect.name for effect in every]
    if not isinstance(units, Mapping):
        raise ValueError(f"units must map names of columns to units; got {display(units)}.")
    for name, unit in units.items():
        if name not in known:
            raise ValueError(
                f"units names {name!r}, which the model has no column of. Its columns: "
                f"{', '.join(known[:10])}."
            )
        if not (isinstance(unit, str) or callable(unit)):
            raise ValueError(
                f"units[{name!r}] must be the name of a unit, or a function of numbers in X; got "
                f"{display(unit)}."
            )
    return units


def _in_turn(ways: Sequence[Callable[[FloatArray], FloatArray]], numbers: FloatArray) -> FloatArray:
    """Return what functions make of numbers, one after another."""
    for way in ways:
        numbers = way(numbers)
    return numbers


def _own_units(design: Design | None) -> Mapping[str, Callable[[FloatArray], FloatArray]]:
    """Return the units of a design's columns; effects of a formula are in them already."""
    return {} if design is None or design.formula is not None else design.units


def _chosen(
    every: Sequence[Effect], columns: Sequence[str] | None, panels: int | None
) -> list[Effect]:
    """Return the effects that are drawn: of named columns, or the largest in their own order."""
    if columns is not None:
        wanted = [columns] if isinstance(columns, str) else list(columns)
        # a column that interacts has several effects, such as "age (sex=f)"
        known: dict[str, list[Effect]] = {}
        for effect in every:
            known.setdefault(effect.name, []).append(effect)
            known.setdefault(effect.name.partition(" (")[0], []).append(effect)
        unknown = [name for name in wanted if name not in known]
        if unknown or not wanted:
            raise ValueError(
                f"columns must name columns of the model: {', '.join(list(known)[:10])}…; got "
                f"{unknown or wanted!r}."
            )
        return [each for name in wanted for each in dict.fromkeys(known[name])]
    most = MOST_PANELS if panels is None else integer("panels", panels)
    if len(every) <= most:
        return list(every)
    order = sorted(range(len(every)), key=lambda k: every[k].size, reverse=True)
    return [every[k] for k in sorted(order[:most])]


def towards(model: Any) -> str:
    """Return the axis of a score: log-odds of a class, log of a mean, or units of the target."""
    labels: Sequence[Any] = getattr(model, "classes_", ())
    odds = model._ratio == "odds ratio"
    if len(labels) == 2 and not hasattr(model, "levels_"):
        return f"{'log-odds' if odds else 'score'} of {_short(str(labels[1]))}"
    if hasattr(model, "levels_"):
        return "log-odds of higher classes" if len(labels) else "log-odds of the event"
    if len(labels):
        return "score of each class"
    return "log of the mean" if model._ratio else "units of the target"


def _title(model: Any, every: Sequence[Effect], shown: Sequence[Effect]) -> str:
    """Return the title of a figure: what bands are, and what is left out."""
    noise = "bands: 95 % of the noise" if shown else "pairs of columns"
    if shown and all(effect.deviation is None for effect in shown):
        noise = f"the noise of solver {model.solver_!r} is not stated"
    elif model.covariances_:
        noise = "levels: differences from the reference; bands: 95 % intervals; "
        noise += "hollow or dashed: no interval"
    if not all(effect.expected[: len(effect.at)].all() for effect in shown):
        noise += "; gray: too few rows to tell"
    labels: Sequence[Any] = getattr(model, "classes_", ())
    of = f" of class {labels[1]}" if len(labels) == 2 else ""
    title = f"Effects on the score{of} at ε = {model.guarantee_.epsilon:g} ({noise})"
    if len(shown) < len(every):
        left = len(every) - len(shown)
        title += f"\n{len(shown)} of {len(every)} columns; {left} are left out: pass columns=[…]"
    return title


def _show_dates(panel: Axes, column: Date) -> None:
    """Label the axis of a trend with the days that its numbers are."""
    low, high = panel.get_xlim()
    at = np.linspace(low, high, DATES + 2)[1:-1]
    panel.set_xticks(at, [column.date_of(float(number)) for number in at], fontsize=6)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"


def _draw_panel(
    panel: Axes, effect: Effect, design: Design | None, unit: Any, labels: Sequence[str]
) -> None:
    """Draw one effect in the units of its column, or in those of the caller."""
    ways = [] if isinstance(unit, str) or unit is None else [unit]
    own = _own_units(design).get(effect.name)
    _draw(panel, effect, partial(_in_turn, ways if own is None else [own, *ways]), labels)
    if isinstance(unit, str):
        panel.set_xlabel(unit, fontsize=7)
    column = None if design is None else design.schema.columns.get(effect.name)
    if isinstance(column, Date) and panel.lines:
        _show_dates(panel, column)


def _draw(
    panel: Axes,
    effect: Effect,
    units: Callable[[FloatArray], FloatArray],
    labels: Sequence[str],
) -> None:
    """Draw one effect: points for levels, lines for numbers, a diamond for missing cells."""
    panel.set_title(effect.name, fontsize=9)
    panel.axhline(0.0, color="0.7", lw=0.8)
    panel.tick_params(labelsize=7)
    panel.xaxis.get_offset_text().set_fontsize(7)
    shape = effect.values.shape
    band = np.zeros(shape)
    if effect.deviation is not None:
        band = np.broadcast_to(BAND * np.nan_to_num(effect.deviation), shape)
    names = labels if len(labels) == len(effect.values) else [None] * len(effect.values)
    known = effect.expected
    if known.any():
        low = float((effect.values - band)[:, known].min())
        high = float((effect.values + band)[:, known].max())
        margin = 0.05 * (high - low) or 1.0
        panel.set_ylim(low - margin, high + margin)
    if isinstance(effect.at, tuple):
        _draw_levels(panel, effect, band, names)
    else:
        _draw_line(panel, effect, band, units, names)


def _draw_levels(
    panel: Axes, effect: Effect, band: FloatArray, labels: Sequence[str | None]
) -> None:
    """Draw one point per level, with its band."""
    levels = (*effect.at, "(missing)") if effect.marked else tuple(map(str, effect.at))
    places = np.arange(len(levels))
    known = effect.expected
    apart = 0.12 * (np.arange(len(effect.values)) - (len(effect.values) - 1) / 2)
    hollow = effect.refused
    for k, (values, half, label) in enumerate(zip(effect.values, band, labels, strict=True)):
        style: Any = {"fmt": "o", "ms": 3, "lw": 1, "label": label}
        at = places + apart[k]
        drawn = panel.errorbar(at[known], values[known], yerr=half[known], **style)
        none = known & hollow[k]
        colour = drawn[0].get_color()
        panel.plot(at[none], values[none], "o", ms=3.5, mfc="white", color=colour, zorder=3)
    some = places if len(places) <= MOST_LABELS else places[known]
    some = some[:: math.ceil(len(some) / MOST_LABELS)] if len(some) else some
    panel.set_xticks(some, [_short(str(levels[k])) for k in some], fontsize=6)
    if sum(min(len(str(levels[k])), LONGEST_LABEL) + 2 for k in some) > 34:
        panel.tick_params(axis="x", labelrotation=60)
        for text in panel.get_xticklabels():
            text.set_horizontalalignment("right")
            text.set_rotation_mode("anchor")
    panel.set_xlim(-0.5, len(places) - 0.5)
    for place in places[~known]:
        panel.axvspan(place - 0.5, place + 0.5, color="0.93", lw=0)


def _draw_line(
    panel: Axes,
    effect: Effect,
    band: FloatArray,
    units: Callable[[FloatArray], FloatArray],
    labels: Sequence[str | None],
) -> None:
    """Draw a line or a curve where rows are, and missing cells beside it."""
    numbers: Any = effect.at
    at = units(numbers)
    count = len(at)
    known = effect.expected[:count]
    ends = np.flatnonzero(np.diff(np.concatenate([[True], known, [True]])))
    for first, after in ends.reshape(-1, 2):  # of runs without rows, up to the points beside them
        panel.axvspan(at[max(first - 1, 0)], at[min(after, count - 1)], color="0.93", lw=0)
    missing = effect.marked and bool(effect.expected[-1])
    beside = at[-1] + 0.07 * (at[-1] - at[0])
    refused = np.atleast_1d(effect.refused[:, :count].any(axis=1))
    for values, half, label, none in zip(effect.values, band, labels, refused, strict=True):
        shown = np.where(known, values[:count], np.nan)
        (line,) = panel.plot(at, shown, "--" if none else "-", lw=1.5, label=label)
        colour = line.get_color()
        if effect.deviation is not None:
            reach = half[:count]
            panel.fill_between(at, shown - reach, shown + reach, color=colour, alpha=0.2)
        if missing:
            style: Any = {"fmt": "D", "ms": 3.5, "lw": 1, "color": colour}
            panel.errorbar([beside], values[-1:], yerr=half[-1:], **style)
    panel.set_xlim(at[0], at[-1])
    if missing:
        panel.set_xlim(at[0], beside + 0.05 * (at[-1] - at[0]))
        panel.axvline(at[-1], color="0.85", lw=0.8)
        _, high = panel.get_ylim()
        at_top: Any = {"ha": "right", "va": "top", "fontsize": 6, "color": "0.4"}
        panel.text(beside + 0.04 * (at[-1] - at[0]), high, "missing ", **at_top)
