"""Models of fewer columns from the released numbers of one fit, without another fit.

In least squares the coefficients of a submodel are β_S + H_SS⁻¹H_SO·β_O, with H the second moment
of the rows, S the columns that are kept (the intercept among them) and O the others. That is exact
if H and β belong to the same normal equations. Noise in H is part of the variance. For other
families it is one step of Newton's method from the whole model.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from discreet.errors import NotSupported
from discreet.inference.checks import Checks, Moment
from discreet.inference.covariance import Covariance
from discreet.validate import FloatArray

__all__ = ["explained", "restricted"]

TOO_NOISY = 0.2
"""Largest noise in the second moment, over the smallest eigenvalue of its part for the columns that
are kept, both in the units in which the noise is even. Beyond, there is no submodel."""


def restricted(
    weights: FloatArray,
    covariance: Covariance,
    kept: NDArray[np.intp],
    n_rows: int,
    *,
    exact: bool,
) -> tuple[FloatArray, Covariance]:
    """Return coefficients of a submodel with their covariance; those left out are 0.

    ``weights`` have the intercept last, and ``kept`` includes it. If the submodel is ``exact``, the
    variance of residuals grows by what the others explained.
    """
    moment = _moment(covariance)
    size = weights.size
    out = np.setdiff1d(np.arange(size), kept)
    if np.asarray(covariance.refused).any():
        raise NotSupported(
            f"a submodel needs an interval for each coefficient of the model: {covariance.reason}."
        )
    H = moment.matrix
    inner = H[np.ix_(kept, kept)]
    _check_noise(moment, kept)
    inverse = np.linalg.inv(inner)
    carry = np.zeros((kept.size, size))
    carry[:, kept] = np.eye(kept.size)
    carry[:, out] = inverse @ H[np.ix_(kept, out)]
    found: FloatArray = np.zeros(size)
    found[kept] = carry @ weights
    # the noise E in H moves the coefficients by H_SS⁻¹ times the kept part of frame·E·frameᵀ·apart
    apart = moment.frame.T @ (weights - found)
    spread = float(apart @ apart) * np.eye(size) + np.outer(apart, apart)
    half = 0.5 * moment.deviation**2
    moved = inverse @ moment.frame[kept]
    noise = carry @ covariance.noise @ carry.T + half * (moved @ spread @ moved.T)
    sampling = carry @ covariance.sampling @ carry.T
    dispersion = covariance.dispersion
    if exact and out.size:
        more = explained(weights, covariance, kept)
        sampling = sampling + max(more, 0.0) * inverse / n_rows
        dispersion += max(more, 0.0)
    parts = []
    for part in (sampling, noise, carry @ covariance.bias @ carry.T):
        whole = np.zeros((size, size))
        whole[np.ix_(kept, kept)] = part
        parts.append(whole)
    made = replace(covariance, sampling=parts[0], noise=parts[1], bias=parts[2])
    return found, replace(made, dispersion=dispersion, checks=_left(covariance.checks))


def _left(checks: Checks) -> Checks:
    """Return the checks that hold for a submodel, too."""
    return Checks(at_bound=checks.at_bound, at_bound_error=checks.at_bound_error)


def _moment(covariance: Covariance) -> Moment:
    moment = covariance.checks.moment
    if moment is None:
        raise NotSupported(
            "this fit has no second moment that its coefficients belong to: its budget was too "
            "small. Use more rows, fewer columns or a larger epsilon."
        )
    return moment


def _check_noise(moment: Moment, kept: NDArray[np.intp]) -> None:
    """Refuse a submodel whose part of the second moment is hidden by noise."""
    back = np.linalg.inv(moment.frame)
    values = np.linalg.eigvalsh(back @ moment.matrix @ back.T)
    noise = moment.deviation * np.sqrt(2.0 * len(values))
    if noise > TOO_NOISY * max(float(values[0]), 0.0):
        raise NotSupported(
            "the second moment of the rows is too noisy for submodels: its noise is "
            f"{noise:.3g}, its smallest eigenvalue {values[0]:.3g}, and at most {TOO_NOISY:g} of "
            "that is allowed. Use more rows, fewer columns or a larger epsilon."
        )


def explained(weights: FloatArray, covariance: Covariance, kept: NDArray[np.intp]) -> float:
    """Return the variance of scores that the columns which are not kept explain beyond them.

    What the variance of the coefficients adds to it on average is taken off.
    """
    moment = _moment(covariance)
    out = np.setdiff1d(np.arange(weights.size), kept)
    if not out.size:
        return 0.0
    H = moment.matrix
    cross = H[np.ix_(out, kept)]
    left = H[np.ix_(out, out)] - cross @ np.linalg.solve(H[np.ix_(kept, kept)], cross.T)
    own = weights[out]
    whole = sum(part[np.ix_(out, out)] for part in covariance.sources)
    share = float(H[-1, -1])  # mean weight of a row, of which the intercept is the last
    return float(own @ left @ own - np.trace(left @ whole)) / share
