"""Forecast of accuracy and intervals for a planned budget, on generated rows.

Rows of the planned size are generated, with correlated normal columns, and fitted with the planned
budget by the library itself. No row of anybody is involved, so nothing is spent.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit

from discreet.core import Budget
from discreet.estimators import LinearRegression, LogisticRegression
from discreet.inference.covariance import chosen
from discreet.validate import FloatArray, choice, integer, number

if TYPE_CHECKING:
    from discreet.figures import Figure

LARGEST = 200_000  # rows that are generated at most
GRID = (0.1, 0.3, 1.0, 3.0, 10.0)  # values of ε by default
CORRELATION = 0.5  # of neighbouring columns
SIGNAL = 1.0  # standard deviation of the linear predictor

TASKS = {"classification": "accuracy", "regression": "R²"}


@dataclass(frozen=True)
class Planned:
    """Simulated accuracy and interval widths of one ε, and its μ in Gaussian DP.

    ``score`` is the accuracy or R² of a default fit on new rows, ``best_score`` that of the true
    coefficients. ``width`` and ``plain_width`` are mean widths of 95 % intervals for a column of
    standard deviation 1, with ``inference=True`` and without privacy; NaN where none is given.
    ``noise`` is the share of the privacy noise in the variance of coefficients, ``refused`` that of
    coefficients without an interval.
    """

    epsilon: float
    mu: float
    score: float
    best_score: float
    width: float
    plain_width: float
    noise: float
    refused: float


@dataclass(frozen=True)
class Forecast:
    """Forecasts for several ε: print them, or draw them with `plot`."""

    rows: int
    columns: int
    task: str
    delta: float
    relation: str
    planned: tuple[Planned, ...]

    def __str__(self) -> str:
        score = TASKS[self.task]
        lines = [
            f"{self.rows:,} rows, {self.columns} columns, {self.task}, δ = {self.delta:g}, "
            f"{self.relation}: simulated with generated rows, nothing is spent.",
            "",
            f"{'ε':>7} {'μ':>7} {score:>9} {'at best':>8} {'interval':>9} {'without':>8} "
            f"{'noise':>6} {'refused':>8}",
        ]
        for each in self.planned:
            width = f"{each.width:9.4f}" if np.isfinite(each.width) else f"{'none':>9}"
            noise = f"{100 * each.noise:4.0f} %" if np.isfinite(each.noise) else f"{'':>6}"
            lines.append(
                f"{each.epsilon:7.3g} {each.mu:7.3f} {each.score:9.3f} {each.best_score:8.3f} "
                f"{width} {each.plain_width:8.4f} {noise} {100 * each.refused:6.0f} %"
            )
        lines += [
            "",
            f"{score}: of a default fit; 'at best' that of the true model. 'interval' is the mean",
            "width of 95 % intervals for a column of standard deviation 1, with inference=True and",
            "the errors of its tables, robust where that costs little;",
            "'without' that without privacy; 'noise' the noise's share of the variance. Real rows",
            "with long tails, rare categories or a rare class get less (docs/choosing-epsilon.md).",
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast as plain data; numbers that do not exist are None."""
        plain = asdict(self)
        plain["planned"] = [
            {name: value if np.isfinite(value) else None for name, value in asdict(each).items()}
            for each in self.planned
        ]
        return plain

    def plot(self) -> Figure:
        """Draw score and width of intervals over ε."""
        from discreet.figures import Figure

        figure = Figure(figsize=(8.6, 3.4), layout="constrained")
        left, right = figure.subplots(1, 2)
        at = [each.epsilon for each in self.planned]
        scores, widths = ([getattr(p, name) for p in self.planned] for name in ("score", "width"))
        best = float(np.mean([each.best_score for each in self.planned]))
        plain = float(np.mean([each.plain_width for each in self.planned]))
        chance = 0.5 if self.task == "classification" else 0.0
        left.set(ylabel=f"{TASKS[self.task]} on new rows", ylim=(min(chance, *scores), best + 0.02))
        highest = 1.08 * float(np.nanmax([plain, *widths]))
        right.set(ylabel="mean width of 95 % intervals", ylim=(0.0, highest))
        lines = ((left, scores, best, "true model"), (right, widths, plain, "without privacy"))
        for panel, values, level, name in lines:
            panel.plot(at, values, "o-", color="#1f4e79", label="private")
            panel.axhline(level, color="0.6", ls="--", lw=1, label=name)
            panel.set_xscale("log")
            panel.set_xticks(at, [f"{value:g}" for value in at])
            panel.minorticks_off()
            panel.set_xlabel("ε")
            panel.spines[["top", "right"]].set_visible(False)
            panel.legend(frameon=False, fontsize=8)
        none = [each.epsilon for each in self.planned if not np.isfinite(each.width)]
        if none:
            text = "no interval at ε = " + ", ".join(f"{value:g}" for value in none)
            right.set_title(text, fontsize=8, color="0.35")
        title = f"{self.rows:,} rows, {self.columns} columns, δ = {self.delta:g}"
        figure.suptitle(f"{title} (generated rows)", fontsize=10)
        return figure


