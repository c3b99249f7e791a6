"""Post-processing of a fitted model: tests, contrasts, submodels, margins, data frames.

All of it is computed from what a fit released, so nothing here costs budget. Names of coefficients
are those of `summary`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from discreet.errors import NotSupported
from discreet.estimators import averaged, coefficients, term_effects
from discreet.estimators.effects import released_means
from discreet.estimators.layout import ColumnFeatures, layout, unit_of
from discreet.inference import Coefficients, JointTest, Summary
from discreet.inference.covariance import p_values, quantile
from discreet.inference.hypotheses import (
    Contrast,
    Equivalence,
    Hypothesis,
    adjusted,
    contrasts,
    equivalence,
    test,
)
from discreet.inference.submodels import explained, restricted
from discreet.validate import FloatArray

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Findings", "Margin"]

CovType = Literal["model", "robust"]

ONE_STEP = (
    "ONE-STEP APPROXIMATION: one step of Newton's method from the whole model, good where what was "
    "left out has small effects"
)
EXACT = (
    "exact given the released moments of the whole model. Holds for columns that were not "
    "chosen by looking at the same fit"
)
AT_MEANS = "at the released means of the features"
OVER_TABLE = (
    "averaged over the table that was given, which is not protected: this result shows what is in "
    "it"
)


class Margin(NamedTuple):
    """Average change of the prediction for one more unit, or for a level in place of another."""

    name: str
    effect: float
    std_error: float
    z: float
    p: float
    low: float
    high: float


class Findings:
    """Methods of all linear models: what follows from released coefficients and covariances."""

    def _table(self, label: Any = None, cov_type: str | None = None) -> Coefficients:
        """Return the coefficients of one model; of several, that of a label."""
        models = coefficients.tables_of(self, cov_type=cov_type)
        if label is None:
            if len(models) > 1:
                names = ", ".join(each.label for each in models)
                raise ValueError(f"there is one model per class: pass label, one of {names}.")
            return models[0]
        found = [each for each in models if each.label == str(label)]
        if not found:
            raise ValueError(f"no model has the label {label!r}.")
        return found[0]

    def _tested(self, label: Any = None, cov_type: str | None = None) -> Coefficients:
        """Return the coefficients of one model with intervals; one without is refused."""
        table = self._table(label, cov_type)
        if not np.isfinite(table.errors).any():
            raise NotSupported(
                f"There is nothing to test, as no coefficient has an interval: {table.reason}."
            )
        return table

    # ---- as statsmodels has them

    def _series(self, numbers: Callable[[Coefficients], FloatArray]) -> pd.Series:
        """Return numbers by name; of several models by class and name."""
        import pandas as pd

        tables = coefficients.tables_of(self)
        parts = [pd.Series(numbers(each), index=list(each.names)) for each in tables]
        if len(parts) == 1:
            return parts[0]
        return pd.concat(parts, keys=[each.label for each in tables])

    @property
    def params(self) -> pd.Series:
        """Coefficients by the names of `summary`."""
        return self._series(lambda table: table.values)

    @property
    def bse(self) -> pd.Series:
        """Standard errors; NaN where there is no interval."""
        return self._series(lambda table: table.errors)

    @property
    def tvalues(self) -> pd.Series:
        """Coefficients over their standard errors."""
        return self._series(Coefficients.z)

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values of the hypotheses that a coefficient is 0."""
        return self._series(lambda table: p_values(table.z()))

    @property
    def nobs(self) -> int:
        """Public number of rows, or of people where they are protected."""
        check_is_fitted(self, "coef_")
        return int(self.size_)  # type: ignore[attr-defined]

    # ---- tests

    def wald_test(
        self,
        hypothesis: str | Sequence[str],
        *,
        cov_type: CovType | None = None,
        label: Any = None,
    ) -> JointTest:
        """Test that all parts of a hypothesis are true, by Wald's chi-squared statistic.

        Nothing is spent. Robust errors take their correlations from the model.

        Parameters
        ----------
        hypothesis : str or sequence of str
            Such as ``"ward"`` (all coefficients of a column are 0), ``"age = 0, bmi = 0"`` or
            ``"ward=B = ward=C"``.
        cov_type : {"model", "robust"}, optional
            Kind of standard errors, as in `summary`.
        label : optional
            The class whose model is tested, if there is one model per class.
        """
        table = self._tested(label, cov_type)
        return test(table, Hypothesis.of(table, hypothesis))

    def contrast(
        self,
        combination: str | Sequence[str],
        *,
        level: float = 0.95,
        cov_type: CovType | None = None,
        label: Any = None,
    ) -> tuple[Contrast, ...]:
        """Return linear combinations of coefficients with intervals, such as ``"age + 2*bmi"``.

        There is one for each combination. With ``"… = value"`` the test is of that value.
        """
        table = self._tested(label, cov_type)
        return contrasts(table, Hypothesis.of(table, combination), level)

    def equivalence_test(
        self,
        combination: str,
        low: float,
        high: float,
        *,
        cov_type: CovType | None = None,
        label: Any = None,
    ) -> Equivalence:
        """Test by two one-sided tests that a combination of coefficients is within margins."""
        (found,) = self.contrast(combination, cov_type=cov_type, label=label)
        return equivalence(found, low, high)

    def anova(
        self,
        *,
        cov_type: CovType | None = None,
        adjust: str | None = None,
        label: Any = None,
    ) -> pd.DataFrame:
        """Return Wald's test of each column as a data frame, with partial R² in least squares.

        ``adjust`` adds p-values that are adjusted for their number: "holm", "bonferroni",
        "fdr_bh" or "fdr_by".
        """
        import pandas as pd

        table = self._tested(label, cov_type)
        columns = dict.fromkeys(term.column for term in table.terms if term.column)
        tests = {name: test(table, Hypothesis.of(table, name)) for name in columns}
        found: dict[str, Any] = {
            "chi2": [each.statistic for each in tests.values()],
            "df": [each.df for each in tests.values()],
            "p_value": [each.p for each in tests.values()],
        }
        if adjust is not None:
            found["p_adjusted"] = adjusted(found["p_value"], adjust)
        if self._has_moment:
            found["partial_r2"] = [self._partial_r2(name) for name in columns]
        return pd.DataFrame(found, index=list(columns))

    # ---- shares of the variance

    @property
    def _is_linear(self) -> bool:
        return bool(getattr(self, "_least_squares", False))

    @property
    def rsquared(self) -> float:
        """Share of the variance of the target that the columns explain.

        By the released second moment and the measured scale of residuals, adjusted for the
        variance of the coefficients. NaN but for least squares with intervals.
        """
        check_is_fitted(self, "coef_")
        if not self._has_moment:
            return float("nan")
        weights, covariance = self._whole()
        return _share(self, explained(weights, covariance, np.array([weights.size - 1])))

    @property
    def _has_moment(self) -> bool:
        """True for least squares with an intercept, whose second moment was released."""
        model: Any = self
        known = bool(model.covariances_) and model.covariances_[0].checks.moment is not None
        return self._is_linear and known and bool(model.fit_intercept)

    def _partial_r2(self, column: str) -> float:
        weights, covariance = self._whole()
        own = [part for part in layout(self) if part.name == column]
        if not own or self._products_of(column):
            return float("nan")
        kept = np.setdiff1d(np.arange(weights.size), own[0].features)
        return _share(self, explained(weights, covariance, kept))

    def _products_of(self, name: str) -> list[str]:
        """Return the terms of a formula that have the factors of another term, and more."""
        design = self.design_  # type: ignore[attr-defined]
        if design is None or design.formula is None:
            return []
        factors = {term.name: {part.name for part in term.parts} for term in design.terms.bound}
        own = factors.get(name, set())
        return [other for other, parts in factors.items() if own and own < parts]

    def _whole(self) -> tuple[FloatArray, Any]:
        """Return the weights of a single model, the intercept last, and their covariance."""
        check_is_fitted(self, "coef_")
        model: Any = self
        if len(np.atleast_2d(model.coef_)) > 1 or not model.fit_intercept:
            raise NotSupported("this is for single models with an intercept.")
        if not model.covariances_:
            raise NotSupported(f"this needs intervals: {coefficients.missing_reason(model)}.")
        return coefficients.estimates(model)[0], coefficients.chosen(model, "model")[0]

    # ---- submodels

    def submodel(self, columns: Sequence[str], *, level: float = 0.95) -> Summary:
        """Return the table of the model of some of the columns, without another fit.

        In least squares it is what a fit of these columns alone would estimate, exactly, given the
        released moments; the variance includes the noise in these, and residuals that are larger by
        what the others explain. In other families it is one step from the whole model, and says so.
        Intervals are not for columns that were selected by looking at the same fit. Errors are
        those of the model. Nothing is spent.
        """
        weights, covariance = self._whole()
        parts = layout(self)
        unknown = sorted({*columns} - {part.name for part in parts})
        if unknown:
            known = ", ".join(part.name for part in parts[:12])
            raise ValueError(f"unknown columns {', '.join(unknown)}. The columns are {known}.")
        within = {
            name: product
            for name in (part.name for part in parts)
            for product in self._products_of(name)
            if name not in columns and product in columns
        }
        if within:
            name, product = next(iter(within.items()))
            raise ValueError(
                f"the term {product!r} is not the same without {name!r}. Keep both, or neither."
            )
        kept = sorted(k for part in parts if part.name in columns for k in part.features)
        index = np.array([*kept, weights.size - 1])
        found, of_it = restricted(weights, covariance, index, self.nobs, exact=self._is_linear)
        return coefficients.part_summary(
            self, columns, found, of_it, level, EXACT if self._is_linear else ONE_STEP
        )

    # ---- margins

    def margins(
        self, table: Any = None, *, level: float = 0.95, cov_type: CovType | None = None
    ) -> pd.DataFrame:
        """Return average marginal effects on the scale of predictions, by the delta method.

        Numbers have the slope of one more unit, levels the difference from the reference level.
        Without a table they are at the released means of the features. With one they are averaged
        over its rows: **that table is not protected**, and the result shows what is in it.
        """
        import pandas as pd

        weights, _ = self._whole()
        changed, where = self._changes(table, weights)
        covariance = coefficients.chosen(self, cov_type)[0]
        found = []
        for name, effect, gradient in changed:
            variance = covariance.parts(gradient[None]).variance[0]
            error = float(np.sqrt(variance))
            half = quantile(level) * error
            z = effect / error
            p = float(p_values(np.array(z)))
            found.append(Margin(name, effect, error, z, p, effect - half, effect + half))
        frame = pd.DataFrame(found).set_index("name")
        frame.attrs["where"] = where
        return frame

    def _changes(
        self, table: Any, weights: FloatArray
    ) -> tuple[list[tuple[str, float, FloatArray]], str]:
        """Return name, average change and its gradient for each line, and what rows they are at."""
        model: Any = self
        design = model.design_
        if design is not None and design.formula is not None:
            offset = None
            if table is None:
                rows = term_effects.typical_row(model)
            else:
                rows, offset = term_effects.encoded_rows(model, table)
            about = (weights, partial(_response, model))
            of_columns = term_effects.changes(model, rows, offset, *about)
            found = [(each.name, each.effect, each.gradient) for each in of_columns]
            return found, AT_MEANS if table is None else OVER_TABLE
        rows, where = self._rows_of(table)
        return [
            line for part in layout(model) for line in _effects(model, part, rows, weights)
        ], where

    def _rows_of(self, table: Any) -> tuple[FloatArray, str]:
        """Return feature rows with their constant, and what they are."""
        model: Any = self
        if table is None:
            means = released_means(model)
            if means is None:
                raise NotSupported(
                    "this fit released no means of the features. Pass a table to average over; it "
                    "is not protected."
                )
            return np.append(means, 1.0)[None], AT_MEANS
        X = averaged.with_averages(model, model._read_new(table))
        made = model.features_.transform(X)
        rows = made.toarray() if hasattr(made, "toarray") else np.array(made, dtype=np.float64)
        averaged.average_cells(model, X, rows)
        return np.column_stack([rows, np.ones(len(rows))]), OVER_TABLE

    # ---- data frames

    def tidy(
        self,
        level: float = 0.95,
        *,
        exp: bool = False,
        cov_type: CovType | None = None,
        adjust: str | None = None,
    ) -> pd.DataFrame:
        """Return one row per coefficient, with the names of R's broom in the spelling of Python.

        With ``exp`` estimates and intervals are exponentials: odds, rate or mean ratios.
        """
        import pandas as pd

        frames = []
        models = coefficients.tables_of(self, cov_type=cov_type)
        for table in models:
            low, high = table.interval(level)
            values = table.values
            if exp:
                if not self._ratio:  # type: ignore[attr-defined]
                    raise NotSupported("exp=True is for models whose exponentials are ratios.")
                with np.errstate(over="ignore"):
                    values, low, high = np.exp(values), np.exp(low), np.exp(high)
            p = p_values(table.z())
            frame = {
                "term": list(table.names),
                "column": [term.column for term in table.terms],
                "level": [term.level for term in table.terms],
                "reference": [term.reference for term in table.terms],
                "estimate": values,
                "std_error": table.errors,
                "statistic": table.z(),
                "p_value": p,
            }
            if adjust is not None:
                slopes = np.array([term.column is not None for term in table.terms])
                frame["p_adjusted"] = adjusted(np.where(slopes, p, np.nan), adjust)
            frame |= {"conf_low": low, "conf_high": high, "noise_share": table.noise_share}
            frame["check"] = list(table.marks)
            if len(models) > 1:
                frame = {"label": [table.label] * len(p), **frame}
            frames.append(pd.DataFrame(frame))
        return pd.concat(frames, ignore_index=True)

    def glance(self) -> pd.DataFrame:
        """Return one row about the whole model: sizes, budget, kind of errors, R² if there is."""
        import pandas as pd

        check_is_fitted(self, "coef_")
        model: Any = self
        guarantee = model.guarantee_
        found: dict[str, Any] = {
            "model": type(self).__name__,
            "nobs": self.nobs,
            "unit": guarantee.unit,
            "df_model": int(np.atleast_2d(model.coef_).shape[1]),
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "cov_type": coefficients.error_kind(model),
        }
        if model.covariances_:
            first = model.covariances_[0]
            found["dispersion"] = first.dispersion
            found["share_at_bound"] = first.checks.at_bound
            if self._has_moment:
                found["r_squared"] = self.rsquared
                found["sigma"] = float(np.sqrt(coefficients.residual_variance(model)))
        return pd.DataFrame([found])


