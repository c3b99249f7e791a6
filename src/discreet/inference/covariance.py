"""Covariances of coefficients in units of X, split by source, from the evidence of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from discreet.inference.checks import Checks
from discreet.inference.evidence import Evidence
from discreet.inference.shares import widening
from discreet.rows import AffineMap
from discreet.validate import FloatArray, number

__all__ = [
    "Covariance",
    "Intervals",
    "Parts",
    "chosen",
    "coefficient_map",
    "p_text",
    "p_values",
    "quantile",
    "score_intervals",
]

SURE = 16.0
"""A coefficient leans on directions that are not determined if its squared part in them is larger
than this many times what noise alone makes of it."""

TAIL_SEEN = 3.0
"""One-sided tails are marked where they are this many standard deviations from none."""

TAIL_BIAS = 0.25
"""They are marked where a mean excess of one scale of residuals would move a coefficient by this
many standard errors."""

MOST_AT_BOUND = 0.01
"""Share of targets at a bound beyond which coefficients are marked. 3 % of them can take a 95 %
interval of a slope to a coverage of 0.78."""

NOT_DETERMINED = (
    "the coefficient leans on directions that rows and budget do not determine: its column is "
    "(nearly) a combination of others, or too rare"
)


SHIFTED = (
    "targets far above their mean count as less, which lowers the intercept by an unknown amount, "
    "and no slope"
)


class Parts(NamedTuple):
    """Variances of some linear combinations of the coefficients, by source."""

    sampling: FloatArray
    noise: FloatArray
    bias: FloatArray

    @property
    def variance(self) -> FloatArray:
        """The sum of all parts."""
        return self.sampling + self.noise + self.bias

    @property
    def errors(self) -> FloatArray:
        """Standard errors: roots of the variance."""
        return np.sqrt(self.variance)


@dataclass(frozen=True, eq=False)
class Covariance:
    """Covariance of one model's coefficients, its intercept last if there is one.

    Attributes
    ----------
    sampling, noise, bias : ndarray
        Covariance of what another sample of people would change, of the privacy noise, and a bound
        on the mean square of a bias.
    refused : ndarray of bool
        Coefficients without an interval.
    reason : str
        Why; empty if there are none.
    dispersion : float
        Estimated variance of residuals in units of the target; for other losses, the mean squared
        score over the mean curvature.
    checks : Checks
        What was measured beside the coefficients.
    weights : ndarray or None
        The coefficients that all of this is about, if they are not those of the predictions.
    """

    sampling: FloatArray
    noise: FloatArray
    bias: FloatArray
    refused: Any
    reason: str
    dispersion: float
    checks: Checks = field(default_factory=Checks)
    weights: FloatArray | None = None

    @classmethod
    def of(
        cls,
        evidence: Evidence,
        affine: AffineMap,
        *,
        intercept: bool,
        scale: float,
        shifted: bool = False,
    ) -> Self:
        """Carry the evidence through the map of a preparation; targets were divided by a scale.

        A ``shifted`` intercept, that of a loss cut on one side, has no interval.
        """
        size = len(evidence.weights)
        to_x = coefficient_map(affine, size, intercept=intercept, scale=scale)
        found = (evidence.sampling, evidence.noise, evidence.bias, evidence.floor)
        sampling, noise, bias, floor = (to_x @ part @ to_x.T for part in found)
        blind = np.square(to_x @ evidence.blind.T).sum(axis=1)
        leans = blind > SURE * np.diag(floor)
        refused = leans & (evidence.usual * blind > np.diag(sampling + noise))
        reason = NOT_DETERMINED if refused.any() else ""
        if shifted and intercept:
            refused[-1] = True
            reason = "; ".join(filter(None, (reason, SHIFTED)))
        if evidence.reason:
            refused = np.ones(size, dtype=bool)
            reason = evidence.reason
        checks = evidence.checks.carried(to_x, scale)
        dispersion = evidence.dispersion * scale**2
        return cls(sampling, noise, bias, refused, reason, dispersion, checks)

    def robust(self) -> Self:
        """Return the covariance with variances of single coefficients by squared scores of units.

        Correlations are those of the model. The noise in a variance widens intervals as Student's
        t does. Without such variances it is the covariance itself.
        """
        found = self.checks.variances
        if found is None:
            return self
        doubt = widening(found.error / np.maximum(found.ratio, found.error))
        roots = np.sqrt(found.ratio * (1 + doubt))
        return replace(self, sampling=self.sampling * np.outer(roots, roots))

    def of_slopes(self, kept: NDArray[np.intp], dispersion: float, reason: str) -> Self:
        """Return the covariance of some coefficients, with another dispersion.

        The last one, a constant, has no interval for the stated reason.
        """
        sampling, noise, bias = (part[np.ix_(kept, kept)] for part in self.sources)
        refused = np.asarray(self.refused)[kept]
        if refused.all():
            reason = self.reason
        else:
            refused[-1] = True
            reason = "; ".join(filter(None, (self.reason, reason)))
        sampling = sampling * (dispersion / self.dispersion)
        return type(self)(sampling, noise, bias, refused, reason, dispersion)

    @property
    def sources(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The three covariances."""
        return self.sampling, self.noise, self.bias

    def marks(self, rows: FloatArray) -> tuple[str, ...]:
        """Return what was found against the interval of each linear combination; empty if nothing.

        "tail": residuals beyond the cut are more often on one side. Then the intercept is moved,
        and slopes are, too, unless the errors have the same spread in all rows. "bound": too many
        targets are at a bound.
        """
        found = np.full(len(rows), "", dtype=object)
        tails = self.checks.tails
        if tails is not None and self.checks.moment is not None:
            moved = tails.carried(rows)
            errors = np.sqrt(np.maximum(np.diag(moved.covariance), 0.0))
            with np.errstate(invalid="ignore"):
                large = np.abs(moved.shift) * self.checks.moment.unit
                seen = np.abs(moved.shift) > TAIL_SEEN * errors
                found[seen & (large > TAIL_BIAS * self.parts(rows).errors)] = "tail"
            if abs(tails.share) > TAIL_SEEN * tails.error:
                found[:] = "tail"
        share = self.checks.at_bound
        if share is not None and share > max(MOST_AT_BOUND, 2 * self.checks.at_bound_error):
            found[:] = "bound"
        found[np.isnan(self.parts(rows).variance)] = ""
        return tuple(found)

    def parts(self, combinations: FloatArray | None = None) -> Parts:
        """Return variances of the coefficients, or of rows of linear combinations of them.

        A combination with a refused coefficient has none.
        """
        if combinations is None:
            return Parts(*(np.where(self.refused, np.nan, np.diag(part)) for part in self.sources))
        rows = np.atleast_2d(combinations)
        found = [((rows @ part) * rows).sum(axis=1) for part in self.sources]
        touched = (rows[:, self.refused] != 0).any(axis=1)
        return Parts(*(np.where(touched, np.nan, part) for part in found))

    def of_combinations(self, rows: FloatArray) -> FloatArray:
        """Return the covariance of linear combinations; NaN for those of refused coefficients."""
        whole = rows @ (self.sampling + self.noise + self.bias) @ rows.T
        touched = (rows[:, self.refused] != 0).any(axis=1)
        whole[touched] = np.nan
        whole[:, touched] = np.nan
        return np.asarray(whole)


