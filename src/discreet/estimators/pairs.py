"""Pairs of columns in a fit: a search by the residuals of a first model, and a second model.

Half of the models' budget fits a model of single columns. The pairs in whose cells its residuals
add up to most are chosen, within a part of the budget that was reserved. Noisy scores of these
pairs then decide: either a second model of their cells corrects the first one with the other half,
or that half fits the first model once more, and both are averaged.

Every choice here is made by public and released numbers. docs/pairs.md has the rule and the
measurements behind it. Proof: docs/proofs/pairs.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import ndtri

from discreet.accounting.budget import Measure
from discreet.core import Budget, Curator, ExponentialMechanism, Gaussian
from discreet.core.questions import EdgeCounts, Gradient, MedianSlope, NoisySum, TargetSum
from discreet.core.session import Session, Stream
from discreet.errors import NotSupported
from discreet.estimators.pair_columns import Candidate, Celled, cell_columns, celled
from discreet.estimators.pair_rows import (
    Known,
    PairRows,
    curvatures,
    offset_loss,
    residuals,
    squares,
)
from discreet.estimators.pair_terms import PairSearch, PairTerm, PairTerms
from discreet.estimators.units import Inputs
from discreet.exact.pair_questions import BestPairs, PairScores
from discreet.objectives import Huber, Logistic, Loss, Poisson, Problem, Softmax, Squared
from discreet.objectives.offset import WithOffset
from discreet.preparation import FeatureMap, FittedBounds, FittedStep
from discreet.rows.rows import AskedRows
from discreet.solvers import Solution, Solver
from discreet.validate import FloatArray

__all__ = ["PairRule", "PairSide", "check_settings", "rule"]

MODELS = 2
"""Models that share the budget of the models evenly, where pairs are looked for."""

LEAST_SIGNAL = {"classes": 4000.0, "counts": 4000.0, "numbers": 2000.0}
"""Least n·μ/k for a search: below it, half of the budget is worth more than any pair."""

COUNTS = ((12_000.0, 15), (0.0, 6))
"""Least n·μ/k, and pairs that are chosen; the first that is reached is taken."""

CURVATURE = {"classes": 1.0, "counts": 1.0, "numbers": 8.0}
"""Typical curvature over that of the logistic loss: noise in a cell is so much less."""

BINS_PER_SIGNAL = 0.245
"""Bins of a number over (curvature·n·μ/k)^(1/3): the error of B² even cells is about 1/B² where a
pair is smooth, and noise of variance B⁴/(n·μ/k)² is added to it."""

BINS = (4, 10)
"""Smallest and largest number of bins of a number."""

CELLS_SHARE = 0.012
"""Share of μ² for counts of the columns' values, which say what a cell is."""

CHOICE_SHARE = 0.03
"""Share of μ² for the choice of the pairs."""

SCORES_SHARE = 0.012
"""Share of μ² for the scores of the chosen pairs."""

SIZE_SHARE = 0.005
"""Share of μ² for the median size of residuals, in regression."""

MOST_COLUMNS = 128
"""Columns that pairs are made of: the first ones."""

CHANCE = 0.05
"""Probability that a fit without any interaction goes on to a second model, about."""

SPREAD = math.sqrt(1 - 2 / math.pi)
"""Standard deviation of |Z| for a normal Z of variance 1."""

TYPICAL = 3.0
"""Residuals of a regression are clipped at this many times their median size."""

CLIP = 2.5
"""Residuals in the second model are clipped at this many times their root mean square."""

REACH = 2.0
"""Length of the second descent, over 1/curvature of an average cell."""

ITERATIONS = 40
"""Steps of the second descent."""

MOMENTUM = 0.8
"""Momentum of the second descent."""

PREPARED_NORM = 10 / 3
"""Norm of a typical prepared row with its constant, for the noise in the first model's scores."""

TOO_SMALL = (
    "n·μ/k is {signal:,.0f}, and pairs are looked for from {least:,.0f} on: the model has single "
    "columns alone, and all of the budget."
)

ABSTAINED = (
    "No pair was kept: the chosen pairs score {found:,.0f} together, and {least:,.0f} would be "
    "needed to stand out from chance."
)

