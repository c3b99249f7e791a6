"""Two published methods of private least squares, written from their papers: AdaSSP and IHM.

Both take rows of norm at most 1 and targets in [-1, 1], have no intercept of their own (add a
constant column), and protect one row more or less. Their noise comes from the generator that they
are given: they are here to be measured, not to be used.

`AdaSSP.true_epsilon` and `IHM.true_epsilon` compute the guarantee from the noise, whatever the
paper claims. ``calibration="tight"`` is the same method with the least noise that this allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr
from scipy.stats import chi2

from discreet.accounting.conversions import epsilon_from_mu, mu_from_epsilon
from discreet.validate import FloatArray

__all__ = ["IHM", "AdaSSP", "Mixing", "mixing_delta"]

Calibration = Literal["published", "tight"]


@dataclass(frozen=True)
class AdaSSP:
    """Adaptive sufficient statistics perturbation (Wang 2018, Algorithm 2).

    Three releases with Gaussian noise: the least eigenvalue of XᵀX, XᵀX itself (an independent
    number for each entry of the upper triangle) and Xᵀy. A row x with |y| ≤ 1 changes each by at
    most ‖x‖² ≤ 1: the eigenvalue by Weyl's inequality, the triangle of xxᵀ because its norm is at
    most that of xxᵀ.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    calibration : {"published", "tight"}
        Noise √log(6/δ) / (ε/3) as printed; or the least noise for three releases by the exact
        Gaussian mechanism.
    failure : float
        Probability ϱ with which the ridge may be too small; 0.05 in the authors' code.
    """

    epsilon: float
    delta: float
    calibration: Calibration = "published"
    failure: float = 0.05

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of each release, whose sensitivities are 1."""
        if self.calibration == "tight":
            return math.sqrt(3) / mu_from_epsilon(self.epsilon, self.delta)
        return math.sqrt(math.log(6 / self.delta)) / (self.epsilon / 3)

    def true_epsilon(self) -> float:
        """Return the ε of the three releases at δ: they are Gaussian, so squares of μ add up."""
        return epsilon_from_mu(math.sqrt(3) / self.noise, self.delta)

    def releases(
        self, X: FloatArray, y: FloatArray, rng: np.random.Generator
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return the least eigenvalue, XᵀX and Xᵀy with noise, all that is read of the rows."""
        d, noise = X.shape[1], self.noise
        gram = X.T @ X
        least = float(np.linalg.eigvalsh(gram)[0]) + noise * float(rng.standard_normal())
        upper = np.triu(rng.standard_normal((d, d)))
        gram = gram + noise * (upper + np.triu(upper, 1).T)
        return least, gram, X.T @ y + noise * rng.standard_normal(d)

    def fit(self, X: FloatArray, y: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return the weights."""
        least, gram, moment = self.releases(X, y, rng)
        d = len(moment)
        least = max(0.0, least - self.noise * math.sqrt(math.log(6 / self.delta)))
        wanted = self.noise * math.sqrt(d * math.log(2 * d * d / self.failure))
        return np.linalg.solve(gram + max(0.0, wanted - least) * np.eye(d), moment)


@dataclass(frozen=True)
class Mixing:
    """Noise of IHM for a number of columns.

    Attributes
    ----------
    rows, iterations
        k, the rows of a sketch, and T, the number of sketches.
    gamma
        γ: a sketch is of rows whose second moment has eigenvalues of at least γ, by noise if need
        be.
    tail
        τ: the estimate of the least eigenvalue is lowered by this many standard deviations.
    gradient_noise
        Standard deviation of the noise in each gradient, whose sensitivity is 1.
    """

    rows: int
    iterations: int
    gamma: float
    tail: float
    gradient_noise: float

    @property
    def eigenvalue_noise(self) -> float:
        """Standard deviation of the noise in the least eigenvalue, whose sensitivity is 1."""
        return self.gamma / math.sqrt(self.rows)

    def root(self, X: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return the root of the covariance of a sketch's rows: XᵀX, and noise up to γ if need be.

        The noise follows from a release of the least eigenvalue of XᵀX.
        """
        values, vectors = np.linalg.eigh(X.T @ X)
        margin = self.tail - float(rng.standard_normal())
        least = max(0.0, float(values[0]) - self.eigenvalue_noise * margin)
        scales = np.sqrt(np.maximum(values, 0.0) + max(0.0, self.gamma - least))
        return np.asarray(scales[:, None] * vectors.T)

    def delta(self, epsilon: float) -> float:
        """Return the δ of all releases at ε.

        The eigenvalue and T gradients are Gaussian. Given an eigenvalue that was not overestimated
        by more than the margin, which fails with probability Φ(-τ), each of the T·k rows of the
        sketches is a normal vector whose covariance a row changes by a share of at most 1/γ.
        """
        square = self.eigenvalue_noise**-2 + self.iterations * self.gradient_noise**-2
        draws = self.rows * self.iterations
        mixed = mixing_delta(draws, 1 / self.gamma, math.sqrt(square), epsilon)
        return mixed + float(ndtr(-self.tail))


@dataclass(frozen=True)
class IHM:
    """Iterative Hessian mixing (Lev, Shenfeld, Srinivasan, Ligett & Wilson, ICML 2026).

    T steps w += H⁻¹(Xᵀclip(y - Xw, -1, 1) + noise), where each H is the second moment of a fresh
    Gaussian sketch SX of k rows, with noise added where XᵀX may have eigenvalues below γ.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    calibration : {"published", "tight"}
        Half of ε for sketches and eigenvalue, by Rényi orders and the classical Gaussian bound, and
        half for gradients, as published; or the same rule at the larger ε for which the exact
        guarantee of the whole is (epsilon, delta).
    iterations, ratio
        T, and k over max(d, log(4T/ϱ)) with ϱ = δ/10: 3 and 6 in the authors' code.
    """

    epsilon: float
    delta: float
    calibration: Calibration = "published"
    iterations: int = 3
    ratio: float = 6.0

    def plan(self, columns: int) -> Mixing:
        """Return the noise for a number of columns."""
        if self.calibration == "published":
            return self._published(self.epsilon, columns)
        if not self._published(self.epsilon, columns).delta(self.epsilon) <= self.delta:
            raise ValueError(
                f"the published noise exceeds epsilon = {self.epsilon:g}; use a smaller one."
            )

        def excess(claimed: float) -> float:
            return self._published(claimed, columns).delta(self.epsilon) - self.delta

        most = 2 * self.epsilon
        while excess(most) < 0:
            most *= 2
        return self._published(brentq(excess, self.epsilon, most, rtol=1e-6), columns)

    def true_epsilon(self, columns: int) -> float:
        """Return the ε of all releases at δ."""
        plan = self.plan(columns)
        most = self.epsilon
        while plan.delta(most) > self.delta:
            most *= 2
        return float(brentq(lambda epsilon: plan.delta(epsilon) - self.delta, 0.0, most))

    def fit(self, X: FloatArray, y: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return the weights."""
        plan = self.plan(X.shape[1])
        root = plan.root(X, rng)
        weights: FloatArray = np.zeros(X.shape[1])
        for _ in range(plan.iterations):
            # Rows of SX + noise are normal with this covariance, so they are drawn without S.
            sketch = rng.standard_normal((plan.rows, X.shape[1])) @ root
            residual = np.clip(y - X @ weights, -1.0, 1.0)
            gradient = X.T @ residual
            gradient = gradient + plan.gradient_noise * rng.standard_normal(len(gradient))
            weights = weights + np.linalg.solve(sketch.T @ sketch / plan.rows, gradient)
        return weights

    def _published(self, claimed: float, columns: int) -> Mixing:
        return _published(claimed, self.delta, columns, self.iterations, self.ratio)


@lru_cache(maxsize=512)
def _published(epsilon: float, delta: float, columns: int, iterations: int, ratio: float) -> Mixing:
    """Return the published noise for a claimed ε."""
    failure = delta / 10
    rows = max(int(ratio * columns), int(ratio * math.log(4 * iterations / failure)))
    part = delta / 4  # for the sketches, the eigenvalue, its margin, and the gradients

    def spent(gamma: float) -> float:
        orders = 1 + np.geomspace(1e-6, 1 - 1e-9, 1000) * (gamma - 1)
        sketches = iterations * _renyi(orders, rows, gamma)
        converted = (math.log(1 / part) - np.log(orders)) / (orders - 1) + np.log1p(-1 / orders)
        eigenvalue = math.sqrt(2 * math.log(1.25 / part) * rows) / gamma
        return float(np.min(sketches + converted)) + eigenvalue

    gamma = _least(lambda gamma: spent(gamma) - epsilon / 2)
    return Mixing(
        rows=rows,
        iterations=iterations,
        gamma=gamma,
        tail=math.sqrt(2 * math.log(4 / failure)),
        gradient_noise=math.sqrt(iterations) / mu_from_epsilon(epsilon / 2, part),
    )


def _renyi(orders: FloatArray, rows: int, gamma: float) -> FloatArray:
    """Return the Rényi divergences of k normal vectors whose covariance loses a share 1/γ."""
    logs = orders * math.log1p(-1 / gamma) - np.log1p(-orders / gamma)
    found: FloatArray = rows / (2 * (orders - 1)) * logs
    return found


def _least(excess: Callable[[float], float]) -> float:
    """Return the least γ above 1 at which a falling function is not positive."""
    most = 2.0
    while excess(most) > 0:
        most *= 2
    return most if most == 2.0 else float(brentq(excess, most / 2, most, xtol=1e-9 * most))


def mixing_delta(draws: int, share: float, mu: float, epsilon: float) -> float:
    """Return the δ at ε of normal draws with one of two variances, and a μ-GDP mechanism.

    The draws are of N(0, 1) or of N(0, 1 - share). Their sum of squares is sufficient, so that the
    privacy loss is a linear function of a chi-square variable, over which the δ of the Gaussian
    mechanism at the remaining ε is integrated. The larger of both directions is returned. A smaller
    share is more private, since noise makes it of a larger one.
    """
    scale = math.sqrt(2 * draws)
    x = np.linspace(max(1e-9, draws - 12 * scale), draws + 20 * scale + 200, 8001)
    weights = np.exp(chi2.logpdf(x, draws))
    constant = draws / 2 * math.log1p(-share)
    losses = (constant + share / (2 * (1 - share)) * x, -constant - share / 2 * x)
    return max(
        float(np.trapezoid(weights * _gaussian_delta(mu, epsilon - loss), x)) for loss in losses
    )


def _gaussian_delta(mu: float, epsilon: FloatArray) -> FloatArray:
    """Return δ of μ-GDP at each ε, of either sign."""
    first, second = -epsilon / mu + mu / 2, -epsilon / mu - mu / 2
    found: FloatArray = ndtr(first) - np.exp(epsilon + log_ndtr(second))
    return np.maximum(found, 0.0)
