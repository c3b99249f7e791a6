"""DP-AGD as its authors released it. NOT PRIVATE: the noise of its selections has a wrong sign.

Lee & Kifer, KDD 2018, Algorithm 2, after the code that slides on the paper print line by line and
that the authors published. `MISTAKES` lists what that code does otherwise than the paper.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binom

from discreet.accounting import conversions
from discreet.objectives import Logistic, Loss
from discreet.validate import FloatArray
from discreet_bench.released.common import Mistake, Released, Rows, loss_named, rows_of

__all__ = ["LOSSES", "RELATION", "choose", "fit", "least_epsilon", "selection_epsilon"]

RELATION = "add_remove"
LOSSES = ("logistic", "huber-hinge", "hinge")
INTERCEPT = True
SOURCE = "github.com/ppmlguy/DP-AGD, algo/agd_rho.py; printed in slides on the paper"
MISTAKES = (
    Mistake(
        "NoisyMax subtracts exponential noise where it must add it",
        "each selection is m·ε-DP instead of ε-DP: the ε of a run is about eight times the claim",
    ),
    Mistake("the step before the chosen one is taken", "none"),
    Mistake(
        "a refined gradient is averaged with the first measurement only", "none: less accurate"
    ),
    Mistake(
        "an accepted step charges the gradient's ρ a second time",
        "none: the budget ends earlier than it must",
    ),
    Mistake(
        "the penalty's gradient is added after the noisy gradient was normalised, and is not in "
        "the scores of the steps",
        "none",
    ),
    Mistake("budget is spent first and checked afterwards", "one selection more than accounted"),
)
LEFT_OUT = ("columns are scaled by public bounds, not by the extremes of the data",)

BLOCK = 4096
"""Rows whose losses at all candidates are computed at once: they stay in the cache."""

PENALTY = 1e-3
"""λ of the released experiments."""


def prepared(X: Any, *, intercept: bool = True) -> Rows:
    """Return rows as they are, with a column of ones."""
    return rows_of(X, intercept=intercept)


def fit(
    X: Any,
    y: NDArray[Any],
    *,
    epsilon: float,
    delta: float,
    loss: str,
    intercept: bool = True,
    seed: int,
    splits: int = 60,
    gamma: float = 0.1,
    clip: float = 3.0,
    n_steps: int = 20,
    most_step: float = 2.0,
    adjust_every: int = 10,
) -> Released:
    """Run DP-AGD until the budget is gone by its own count.

    Parameters
    ----------
    X, y
        Rows, dense or CSR, and targets ±1. Rows are used as they are.
    epsilon, delta
        What is claimed.
    loss, intercept
        Objective: mean loss + λ/2·‖w‖² with λ = `PENALTY`, with a column of ones or without.
    seed
        Of all noise.
    splits, gamma, clip, n_steps, most_step, adjust_every
        As in the paper; clip is both C_grad and C_obj. The largest candidate step is ``most_step``
        at first and ever.

    Returns
    -------
    Released
        Its ``true_epsilon`` is a lower bound: what the selections that were made reveal about the
        worst pair of scores, composed exactly (`least_epsilon`).
    """
    rng = np.random.default_rng(seed)
    rows = prepared(X, intercept=intercept)
    chosen_loss = loss_named(loss, LOSSES)
    targets = np.asarray(y, dtype=np.float64)
    norms = rows.norms()

    left = (math.sqrt(math.log(1 / delta) + epsilon) - math.sqrt(math.log(1 / delta))) ** 2
    selection = epsilon / (2 * splits)
    rho_selection = selection**2 / 2
    rho_gradient = selection**2 / (4 * math.log(1.25 / delta))

    weights = np.zeros(rows.size)
    margins = np.zeros(rows.count)
    max_step = most_step
    chosen: list[float] = []
    iterations = 0
    selections = 0
    spent_on_gradients = 0.0
    while left > 0:
        slopes = chosen_loss.derivative(margins, targets)
        slopes *= np.minimum(1.0, clip / np.maximum(np.abs(slopes) * norms, 1e-300))
        exact = rows.combine(slopes)
        first = exact + _noise(rng, clip, rho_gradient, rows.size)
        measured = first
        left -= rho_gradient
        spent_on_gradients += rho_gradient
        index = 0
        while index == 0:
            direction = measured / np.linalg.norm(measured) + PENALTY * weights
            moves = rows.margins(direction)
            steps = np.linspace(0.0, max_step, n_steps + 1)
            losses = clipped_losses(chosen_loss, margins, moves, targets, steps, clip)
            index = choose(losses, clip / selection, rng)
            selections += 1
            left -= rho_selection
            if left < 0:
                break
            if index > 0:
                step = float(steps[index - 1])
                weights = weights - step * direction
                margins = margins - step * moves
                left -= rho_gradient
            else:
                more = gamma * rho_gradient
                again = exact + _noise(rng, clip, more, rows.size)
                measured = (first + gamma * again) / (1 + gamma)
                rho_gradient += more
                left -= more
                spent_on_gradients += more
        chosen.append(float(steps[index]))
        iterations += 1
        if iterations % adjust_every == 0:
            max_step = min(1.1 * max(chosen), most_step)
            chosen = []

    rho = selections * selection_epsilon(selection, n_steps) ** 2 / 2 + spent_on_gradients
    why = (
        "NoisyMax adds its exponential noise with the wrong sign, so each selection is "
        f"{n_steps}·ε-DP instead of ε-DP. The {selections} selections of this run and its "
        f"gradients cost at most ε = {conversions.epsilon_from_rho(rho, delta):.3g}, by zCDP."
    )
    return Released(weights, least_epsilon(selection, n_steps, selections, delta), why)


def choose(losses: FloatArray, scale: float, rng: np.random.Generator) -> int:
    """Choose by NoisyMax of minus the losses, with exponential noise subtracted as in the code."""
    return int(np.argmax(-losses - rng.exponential(scale, losses.shape)))


def selection_epsilon(epsilon: float, n_steps: int) -> float:
    """Return the exact ε of one selection for which ``epsilon`` is claimed.

    A candidate that is t·scale behind m others, all equal, wins with probability e^(−mt)/(m + 1).
    A row can move it by ε·scale against all of them, which changes that by e^(mε). No pair does
    worse: the probability is an integral over a product of m factors, and each of them changes by
    e^ε at most.
    """
    return n_steps * epsilon


def least_epsilon(epsilon: float, n_steps: int, count: int, delta: float) -> float:
    """Bound from below the ε at ``delta`` of ``count`` selections with ``epsilon`` claimed each.

    Of m + 1 equal candidates, a row that is added raises the losses of all but r by the clip. One
    of those it raised won with probability q = (m + 1 − r)/(m + 1), and wins with q·e^(−rε) now.
    How often that happens is binomial under either table, so the ε of both directions follows by
    summing; r is the one that reveals most.
    """
    if count == 0:
        return 0.0
    times = np.arange(count + 1)
    worst = 0.0
    for r in range(1, n_steps + 1):
        before = (n_steps + 1 - r) / (n_steps + 1)
        tables = [binom.logpmf(times, count, before * math.exp(-r * epsilon * k)) for k in (0, 1)]
        for one, other in (tables, tables[::-1]):
            worst = max(worst, _epsilon_of(one, other, delta))
    return worst


def _epsilon_of(one: FloatArray, other: FloatArray, delta: float) -> float:
    """Return the least ε ≥ 0 with Σ max(0, one − e^ε·other) ≤ δ, of logarithms of probabilities."""

    def excess(epsilon: float) -> float:
        difference = -np.expm1(np.minimum(epsilon + other - one, 0.0))
        return float(np.sum(np.exp(one) * difference)) - delta

    finite = np.isfinite(one) & np.isfinite(other)  # leaving any out keeps it a lower bound
    one, other = one[finite], other[finite]
    high = float(np.max(one - other, initial=0.0))
    if excess(0.0) <= 0:
        return 0.0
    return float(brentq(excess, 0.0, high + 1.0, xtol=1e-9))


def clipped_losses(
    loss: Loss,
    margins: FloatArray,
    moves: FloatArray,
    targets: FloatArray,
    steps: FloatArray,
    clip: float,
) -> FloatArray:
    """Sum the losses after each step, each loss clipped.

    In single precision, which is several times faster; the error is negligible next to the noise.
    """
    total = np.zeros(len(steps))
    margins, moves, targets = (part.astype(np.float32) for part in (margins, moves, targets))
    columns = steps.astype(np.float32)[:, None]
    for start in range(0, len(margins), BLOCK):
        part = slice(start, start + BLOCK)
        values = _values(loss, margins[part] - columns * moves[part], targets[part])
        total += np.minimum(values, clip).sum(axis=1, dtype=np.float64)
    return total


def _values(loss: Loss, margins: NDArray[Any], targets: NDArray[Any]) -> NDArray[Any]:
    if type(loss) is not Logistic:
        return loss.value(margins, targets)
    values = np.minimum(margins * -targets, np.float32(80))
    np.exp(values, out=values)
    values += np.float32(1)
    return np.log(values, out=values)


def _noise(rng: np.random.Generator, clip: float, rho: float, size: int) -> FloatArray:
    return rng.normal(0.0, clip / math.sqrt(2 * rho), size)