UNPAID = (
    "No pair was kept: the chosen pairs stand out from chance, but explain less than half of the "
    "budget is worth to the model of single columns."
)


@dataclass(frozen=True)
class PairPart:
    """A part of the budget for pairs: its name, its share, and the uses of its mechanism."""

    name: str
    share: float
    uses: int = 1
    selects: bool = False

    def mechanism(self, measure: Measure, total: Fraction) -> Any:
        """Return the mechanism whose uses cost at most ``total``, a part of μ²."""
        if self.selects:
            return ExponentialMechanism.sharing(float(total) / self.uses)
        return Gaussian.sharing(float(total), self.uses)


@dataclass(frozen=True)
class PairRule:
    """Plan of the search for pairs, by public numbers; without ``parts`` there is no search."""

    columns: tuple[Candidate, ...]
    signal: float
    least: float
    count: int = 0
    bins: int = 0
    parts: tuple[PairPart, ...] = ()

    @property
    def models(self) -> int:
        """Number of models that share the budget of the models evenly."""
        return MODELS if self.parts else 1

    @property
    def share(self) -> float:
        """Share of μ² that the search costs."""
        return float(sum(Fraction(part.share) for part in self.parts))


def check_settings(loss: Loss, budget: Budget, solver: Solver | None, model: Any) -> None:
    """Refuse settings that pairs do not go with, before any data is read."""
    if not isinstance(loss, Logistic | Squared | Huber | Poisson) or not model._finds_levels:
        raise NotSupported(
            f"features='pairs' is for LogisticRegression, LinearRegression, HuberRegressor and "
            f"PoissonRegressor, not for {type(model).__name__}. Use features='auto'."
        )
    if budget.pure:
        raise NotSupported(
            "features='pairs' needs delta > 0: give one well below 1/n, for example 1e-6."
        )
    if model.inference is True:
        raise NotSupported(
            "features='pairs' and inference=True exclude each other: intervals are for one linear "
            "model, not for one whose pairs were chosen by the same rows. Leave one of them out."
        )
    if getattr(model, "class_weight", None) is not None:
        raise NotSupported("features='pairs' takes no class_weight. Leave one of them out.")
    if solver is not None:
        check_solver(solver)


def check_solver(solver: Solver) -> None:
    """Refuse a solver whose models cannot be composed with what is chosen between them."""
    if not solver.private or tuple(solver.composes) != ("gdp",):
        raise NotSupported(
            f"features='pairs' composes in Gaussian DP, and solver={solver.name!r} does not. Use "
            "solver='auto', 'gd' or 'newton'."
        )


def _kind(loss: Loss) -> str:
    """Return the kind of targets that a loss is for."""
    if isinstance(loss, Poisson):
        return "counts"
    return "classes" if loss.task == "classification" else "numbers"


