"""Coefficients of a fitted model: by column and in the columns' own units, with their errors.

The weights of a model belong to encoded features. Those of a table with names are carried to one
unit of each number, to differences from the reference level of each category, and to an intercept
for numbers at 0 and categories at their reference: a linear map L of the weights β. It is carried
through to their covariance, L·Σ·Lᵀ. All of it is computed from the released model.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from discreet.core import Budget
from discreet.design import Design, Group
from discreet.errors import NotSupported
from discreet.estimators import averaged, familiar
from discreet.estimators.effects import first_level, released_means, spline_rows
from discreet.estimators.layout import (
    ColumnFeatures,
    column_names,
    feature_names,
    layout,
    scaled_name,
    unit_of,
)
from discreet.inference import (
    Block,
    Coefficients,
    Covariance,
    Intervals,
    Summary,
    Term,
    score_intervals,
)
from discreet.inference.covariance import chosen as with_errors
from discreet.inference.rule import comes_along
from discreet.inference.selection import selected as choose_coefficients
from discreet.preparation.pipeline import unclipped_map
from discreet.statement import neighbours
from discreet.tables import Hashed, Ordinal
from discreet.tables.columns import MISSING
from discreet.terms import Terms
from discreet.validate import FloatArray, choice

NOT_MEASURED = (
    "this fit released no Hessian of the model, and its coefficients are made for predictions: "
    "shrunk, or at small budgets up to twice too large"
)
LEFT_OUT = f"{NOT_MEASURED}. Leave inference to the rule, or fit with inference=True"
OF_FEATURES = f"{NOT_MEASURED}. Fit with features='linear', as a curve has no single coefficient"
OF_CHOICE = (
    f"{NOT_MEASURED}. They come with one model of two classes or residuals by solver='auto', for "
    "rows of equal weight, without settings of penalty or preparation; inference=True pays for "
    "them in others"
)
OF_BUDGET = (
    f"{NOT_MEASURED}. The budget is too small at this number of rows and columns for intervals "
    "that cost predictions nothing; inference=True pays for them with most of it"
)
TOO_LITTLE = (
    "the budget is too small for intervals at this number of rows and columns, so nothing was "
    "spent on them: use more rows, fewer columns or a larger epsilon"
)


OWN_UNITS = (
    "Coefficients are in the columns' own units: of one unit more, or of a level in place of the "
    "reference level. The intercept is for numbers at 0 and categories at their reference"
)
TESTED = (
    "chi2 is Wald's joint test that all levels with an interval are equal to the reference; its "
    "degrees of freedom are in brackets"
)
MARKED = "'(missing)' is compared with a number at the lower bound of its column"
CURVED = "curves at their average"

COV_TYPES = ("model", "robust")
"""Kinds of standard errors."""

ROBUST = (
    'Standard errors are robust to heteroscedasticity{people} (cov_type="robust"): variances of '
    "single coefficients are by squared scores of {plural}, correlations by the model."
)
OF_MODEL = (
    'Standard errors are those of the model (cov_type="model"): residuals are assumed to have one '
    "variance in all {plural}."
)
MARKS = {
    "tail": (
        "check 'tail': residuals beyond the cut are more often on one side, so that the errors are "
        "skewed. Slopes are right only if errors have the same spread in all rows, and the "
        "intercept is moved. A larger budget allows a wider cut."
    ),
    "bound": (
        "check 'bound': {share} of the targets are at target_bounds. Coefficients are for clipped "
        "targets, and intervals do not cover the others. Use wider bounds."
    ),
}
OF_PEOPLE = (
    "Each person has the total weight 1: coefficients and intervals are about people, not rows."
)

TRIMMED = (
    "Sample weights above {bound:g} are reduced to it. If rows with larger weights differ from "
    "others, coefficients are those of a population in which such rows are fewer."
)

APART = (
    "The table is about an unshrunk estimate, which was released beside coef_. Predictions use "
    "coef_, which is made for them from both."
)

Weights = dict[int, float]
"""A linear combination of the weights of a model: factors by feature."""


@dataclass
class Lines:
    """Lines of a table of coefficients, each a combination of a model's weights.

    The first line is the intercept. ``constant`` is the place of the model's own intercept among
    its weights, after ``width`` features, None if it has none.
    """

    width: int
    constant: int | None
    terms: list[Term] = field(default_factory=list)
    rows: list[Weights] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        model: Any,
        names: Sequence[str] | None,
        design: Design | None,
        columns: Sequence[str] | None = None,
    ) -> Lines:
        """Return the lines of a model: by column if it has a design, else those of features.

        ``columns`` are those of a submodel, by name.
        """
        width = int(np.atleast_2d(model.coef_).shape[1])
        found = cls(width, width if model.fit_intercept else None)
        design = model.design_ if design is None else design
        by_column = design is not None and names is None
        if found.constant is not None or by_column:
            found.add(Term("intercept"), {} if found.constant is None else {found.constant: 1.0})
        if not by_column:
            for k, name in enumerate(column_names(model, names)):
                if columns is None or name in columns:
                    found.add(Term(name, name), {k: 1.0})
            return found
        assert design is not None  # of by_column
        if design.formula is not None:
            found.add_terms(design.terms, columns)
            return found
        groups = {group.name: group for group in design.groups}
        for part in layout(model, design=design):
            if columns is None or part.name in columns:
                found.add_column(model, part, groups[part.name])
        return found

    def add(self, term: Term, row: Weights) -> None:
        """Add a line."""
        self.terms.append(term)
        self.rows.append(row)

    def shift(self, row: Weights, factor: float = 1.0) -> None:
        """Add a combination of weights to the intercept."""
        first = self.rows[0]
        for k, weight in row.items():
            first[k] = first.get(k, 0.0) + factor * weight

    def add_terms(self, terms: Terms, columns: Sequence[str] | None) -> None:
        """Add the lines of a formula's terms: combinations of features, the constant first."""
        matrix = terms.matrix
        whole = [*([] if self.constant is None else [self.constant]), *range(self.width)]
        if self.constant is not None:
            self.rows[0] = _nonzero(matrix[0], whole)
            matrix = matrix[1:]
        lines = terms.lines
        for term in terms.bound:
            if columns is not None and term.name not in columns:
                continue
            start = len(self.terms)
            for k, line in enumerate(lines):
                if line.term == term.name:
                    own = Term(line.name, line.term, line.level, line.reference)
                    self.add(own, _nonzero(matrix[k], whole))
            reference = self.terms[start].reference
            block = range(start, len(self.terms))
            heading = f"{term.name} (reference: {reference})" if reference is not None else ""
            if not heading and len(block) > 1:
                heading = term.name
            self.blocks.append(Block(term.name, heading, block, reference))

    def add_column(self, model: Any, part: ColumnFeatures, group: Group) -> None:
        """Add the block of a column."""
        start = len(self.terms)
        name = part.name
        heading = ""
        if part.places:
            heading = self._add_levels(model, part, group)
        elif part.curve:
            heading = f"{name} (a curve: see plot_effects())"
            middle = _middle(model, part)
            self.shift(middle)
            if part.mark is not None:
                row = _curve_at_low(model, part)
                row[part.mark] = 1.0
                self.add(Term(f"{name}={MISSING}", name, MISSING), _minus(row, middle))
        elif part.number is not None:
            low, span = unit_of(model, part)
            steps = " (per step)" if isinstance(part.column, Ordinal) else ""
            shown = scaled_name(name, part.column) + steps
            self.add(Term(shown, name), {part.number: 1.0 / span})
            self.shift({part.number: 1.0}, -low / span)
            if part.mark is not None:
                self.add(Term(f"{name}={MISSING}", name, MISSING), {part.mark: 1.0})
        self.blocks.append(Block(name, heading, range(start, len(self.terms)), part.reference))

    def _add_levels(self, model: Any, part: ColumnFeatures, group: Group) -> str:
        """Add the levels of a category, as differences from its reference; return its heading.

        A level without a weight of its own is scored as the average, and so it is compared.
        """
        weights: dict[str, Weights] = {}
        kept = np.ones(len(part.places), dtype=bool)
        average: Weights = {}
        if model.design_ is not None and not part.contrasts:
            kept = averaged.has_weight(model, group)
            average = dict(zip(part.places, averaged.shares(model, group), strict=True))
        for level, place, own in zip(part.levels, part.places, kept, strict=True):
            weights[level] = {place: 1.0} if own else average
        reference = part.reference
        zero: Weights = {} if reference is None else weights.pop(reference, {})
        self.shift(zero)
        for level, row in weights.items():
            self.add(Term(f"{part.name}={level}", part.name, level, reference), _minus(row, zero))
        if isinstance(part.column, Hashed):
            return f"{part.name} (hashed, no reference)"
        return f"{part.name} (reference: {reference})"

    @property
    def matrix(self) -> sp.csr_array:
        """The map from weights to lines, one row per line."""
        entries = [(k, j, w) for k, row in enumerate(self.rows) for j, w in row.items()]
        shape = (len(self.rows), self.width + int(self.constant is not None))
        rows, columns, values = zip(*entries, strict=True)
        return sp.csr_array((np.array(values, dtype=np.float64), (rows, columns)), shape=shape)