def _share(model: Any, variance: float) -> float:
    """Return an explained variance over that with the residuals, between 0 and 1."""
    variance = max(variance, 0.0)
    return float(variance / (variance + coefficients.residual_variance(model)))


def _effects(
    model: Any, part: ColumnFeatures, rows: FloatArray, weights: FloatArray
) -> list[tuple[str, float, FloatArray]]:
    """Return name, average effect and its gradient for each line of a column."""
    found = []
    if part.number is not None:
        _, span = unit_of(model, part)
        slope = weights[part.number] / span
        _, first, second = _response(model, rows @ weights)
        gradient = (second[:, None] * rows).mean(axis=0) * slope
        gradient[part.number] += float(first.mean()) / span
        found.append((part.name, float(first.mean()) * slope, gradient))
    reference = part.reference
    for level in part.levels:
        if level == reference:
            continue
        values = []
        gradients = []
        for of in (level, reference):
            changed = rows.copy()
            changed[:, list(part.places)] = 0.0
            if of in part.levels:
                changed[:, part.places[part.levels.index(of)]] = 1.0
            mean, first, _ = _response(model, changed @ weights)
            values.append(float(mean.mean()))
            gradients.append((first[:, None] * changed).mean(axis=0))
        effect = values[0] - values[1]
        found.append((f"{part.name}={level}", effect, gradients[0] - gradients[1]))
    return found


def _response(model: Any, scores: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return predictions of linear scores, and their first and second derivative."""
    if model._ratio == "odds ratio":
        mean = expit(scores)
        first = mean * (1.0 - mean)
        return mean, first, first * (1.0 - 2.0 * mean)
    if model._ratio:
        mean = np.exp(scores)
        return mean, mean, mean
    return scores, np.ones_like(scores), np.zeros_like(scores)