def chosen(covariances: Sequence[Covariance], wanted: str | None) -> tuple[Covariance, ...]:
    """Return the covariances of a model, with robust errors where all have them.

    Unless errors of the model are ``wanted``.
    """
    if wanted == "model" or any(each.checks.variances is None for each in covariances):
        return tuple(covariances)
    return tuple(each.robust() for each in covariances)


def coefficient_map(affine: AffineMap, size: int, *, intercept: bool, scale: float) -> FloatArray:
    """Return the matrix that makes coefficients of X of weights of prepared rows."""
    basis = np.eye(size, size if intercept else size + 1)  # a constant that may be missing
    return np.asarray(scale * affine.adjoint(basis)[:, :size].T)


def quantile(level: float) -> float:
    """Return the normal quantile of a two-sided interval of this level."""
    level = number("level", level, above=0.0, below=1.0, remedy="Usual is 0.95.")
    return float(norm.ppf(0.5 + level / 2))


def p_values(z: FloatArray) -> FloatArray:
    """Return two-sided p-values of normal statistics."""
    return np.asarray(2 * norm.sf(np.abs(z)), dtype=np.float64)


def p_text(p: float) -> str:
    """Return a p-value as papers write it."""
    return "p < 0.001" if p < 0.0005 else f"p = {p:.3f}"


class Intervals(NamedTuple):
    """Intervals of predictions, and the variances they are made of.

    ``low`` and ``high`` are in units of the prediction. The variances are those of the linear
    predictor: of its sampling error, of the privacy noise, the bound on its bias and, for a new
    target, of its residual.
    """

    low: FloatArray
    high: FloatArray
    sampling: FloatArray
    noise: FloatArray
    bias: FloatArray
    residual: float


def score_intervals(
    covariance: Covariance, rows: FloatArray, scores: FloatArray, level: float, residual: float
) -> Intervals:
    """Return intervals around linear scores of rows, a constant 1 last if the model has one."""
    parts = covariance.parts(rows)
    half = quantile(level) * np.sqrt(parts.variance + residual)
    return Intervals(scores - half, scores + half, *parts, residual)