def _nonzero(values: FloatArray, places: Sequence[int]) -> Weights:
    """Return a combination of weights at some places."""
    return {
        place: float(value) for place, value in zip(places, values, strict=True) if value != 0.0
    }


def _minus(row: Weights, other: Weights) -> Weights:
    """Return the difference of two combinations."""
    found = dict(row)
    for k, weight in other.items():
        found[k] = found.get(k, 0.0) - weight
    return {k: weight for k, weight in found.items() if weight != 0.0}


def _middle(model: Any, part: ColumnFeatures) -> Weights:
    """Return the average row in the features of a curve, which add up to 1."""
    means = released_means(model)
    own = np.ones(len(part.curve)) if means is None else means[list(part.curve)]
    return dict(zip(part.curve, own / own.sum(), strict=True))


def _curve_at_low(model: Any, part: ColumnFeatures) -> Weights:
    """Return the features of a curve where a missing number is encoded."""
    row = spline_rows(model, part, np.zeros(1))[0]
    return {k: float(row[k]) for k in part.curve if row[k] != 0.0}


def error_kind(model: Any, cov_type: str | None = None) -> str:
    """Return the kind of errors of a model: that which was asked for, robust ones by default.

    Robust errors that were not measured are refused, with the reason.
    """
    wanted = model.cov_type if cov_type is None else choice("cov_type", cov_type, COV_TYPES)
    measured = [each.checks.variances is not None for each in model.covariances_]
    whole = bool(measured) and all(measured)
    if wanted == "robust" and not whole and cov_type is not None:
        raise NotSupported(
            "this fit did not measure robust errors: its budget is too small for them, or it was "
            'fitted with cov_type="model". Fit with cov_type="robust", more rows or a larger '
            "epsilon."
        )
    return "robust" if whole and wanted != "model" else "model"


