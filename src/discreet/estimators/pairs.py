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
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from discreet.accounting.budget import Measure
from discreet.core import Budget, Curator, ExponentialMechanism, Gaussian
from discreet.core.questions import EdgeCounts, Gradient, MedianSlope, NoisySum, TargetSum
from discreet.core.session import Session, Stream
from discreet.errors import NotSupported
from discreet.estimators.pair_columns import Candidate, Celled, cell_columns, celled
from discreet.estimators.pair_terms import PairSearch, PairTerm, PairTerms
from discreet.estimators.units import Inputs
from discreet.exact.pair_questions import BestPairs, PairScores
from discreet.objectives import Huber, Logistic, Loss, Problem, Squared
from discreet.objectives.offset import WithOffset, with_offsets
from discreet.preparation import FeatureMap, FittedBounds, FittedStep, pipeline
from discreet.preparation.pair_cells import cell_table, values_of
from discreet.solvers import Solution, Solver
from discreet.validate import FloatArray

__all__ = ["PairRule", "PairSide", "check_settings", "rule"]

MODELS = 2
"""Models that share the budget of the models evenly, where pairs are looked for."""

LEAST_SIGNAL = {"classification": 4000.0, "regression": 2000.0}
"""Least n·μ/k for a search: below it, half of the budget is worth more than any pair."""

COUNTS = ((12_000.0, 15), (0.0, 6))
"""Least n·μ/k, and pairs that are chosen; the first that is reached is taken."""