def rule(columns: Sequence[Candidate], n_units: int, loss: Loss, budget: Budget) -> PairRule:
    """Return what a fit to a table of this size will do about pairs."""
    columns = tuple(columns)[:MOST_COLUMNS]
    signal = n_units * budget.to_gdp().mu / budget.relation.rows_changed
    if len(columns) < 2:
        raise ValueError(
            "features='pairs' needs two or more columns whose kinds are known. Pass a table with "
            "names, or bounds of the columns of an array: columns={0: (0, 100), 1: (0, 1)}."
        )
    kind = _kind(loss)
    least = LEAST_SIGNAL[kind]
    if signal < least:
        return PairRule(columns, signal, least)
    most = next(count for reached, count in COUNTS if signal >= reached)
    curvature = CURVATURE[kind] * 2 / max(loss.n_outputs, 2)
    bins = round(BINS_PER_SIGNAL * (curvature * signal) ** (1 / 3))
    bins = min(max(bins, BINS[0]), BINS[1])
    count = min(most, len(columns) * (len(columns) - 1) // 2)
    parts = [
        PairPart("cells of pairs", CELLS_SHARE),
        PairPart("choice of pairs", CHOICE_SHARE, count, selects=True),
        PairPart("scores of pairs", SCORES_SHARE),
    ]
    if kind != "classes":
        parts.append(PairPart("size of residuals", SIZE_SHARE, selects=kind == "numbers"))
    return PairRule(columns, signal, least, count, bins, tuple(parts))


@dataclass(frozen=True, eq=False)
class First:
    """The first model of a fit, in units of predictions, with what it was fitted to.

    ``log_odds`` has the log-odds of its probabilities, by scores; elsewhere it returns scores.
    """

    coef: FloatArray
    intercept: FloatArray
    features: FeatureMap
    deviation: float | None
    problem: Problem
    log_odds: Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Found:
    """Pairs that were chosen, and released numbers about the residuals of the first model.

    Attributes
    ----------
    pairs, scores, chance, deviation
        The pairs, their noisy scores, those of chance, and the noise in a score.
    square
        Mean square of the residuals of a row, all outputs together, over the unit.
    unit
        Size of a residual that is scaled to 1.
    curvature
        Mean second derivative of the loss in one score.
    """

    pairs: tuple[tuple[int, int], ...]
    scores: FloatArray
    chance: FloatArray
    deviation: float
    square: float
    unit: float
    curvature: float


class PairSide:
    """The side of a fit that looks for pairs: its curators, and what they released.

    It is made before the first model is fitted, when all parts of the budget are opened.
    """

    def __init__(
        self,
        rule: PairRule,
        mechanisms: Sequence[Any],
        session: Session,
        streams: Sequence[Stream],
        inputs: Inputs,
        fitted: Sequence[FittedStep],
        first_part: int,
    ) -> None:
        self.rule = rule
        self.mechanisms = mechanisms
        self.session = session
        self.inputs = inputs
        bounds = next((step for step in fitted if isinstance(step, FittedBounds)), None)
        self.columns = cell_columns(rule.columns, bounds)
        self.rows = PairRows.of(inputs, self.columns)
        self.curators: list[Curator] = []
        for k, stream in enumerate(streams):
            curator = session.curator(self.rows.rows, stream)
            curator.open_reserved(first_part + k)
            self.curators.append(curator)
        self.made: list[Celled] = []
        self.conditions: tuple[str, ...] = ()

    def second(
        self, first: First, stream: Stream, again: Callable[[], Solution]
    ) -> tuple[PairTerms, Solution | None]:
        """Look for pairs and fit the second model; or fit the first one once more.

        Returns the pairs, and the solution of ``again`` if there are none.
        """
        if len(self.columns) < 2:
            return PairTerms(
                search=PairSearch(reason="Fewer than two columns have cells.")
            ), again()
        self.made = self._cells()
        loss = offset_loss(first.problem.loss)
        self.rows = self.rows.knowing(self._known(first))
        found = self._choose(loss, first.problem.n_rows)
        threshold = float(found.chance.sum() + self._doubt(found))
        names = [column.name for column in self.columns]
        search = PairSearch(
            chosen=tuple((names[one], names[two]) for one, two in found.pairs),
            scores=tuple(found.scores.tolist()),
            chance=tuple(found.chance.tolist()),
            threshold=threshold,
            share=self.rule.share,
            pairs=len(self._pairs()),
        )
        total = float(found.scores.sum())
        if total < threshold or not self._pays(first, found, loss.n_outputs):
            reason = ABSTAINED.format(found=total, least=threshold)
            reason = reason if total < threshold else UNPAID
            return PairTerms(search=replace(search, reason=reason)), again()
        terms = self._fit(first, loss, found, stream)
        return self._kept(found, terms, search), None

    # ---- what is released before the second model

    def _known(self, first: First) -> Known:
        """Return the function from rows to the scores of the first model."""
        limited = isinstance(first.problem.loss, Squared) and first.problem.loss.limit is not None
        return Known(
            coef=first.coef,
            intercept=first.intercept,
            features=first.features,
            design=self.inputs.design,
            scale=self.inputs.scale,
            centre=self.inputs.centre,
            log_odds=first.log_odds,
            most=1.0 if limited else math.inf,
        )

    def _cells(self) -> list[Celled]:
        """Return the cells of each column, by one noisy count of the values of all of them."""
        counts = [column.count for column in self.columns]
        edges = np.arange(max(counts) + 1.0) - 0.5
        index = tuple(range(len(counts)))
        question = EdgeCounts(index, np.tile(edges, (len(counts), 1)))
        noisy = self.curators[0].ask(question, self.mechanisms[0])
        table = noisy.values.reshape(len(counts), -1)
        self.conditions += (
            f"the values of {len(counts)} columns were counted, the counts released with noise of "
            f"standard deviation {noisy.deviation:.4g}, and cells of pairs made by them",
        )
        names = {each.name: each.levels or each.texts for each in self.rule.columns}
        units = {} if self.inputs.design is None else self.inputs.design.units
        return [
            celled(
                column,
                names[column.name],
                table[k, : column.count],
                noisy.deviation,
                self.rule.bins,
                units.get(column.name),
            )
            for k, column in enumerate(self.columns)
        ]

    def _measured(self, loss: WithOffset) -> tuple[float, float]:
        """Return the size that residuals are clipped at, and the curvature of counts (else 0).

        That of classes is 1 or 2, as the sizes of their residuals add up to at most that. Counts
        have the variance of their mean, which is measured; other numbers their private median.
        """
        base = loss.base
        if isinstance(base, Logistic | Softmax):
            return float(min(loss.n_outputs, 2)), 0.0
        curator = self.curators[3]
        rows = self.rows.rows
        if isinstance(base, Squared):
            weights = np.zeros(curator.n_parameters)
            found = curator.with_rows(rows).ask(MedianSlope(loss, weights), self.mechanisms[3])
            self.conditions += (
                f"the median size of residuals was chosen privately among public numbers; "
                f"residuals are clipped at {TYPICAL:g} times it in the scores of pairs",
            )
            return TYPICAL * found, 0.0
        known = curator.with_rows(rows.with_targets(partial(curvatures, loss)))
        noisy = known.ask(TargetSum(1.0), self.mechanisms[3])
        least = max(noisy.deviation, 1.0)
        mean = float(np.clip(noisy.values[0], least, known.n_rows)) / known.n_rows
        self.conditions += (
            f"the sum of the first model's means was released with noise of standard deviation "
            f"{noisy.deviation:.4g}; residuals are clipped at {TYPICAL:g} deviations of a count",
        )
        return min(1.0, TYPICAL * math.sqrt(mean * math.exp(-self.inputs.centre))), mean

    def _pairs(self) -> tuple[tuple[int, int], ...]:
        """Return the pairs of columns that have two cells or more each."""
        several = [k for k, each in enumerate(self.made) if len(each.labels) > 1]
        return tuple(combinations(several, 2))

    def _choose(self, loss: WithOffset, n_rows: int) -> Found:
        """Choose pairs by their scores, and release noisy scores of those that were chosen."""
        pairs = self._pairs()
        cells = tuple(each.cells for each in self.made)
        count = min(self.rule.count, len(pairs))
        if not count:
            return Found((), np.zeros(0), np.zeros(0), 0.0, 0.0, 1.0, 1.0)
        unit, curvature = self._measured(loss)
        rows = self.rows.rows.with_targets(partial(residuals, loss, unit))
        best: Any = (
            self.curators[1].with_rows(rows).ask(BestPairs(cells, pairs, count), self.mechanisms[1])
        )
        chosen = tuple(pairs[at] for at in best)
        noisy, square = self._scored(PairScores(cells, chosen), rows, partial(squares, loss, unit))
        sizes = np.array([self._size(pair) for pair in chosen])
        self.conditions += (
            f"{count} of {len(pairs):,} pairs of columns were chosen by an exponential mechanism "
            f"of ε = {self.mechanisms[1].epsilon:.4g} each, on sums of residuals in cells, and "
            f"their scores released with noise of standard deviation {noisy.deviation:.4g}",
        )
        chance = np.sqrt(2 * square * sizes * loss.n_outputs / math.pi)
        scores = np.asarray(noisy.values)
        square /= n_rows
        if isinstance(loss.base, Logistic | Softmax):
            curvature = square * unit**2 / loss.n_outputs
        elif isinstance(loss.base, Squared):
            curvature = 1.0
        return Found(chosen, scores, chance, noisy.deviation, square, unit, curvature)

    def _scored(
        self, question: PairScores, rows: AskedRows, squared: Callable[[FloatArray], FloatArray]
    ) -> tuple[NoisySum, float]:
        """Return noisy scores of pairs and the sum of the squares of the clipped residuals.

        The part of the budget is divided so that both have the same noise.
        """
        count = len(question.pairs)
        total = float(self.mechanisms[2].loss.mu) ** 2 * (1 - 1e-9)
        mechanisms = [Gaussian.sharing(total * part / (count + 1)) for part in (count, 1)]
        curator = self.curators[2]
        noisy = curator.with_rows(rows).ask(question, mechanisms[0])
        known = curator.with_rows(self.rows.rows.with_targets(squared))
        found = known.ask(TargetSum(1.0), mechanisms[1])
        square = min(max(float(found.values[0]), found.deviation, 1.0), float(curator.n_rows))
        return noisy, square

    def _size(self, pair: tuple[int, int]) -> int:
        """Return the number of cells of a pair."""
        return len(self.made[pair[0]].labels) * len(self.made[pair[1]].labels)

    def _doubt(self, found: Found) -> float:
        """Return what the scores must exceed those of chance by, all of them together.

        The best of all pairs score more than chance, by what normal numbers of their ranks reach;
        noise and chance then move the sum.
        """
        count = len(found.pairs)
        if not count:
            return 0.0
        n_rows = self.curators[1].n_rows
        spread = SPREAD * math.sqrt(found.square * n_rows)
        ranks = (np.arange(count) + 0.5) / len(self._pairs())
        best = -float(ndtri(ranks).sum()) * spread
        noise = math.sqrt(count) * math.hypot(spread, found.deviation)
        return best - float(ndtri(CHANCE)) * noise

    def _pays(self, first: First, found: Found, outputs: int) -> bool:
        """Tell whether pairs explain more of the scores than noise would be added to the first.

        The first model would have half of its noise after another fit. A pair of this score moves
        scores by the variance s; shrunk by the noise N of its own cells, s²/(s + N) of it is left.
        """
        if first.deviation is None:
            return True
        n_rows = first.problem.n_rows
        sizes = np.array([self._size(pair) for pair in found.pairs], dtype=np.float64)
        squared = np.maximum(found.scores**2 - found.deviation**2, 0.0) * math.pi / 2
        drawn = found.square * n_rows
        per_row = sizes * (found.unit / (found.curvature * n_rows)) ** 2
        signal = np.maximum(squared / (sizes * outputs) - drawn, 0.0) * per_row
        noise = (self._gradient_noise(found) ** 2 * sizes * outputs + drawn) * per_row
        left = float(np.sum(signal**2 / np.maximum(signal + noise, 1e-300)))
        added = (first.deviation / self.inputs.scale * PREPARED_NORM) ** 2 * outputs
        return left > added / 2

    def _clip(self, found: Found) -> float:
        """Return the size that residuals of the second model are clipped at, over their unit."""
        return min(1.0, CLIP * math.sqrt(found.square))

    def _gradient_noise(self, found: Found) -> float:
        """Return the noise in a cell's sum of residuals, if half of the budget measured it once."""
        total = self.session.account.models.to_gdp().mu ** 2 / MODELS
        changed = self.session.account.budget.relation.rows_changed
        return changed * self._clip(found) * math.sqrt(len(found.pairs) / total)

    # ---- the second model

    def _fit(self, first: First, loss: WithOffset, found: Found, stream: Stream) -> list[PairTerm]:
        """Fit a number for each cell of the pairs by descent, and shrink each pair by its noise."""
        cells = [each.cells for each in self.made]
        rows = self.rows.cells(cells, found.pairs)
        curator = self.session.curator(rows, stream, Fraction(1, MODELS))
        total = curator.open("gdp")
        clip = found.unit * self._clip(found) * math.sqrt(len(found.pairs)) * (1 + 2.0**-20)
        joint = [np.outer(self.made[j].shares, self.made[k].shares) for j, k in found.pairs]
        sizes = np.array([shares.size for shares in joint])
        step = REACH * float(sizes.mean()) / found.curvature / ITERATIONS
        mechanism = Gaussian.sharing(total, ITERATIONS)
        n_rows = first.problem.n_rows
        descent = Descent(step, ITERATIONS)
        weights, noise = descent.run(curator, loss, clip, mechanism, n_rows)
        self.conditions += (
            f"a second model of {len(found.pairs)} pairs: each row's gradient is clipped to norm "
            f"{clip:.4g}, Gaussian noise on each of {ITERATIONS} sums over all rows, of "
            f"{mechanism.noise_multiplier:.6g} times what one row can move it by",
        )
        spread = found.square * (found.unit / found.curvature) ** 2 / loss.n_outputs
        terms = []
        start = 0
        whole = weights.reshape(loss.n_outputs, -1)
        for pair, shares in zip(found.pairs, joint, strict=True):
            own = whole[:, start : start + shares.size].reshape(-1, *shares.shape)
            start += shares.size
            gain, variance = descent.response(found.curvature * shares)
            variance = variance * noise**2
            drawn = gain**2 * spread / (n_rows * shares)
            harm = loss.n_outputs * float(np.sum(shares * (variance + drawn)))
            kept = max(0.0, 1.0 - harm / max(float(np.sum(shares * own**2)), 1e-300))
            factor = self.inputs.scale * kept
            values = factor * (own[0] if loss.n_outputs == 1 else own)
            terms.append(PairTerm(*pair, values, factor * np.sqrt(variance), kept))
        return terms

    def _kept(self, found: Found, terms: Sequence[PairTerm], search: PairSearch) -> PairTerms:
        """Return the pairs of which something is left, with the columns that they need."""
        terms = [term for term in terms if term.kept > 0.0]
        used = sorted({k for term in terms for k in (term.first, term.second)})
        at = {k: place for place, k in enumerate(used)}
        if not terms:
            search = replace(search, reason="Noise explains all of the chosen pairs.")
        return PairTerms(
            columns=tuple(self.columns[k] for k in used),
            cells=tuple(self.made[k].cells for k in used),
            shares=tuple(self.made[k].shares for k in used),
            labels=tuple(self.made[k].labels for k in used),
            terms=tuple(
                replace(term, first=at[term.first], second=at[term.second]) for term in terms
            ),
            search=search,
        )


@dataclass(frozen=True)
class Descent:
    """Gradient descent with momentum from 0; the mean of the second half of its weights."""

    step: float
    iterations: int

    def run(
        self, curator: Curator, loss: Loss, clip: float, mechanism: Gaussian, n_rows: int
    ) -> tuple[FloatArray, float]:
        """Return the weights, and the noise in each mean gradient."""
        weights = np.zeros(loss.n_outputs * curator.n_parameters)
        velocity = np.zeros_like(weights)
        ends = np.zeros_like(weights)
        noise = 0.0
        for t in range(self.iterations):
            noisy = curator.ask(Gradient(loss, weights, clip), mechanism)
            noise = noisy.deviation / n_rows
            velocity = MOMENTUM * velocity + noisy.values / n_rows
            weights = weights - self.step * (1 - MOMENTUM) * velocity
            if t >= self.iterations // 2:
                ends += weights
        return ends / (self.iterations - self.iterations // 2), noise

    def response(self, curvatures: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return, for each curvature, the share of the way that is gone, and the variance.

        The variance is that of a weight, for noise of variance 1 in each gradient.
        """
        flat = np.asarray(curvatures, dtype=np.float64).ravel()[:, None]
        drive = np.zeros((self.iterations, self.iterations + 1))
        drive[:, 0] = 1.0
        drive[np.arange(self.iterations), np.arange(self.iterations) + 1] = 1.0
        weights = np.zeros((flat.size, self.iterations + 1))
        velocity = np.zeros_like(weights)
        ends = np.zeros_like(weights)
        for t in range(self.iterations):
            velocity = MOMENTUM * velocity + flat * weights - drive[t]
            weights = weights - self.step * (1 - MOMENTUM) * velocity
            if t >= self.iterations // 2:
                ends += weights
        ends /= self.iterations - self.iterations // 2
        gain = (ends[:, 0] * flat[:, 0]).reshape(curvatures.shape)
        return gain, np.square(ends[:, 1:]).sum(axis=1).reshape(curvatures.shape)