def chosen(model: Any, cov_type: str | None = None) -> tuple[Covariance, ...]:
    """Return the covariances of a model's coefficients, by kind of errors."""
    return with_errors(model.covariances_, error_kind(model, cov_type))


def tables_of(
    model: Any,
    names: Sequence[str] | None = None,
    design: Design | None = None,
    cov_type: str | None = None,
) -> tuple[Coefficients, ...]:
    """Return the coefficients of each model with their errors, if their columns have some."""
    check_is_fitted(model, "coef_")
    plain = model.design_ is None and design is None
    if model.features_.expansion is not None and (plain or names is not None):
        raise NotSupported(
            "this model is linear in features that were made of the columns of X, so a column has "
            "no single coefficient. Fit with features='linear', or use plot_effects()."
        )
    lines = Lines.of(model, names, design)
    values = estimates(model)
    labels = [""] if len(values) == 1 else [str(label) for label in model.classes_]
    covariances = chosen(model, cov_type) or (None,) * len(values)
    why = "" if model.covariances_ else missing_reason(model)
    matrix = lines.matrix
    return tuple(
        Coefficients.of(
            tuple(lines.terms), matrix, *pair, reason=why, label=label, blocks=tuple(lines.blocks)
        )
        for pair, label in zip(zip(values, covariances, strict=True), labels, strict=True)
    )


def estimates(model: Any) -> FloatArray:
    """Return the coefficients that intervals are about, one row per model, the intercept last.

    They are those of the predictions unless a fit released others.
    """
    values = np.atleast_2d(model.coef_)
    if model.fit_intercept:
        values = np.column_stack([values, np.atleast_1d(model.intercept_)])
    known = [each.weights for each in model.covariances_]
    if known and known[0] is not None:
        return np.stack(known)
    return values


def missing_reason(model: Any) -> str:
    """Return why a model has no intervals at all, by its settings and public numbers."""
    if model.inference is True:
        return TOO_LITTLE
    if not model.inference:
        return LEFT_OUT
    if model.features_.expansion is not None:
        return OF_FEATURES
    alone = len(np.atleast_2d(model.coef_)) == 1 and model.guarantee_.delta > 0
    if not (alone and model._has_intervals):
        return OF_CHOICE
    guarantee = model.guarantee_
    budget = Budget(guarantee.epsilon, guarantee.delta, guarantee.relation)
    size = np.size(model.coef_) + int(model.fit_intercept)
    loss = model._loss()
    known = loss.of_residuals or loss.task == "classification"
    along = comes_along(model.size_, size, budget, loss)
    return OF_CHOICE if along or not known else OF_BUDGET