CURVATURE = {"classification": 1.0, "regression": 8.0}
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
    "needed to stand out from chance and to pay for half of the budget."
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
    if not isinstance(loss, Logistic | Squared | Huber) or not model._finds_levels:
        raise NotSupported(
            f"features='pairs' is for LogisticRegression with two classes, LinearRegression and "
            f"HuberRegressor, not for {type(model).__name__}. Use features='auto'."
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
    classes = getattr(model, "classes", None)
    if classes is not None and np.size(classes) > 2:
        raise NotSupported(
            f"features='pairs' is for two classes; got {np.size(classes)}. Use features='auto'."
        )
    if solver is not None:
        check_solver(solver)


def check_solver(solver: Solver) -> None:
    """Refuse a solver whose models cannot be composed with what is chosen between them."""
    if not solver.private or tuple(solver.composes) != ("gdp",):
        raise NotSupported(
            f"features='pairs' composes in Gaussian DP, and solver={solver.name!r} does not. Use "
            "solver='auto', 'gd' or 'newton'."
        )


def rule(columns: Sequence[Candidate], n_units: int, loss: Loss, budget: Budget) -> PairRule:
    """Return what a fit to a table of this size will do about pairs."""
    columns = tuple(columns)[:MOST_COLUMNS]
    signal = n_units * budget.to_gdp().mu / budget.relation.rows_changed
    if len(columns) < 2:
        raise ValueError(
            "features='pairs' needs two or more columns whose kinds are known. Pass a table with "
            "names, or bounds of the columns of an array: columns={0: (0, 100), 1: (0, 1)}."
        )
    least = LEAST_SIGNAL[loss.task]
    if signal < least:
        return PairRule(columns, signal, least)
    most = next(count for reached, count in COUNTS if signal >= reached)
    bins = round(BINS_PER_SIGNAL * (CURVATURE[loss.task] * signal) ** (1 / 3))
    bins = min(max(bins, BINS[0]), BINS[1])
    count = min(most, len(columns) * (len(columns) - 1) // 2)
    parts = [
        PairPart("cells of pairs", CELLS_SHARE),
        PairPart("choice of pairs", CHOICE_SHARE, count, selects=True),
        PairPart("scores of pairs", SCORES_SHARE),
    ]
    if loss.task == "regression":
        parts.append(PairPart("size of residuals", SIZE_SHARE, selects=True))
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
    """Pairs that were chosen: their noisy scores, those of chance, and the mean square residual."""

    pairs: tuple[tuple[int, int], ...]
    scores: FloatArray
    chance: FloatArray
    deviation: float
    square: float


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
        self.values = values_of(self.columns, inputs.X)
        units = inputs.units
        rows = units.rows(self.values, np.zeros(len(self.values)))
        self.curators: list[Curator] = []
        for k, stream in enumerate(streams):
            curator = session.curator(rows, stream)
            curator.open_reserved(first_part + k)
            self.curators.append(curator)
        self.made: list[Celled] = []
        self.conditions: tuple[str, ...] = ()

    @property
    def regression(self) -> bool:
        """True if targets are numbers."""
        return len(self.curators) > 3

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
        residuals = self._residuals(first)
        scale = self._scale(residuals)
        found = self._choose(residuals / scale, first.problem.n_rows)
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
        curvature = 1.0 if self.regression else found.square
        if total < threshold or not self._pays(first, found, scale, curvature):
            reason = ABSTAINED.format(found=total, least=threshold)
            return PairTerms(search=replace(search, reason=reason)), again()
        terms = self._fit(first, residuals, found, scale, curvature, stream)
        return self._kept(found, terms, search), None

    # ---- what is released before the second model

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

    def _margins(self, first: First) -> FloatArray:
        """Return the scores of the first model in units of its targets, each from its row."""
        X = self.inputs.X
        if self.inputs.design is not None:
            bounds = first.features.bounds
            X = self.inputs.design.with_middles(X, () if bounds is None else bounds.columns)
        scores = pipeline.linear_scores(first.features, X, first.coef, first.intercept, by_row=True)
        margins = (scores[:, 0] - self.inputs.centre) / self.inputs.scale
        return margins if self.regression else first.log_odds(margins)

    def _residuals(self, first: First) -> FloatArray:
        """Return minus the slope of the loss for each row, at the first model."""
        assert self.inputs.y is not None  # rows on workers are refused
        targets = self.inputs.rules[0](self.inputs.y)
        margins = self._margins(first)
        if not self.regression:
            return np.asarray(-Logistic().derivative(margins, targets))
        if isinstance(first.problem.loss, Squared) and first.problem.loss.limit is not None:
            margins = np.clip(margins, -1.0, 1.0)
        return np.asarray(targets - margins)

    def _scale(self, residuals: FloatArray) -> float:
        """Return the size at which residuals are clipped: 1, or by their private median."""
        if not self.regression:
            return 1.0
        curator = self.curators[3].with_targets(residuals)
        weights = np.zeros(curator.n_parameters)
        median = curator.ask(MedianSlope(Squared(None), weights), self.mechanisms[3])
        self.conditions += (
            f"the median size of residuals was chosen privately among public numbers; residuals "
            f"are clipped at {TYPICAL:g} times it in the scores of pairs",
        )
        return TYPICAL * median

    def _pairs(self) -> tuple[tuple[int, int], ...]:
        """Return the pairs of columns that have two cells or more each."""
        several = [k for k, each in enumerate(self.made) if len(each.labels) > 1]
        return tuple(combinations(several, 2))

    def _choose(self, residuals: FloatArray, n_rows: int) -> Found:
        """Choose pairs by their scores, and release noisy scores of those that were chosen."""
        pairs = self._pairs()
        cells = tuple(each.cells for each in self.made)
        count = min(self.rule.count, len(pairs))
        if not count:
            return Found((), np.zeros(0), np.zeros(0), 0.0, 0.0)
        curator = self.curators[1].with_targets(residuals)
        best = curator.ask(BestPairs(cells, pairs, count), self.mechanisms[1])
        chosen = tuple(pairs[at] for at in best)
        noisy, square = self._scored(cells, chosen, residuals, n_rows)
        sizes = np.array([self._size(pair) for pair in chosen])
        self.conditions += (
            f"{count} of {len(pairs):,} pairs of columns were chosen by an exponential mechanism "
            f"of ε = {self.mechanisms[1].epsilon:.4g} each, on sums of residuals in cells, and "
            f"their scores released with noise of standard deviation {noisy.deviation:.4g}",
        )
        chance = np.sqrt(2 * square * sizes / math.pi)
        scores = np.asarray(noisy.values)
        return Found(chosen, scores, chance, noisy.deviation, square / n_rows)

    def _scored(
        self,
        cells: tuple[NDArray[np.intp], ...],
        chosen: tuple[tuple[int, int], ...],
        residuals: FloatArray,
        n_rows: int,
    ) -> tuple[NoisySum, float]:
        """Return noisy scores of pairs and the sum of the squares of the clipped residuals.

        The part of the budget is divided so that both have the same noise.
        """
        count = len(chosen)
        total = float(self.mechanisms[2].loss.mu) ** 2 * (1 - 1e-9)
        mechanisms = [Gaussian.sharing(total * part / (count + 1)) for part in (count, 1)]
        curator = self.curators[2]
        asked = PairScores(cells, chosen)
        noisy = curator.with_targets(residuals).ask(asked, mechanisms[0])
        squares = np.square(np.clip(residuals, -1.0, 1.0))
        found = curator.with_targets(squares).ask(TargetSum(1.0), mechanisms[1])
        square = min(max(float(found.values[0]), found.deviation, 1.0), float(n_rows))
        return noisy, square

    def _size(self, pair: tuple[int, int]) -> int:
        """Return the number of cells of a pair."""
        return len(self.made[pair[0]].labels) * len(self.made[pair[1]].labels)

    def _doubt(self, found: Found) -> float:
        """Return what the scores must exceed those of chance by, all of them together.

        Chance alone is exceeded by the best of all pairs, and by the noise in their sum.
        """
        count = len(found.pairs)
        if not count:
            return 0.0
        n_rows = self.curators[1].n_rows
        best = -ndtri(CHANCE / 2 / len(self._pairs())) * SPREAD * math.sqrt(found.square * n_rows)
        return float(count * best - ndtri(CHANCE / 2) * found.deviation * math.sqrt(count))

    def _pays(self, first: First, found: Found, scale: float, curvature: float) -> bool:
        """Tell whether pairs explain more of the scores than noise would be added to the first.

        The first model would have half of its noise after another fit. A pair of this score moves
        scores by the variance s; shrunk by the noise N of its own cells, s²/(s + N) of it is left.
        """
        if first.deviation is None:
            return True
        n_rows = first.problem.n_rows
        sizes = np.array([self._size(pair) for pair in found.pairs], dtype=np.float64)
        squares = np.maximum(found.scores**2 - found.deviation**2, 0.0) * math.pi / 2 / sizes
        drawn = found.square * n_rows
        signal = np.maximum(squares - drawn, 0.0) * sizes / (curvature * n_rows) ** 2
        noise = (self._gradient_noise(found) ** 2 * sizes**2 + drawn * sizes) / (
            curvature * n_rows
        ) ** 2
        left = float(np.sum(signal**2 / np.maximum(signal + noise, 1e-300))) * scale**2
        return left > (first.deviation / self.inputs.scale * PREPARED_NORM) ** 2 / 2

    def _clip(self, found: Found) -> float:
        """Return the size that residuals of the second model are clipped at."""
        return min(1.0, CLIP * math.sqrt(found.square))

    def _gradient_noise(self, found: Found) -> float:
        """Return the noise in a cell's sum of residuals, if half of the budget measured it once."""
        total = self.session.account.models.to_gdp().mu ** 2 / MODELS
        changed = self.session.account.budget.relation.rows_changed
        return changed * self._clip(found) * math.sqrt(len(found.pairs) / total)

    # ---- the second model

    def _fit(
        self,
        first: First,
        residuals: FloatArray,
        found: Found,
        scale: float,
        curvature: float,
        stream: Stream,
    ) -> list[PairTerm]:
        """Fit a number for each cell of the pairs by descent, and shrink each pair by its noise."""
        loss, targets = self._targets(first, residuals, scale)
        cells = [each.cells for each in self.made]
        units = self.inputs.units
        table = cell_table(self.values, cells, found.pairs)
        rows = units.rows(table, targets)
        if not units.even:
            rows = units.weigh(rows)
        curator = self.session.curator(rows, stream, Fraction(1, MODELS))
        total = curator.open("gdp")
        clip = self._clip(found) * math.sqrt(len(found.pairs)) * (1 + 2.0**-20)
        joint = [np.outer(self.made[j].shares, self.made[k].shares) for j, k in found.pairs]
        sizes = np.array([shares.size for shares in joint])
        step = REACH * float(sizes.mean()) / curvature / ITERATIONS
        mechanism = Gaussian.sharing(total, ITERATIONS)
        n_rows = first.problem.n_rows
        descent = Descent(step, ITERATIONS)
        weights, noise = descent.run(curator, loss, clip, mechanism, n_rows)
        self.conditions += (
            f"a second model of {len(found.pairs)} pairs: each row's gradient is clipped to norm "
            f"{clip:.4g}, Gaussian noise on each of {ITERATIONS} sums over all rows, of "
            f"{mechanism.noise_multiplier:.6g} times what one row can move it by",
        )
        terms = []
        start = 0
        for pair, shares in zip(found.pairs, joint, strict=True):
            own = weights[start : start + shares.size].reshape(shares.shape)
            start += shares.size
            gain, variance = descent.response(curvature * shares)
            variance = variance * noise**2
            drawn = gain**2 / (n_rows * curvature * shares)
            if self.regression:
                drawn = drawn * found.square
            harm = float(np.sum(shares * (variance + drawn)))
            kept = max(0.0, 1.0 - harm / max(float(np.sum(shares * own**2)), 1e-300))
            factor = scale * self.inputs.scale * kept
            terms.append(PairTerm(*pair, factor * own, factor * np.sqrt(variance), kept))
        return terms

    def _targets(
        self, first: First, residuals: FloatArray, scale: float
    ) -> tuple[Loss, FloatArray]:
        """Return the loss of the second model, and targets that know the scores of the first."""
        if self.regression:
            return Squared(None), residuals / scale
        assert self.inputs.y is not None
        targets = self.inputs.rules[0](self.inputs.y)
        return WithOffset(Logistic()), with_offsets(targets, self._margins(first))

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
        weights = np.zeros(curator.n_parameters)
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