def plan(
    rows: int,
    columns: int,
    epsilon: float | Sequence[float] = GRID,
    *,
    delta: float | None = None,
    relation: str = "add_remove",
    task: str = "classification",
    repeats: int = 3,
) -> Forecast:
    """Simulate what a budget buys at a planned size, for several ε.

    Parameters
    ----------
    rows, columns : int
        Size of the table. More than 200,000 rows are simulated with as many.
    epsilon : float or sequence of float
        Values to simulate.
    delta : float, optional
        Default: a tenth of 1/rows, but at most 1e-6.
    relation : {"add_remove", "replace_one"}
        Neighbouring data sets.
    task : {"classification", "regression"}
        Logistic regression, or least squares.
    repeats : int
        Fits per value, whose results are averaged.

    Returns
    -------
    Forecast
        Nothing about any person is in it.
    """
    rows = integer("rows", rows, least=10, most=10**12)
    columns = integer("columns", columns, most=1000)
    repeats = integer("repeats", repeats, most=1000)
    choice("task", task, tuple(TASKS))
    values = np.sort(np.atleast_1d(np.asarray(epsilon, dtype=np.float64))).tolist()
    delta = min(1e-6, 0.1 / rows) if delta is None else number("delta", delta, above=0.0, below=1.0)
    budgets = [Budget(value, delta, relation) for value in values]
    simulated = []
    for budget in budgets:
        fits = [_simulated(min(rows, LARGEST), columns, budget, task, k) for k in range(repeats)]
        known = np.isfinite(fits).any(axis=0)  # a mean of nothing would warn
        means = np.where(known, np.nanmean(np.where(known, fits, 0.0), axis=0), np.nan)
        simulated.append(Planned(budget.epsilon, budget.to_gdp().mu, *means.tolist()))
    return Forecast(rows, columns, task, delta, relation, tuple(simulated))


def _simulated(n: int, d: int, budget: Budget, task: str, seed: int) -> tuple[float, ...]:
    """Fit generated rows; return score, best score, width, plain width, noise and refusals."""
    rng = np.random.default_rng(seed)
    weights = rng.choice([-1.0, 1.0], d)
    new = min(n, 20_000)
    X = rng.standard_normal((n + new, d))
    for j in range(1, d):
        X[:, j] = CORRELATION * X[:, j - 1] + np.sqrt(1 - CORRELATION**2) * X[:, j]
    predictor = X @ weights
    predictor *= SIGNAL / predictor.std()
    settings: dict[str, Any] = {"relation": str(budget.relation)}
    V = np.column_stack([X[:n], np.ones(n)])
    if task == "classification":
        p = expit(predictor)
        y: FloatArray = (rng.random(n + new) < p).astype(float)
        best = float(np.mean((p[n:] > 0.5) == y[n:]))
        information = p[:n] * (1 - p[:n])
        kind: Any = LogisticRegression
        settings["classes"] = [0.0, 1.0]
    else:
        y = predictor + SIGNAL * rng.standard_normal(n + new)
        best = 1 - float(np.var(y[n:] - predictor[n:]) / np.var(y[n:]))
        information = np.full(n, SIGNAL**-2)
        kind = LinearRegression
        settings["target_bounds"] = (-6 * SIGNAL, 6 * SIGNAL)
    hessian = (V * information[:, None]).T @ V
    plain = 2 * 1.96 * np.sqrt(np.diag(np.linalg.pinv(hessian))[:-1]).mean()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # generated rows are nobody's
        fitted = kind(budget.epsilon, budget.delta, **settings).fit(X[:n], y[:n])
        stated = kind(budget.epsilon, budget.delta, inference=True, **settings).fit(X[:n], y[:n])
    width = noise = np.nan
    refused = 1.0
    if stated.covariances_:
        parts = chosen(stated.covariances_, stated.cov_type)[0].parts()
        errors = parts.errors[:d]
        shares = (parts.noise / parts.variance)[:d]
        given = np.isfinite(errors)
        refused = float(1 - given.mean())
        if given.any():
            width = 2 * 1.96 * float(errors[given].mean())
            noise = float(shares[given].mean())
    return float(fitted.score(X[n:], y[n:])), best, width, float(plain), noise, refused