def summary(
    model: Any,
    level: float,
    *,
    odds_ratios: bool | None = None,
    names: Sequence[str] | None = None,
    design: Design | None = None,
    cov_type: str | None = None,
) -> Summary:
    """Return the table of a model; see `PrivateLinearModel.summary`."""
    models = tables_of(model, names, design, cov_type)
    ratio: str = model._ratio
    if odds_ratios is None:
        ratio = ratio if models[0].blocks and len(models) == 1 else ""
    elif not odds_ratios:
        ratio = ""
    elif not ratio:
        raise NotSupported(
            "odds ratios are for logistic models. Pass odds_ratios=False for this one."
        )
    title = f"{type(model).__name__} under differential privacy"
    kind = error_kind(model, cov_type)
    return Summary(title, models, _footer(model, models, kind), level, ratio)


def part_summary(
    model: Any,
    columns: Sequence[str],
    weights: FloatArray,
    covariance: Covariance,
    level: float,
    how: str,
) -> Summary:
    """Return the table of a submodel of some columns, and how it was found."""
    lines = Lines.of(model, None, None, columns)
    about: Any = {"blocks": tuple(lines.blocks)}
    found = Coefficients.of(tuple(lines.terms), lines.matrix, weights, covariance, **about)
    ratio: str = model._ratio if found.blocks else ""
    title = f"Submodel of {type(model).__name__} under differential privacy"
    left = [part.name for part in layout(model) if part.name not in columns]
    listed = ", ".join(left[:8]) + (", …" if len(left) > 8 else "")
    first = f"Without {listed}: {how}." if left else f"With all columns: {how}."
    return Summary(title, (found,), (first, *_footer(model, (found,), "model")), level, ratio)


def _footer(model: Any, models: Sequence[Coefficients], kind: str) -> tuple[str, ...]:
    """Return what the table rests on: sizes, promise, method and conditions."""
    guarantee = model.guarantee_
    promise = f"ε = {guarantee.epsilon:g}, δ = {guarantee.delta:g}"
    plural = "people" if guarantee.unit != "row" else "rows"
    lines = [
        f"{model.size_:,} {plural}; ({promise}) for {neighbours(guarantee)}; "
        f"solver {model.solver_}."
    ]
    lines += _of_formula(model)
    lines += _own_units(models)
    if getattr(model, "pairs_", None) is not None:
        lines += model.pairs_.summary()
    if model.covariances_:
        lines.append(
            "Standard errors include sampling error and privacy noise. 'noise' is the share of the "
            "noise in the variance; 'bias', where it is shown, is the share of a bound on the "
            "effect of columns that are too rare to be determined. There is no penalty, and "
            "gradients are not clipped: rows of large norm have less weight in the score "
            "equations. That does not bias the estimate of a correctly specified model; another "
            "model's is a projection in which such rows weigh less."
        )
        if model.covariances_[0].weights is not None:
            lines.append(APART)
        lines += _about_errors(model, models, kind, plural)
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


def _of_formula(model: Any) -> list[str]:
    """Return the formula of a model, and what its offset is."""
    formula = None if model.design_ is None else model.design_.formula
    if formula is None:
        return []
    lines = [f"Formula: {formula.text}."]
    if formula.offsets:
        listed = " and ".join(each.text for each in formula.offsets)
        lines.append(f"The score has the offset {listed}, with the coefficient 1.")
    return lines


def _about_errors(model: Any, models: Sequence[Coefficients], kind: str, plural: str) -> list[str]:
    """Return what kind of errors a table has, whom it is about, and what was found against it."""
    people = plural == "people"
    text = ROBUST if kind == "robust" else OF_MODEL
    within = " and to dependence within people" if people else ""
    lines = [text.format(people=within, plural=plural)]
    if people and model.guarantee_.rows_per_unit == 1:
        lines.append(OF_PEOPLE)
    elif people and kind == "model":
        lines.append("Dependence within people is one factor for all coefficients.")
    if model.weight_bound is not None:
        lines.append(TRIMMED.format(bound=model.weight_bound))
    marks = dict.fromkeys(mark for each in models for mark in each.marks if mark)
    shares = [each.checks.at_bound for each in model.covariances_ if each.checks.at_bound]
    for mark in marks:
        share = f"{100 * max(shares, default=0.0):.1f} %"
        lines.append(MARKS[mark].format(share=share))
    return lines


def _own_units(models: Sequence[Coefficients]) -> list[str]:
    """Return what lines by column are compared with."""
    blocks = models[0].blocks
    if not blocks:
        return []
    curved = any(block.heading and not block.reference and not block.lines for block in blocks)
    lines = [f"{OWN_UNITS}{f', {CURVED}' if curved else ''}."]
    if any(np.isfinite(test.statistic) for each in models for test in each.tests.values()):
        lines.append(f"{TESTED}.")
    marks = (each.level == MISSING and each.reference is None for each in models[0].terms)
    return [*lines, f"{MARKED}."] if any(marks) else lines


def conf_int(model: Any, level: float, cov_type: str | None = None) -> FloatArray:
    """Return intervals of the coefficients; see `PrivateLinearModel.conf_int`."""
    models = tables_of(model, cov_type=cov_type)
    found = [np.column_stack(each.interval(level)) for each in models]
    return found[0] if len(found) == 1 else np.stack(found)


def standard_errors(model: Any) -> FloatArray:
    """Return standard errors of the coefficients, intercept first."""
    found = [each.errors for each in tables_of(model)]
    return found[0] if len(found) == 1 else np.stack(found)


def cov_params(model: Any) -> FloatArray:
    """Return covariances of the coefficients, intercept first."""
    models = tables_of(model)
    size = len(models[0].terms)
    none = np.full((size, size), np.nan)
    whole = [none if each.covariance is None else each.covariance for each in models]
    return whole[0] if len(whole) == 1 else np.stack(whole)


def selected(model: Any, rule: str, level: float) -> Any:
    """Return a copy of a model without what is not selected; see `select_coefficients`."""
    check_is_fitted(model, "coef_")
    if all(np.asarray(each.refused).all() for each in model.covariances_):
        reasons = [each.reason for each in model.covariances_] or [missing_reason(model)]
        raise NotSupported(f"there are no standard errors to select by: {reasons[0]}.")
    values = np.column_stack([np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)])
    size = values.shape[1] if model.fit_intercept else values.shape[1] - 1
    values[:, :size] = estimates(model)
    copied = copy.copy(model)
    found = []
    for row, covariance in zip(values, chosen(model), strict=True):
        settings: Any = {"intercept": model.fit_intercept}
        row[:size], left = choose_coefficients(row[:size], covariance, rule, level, **settings)
        found.append(replace(left, weights=None))
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


def intervals(model: Any, X: Any, level: float, residual: float) -> Intervals:
    """Return intervals around the scores of new rows, which are checked already."""
    if not model.covariances_ or np.asarray(model.covariances_[0].refused).all():
        reasons = [each.reason for each in model.covariances_] or [missing_reason(model)]
        raise NotSupported(f"predictions of this model have no intervals: {reasons[0]}.")
    X, _ = model.without_offset(X)
    X = averaged.with_averages(model, X)
    made: Any = model.features_.transform(X)
    sparse: bool = sp.issparse(made)
    rows = made.toarray() if sparse else np.array(made, dtype=np.float64)
    averaged.average_cells(model, X, rows)
    if model.fit_intercept:
        rows = np.column_stack([rows, np.ones(len(rows))])
    _warn_of_refused(model, rows)
    scores = rows @ estimates(model)[0]
    return score_intervals(chosen(model)[0], rows, scores, level, residual)


def residual_variance(model: Any) -> float:
    """Return the variance of residuals by their measured scale, that of normal ones."""
    covariance = model.covariances_[0]
    moment = covariance.checks.moment
    return float(covariance.dispersion if moment is None else moment.unit**2)


def _warn_of_refused(model: Any, rows: FloatArray) -> None:
    """Say which coefficients without an interval leave rows without one."""
    refused = np.asarray(model.covariances_[0].refused)
    used = refused & (rows != 0.0).any(axis=0)
    if not used.any():
        return
    names = [*feature_names(model), "the intercept"]
    listed = ", ".join(names[k] for k in np.flatnonzero(used)[:5])
    familiar.warn(
        f"Rows whose {listed} is not 0 have no interval: {model.covariances_[0].reason}. Leave "
        "such columns out of the model, or use more rows or a larger epsilon."
    )
