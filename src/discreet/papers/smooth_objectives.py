"""Private minimisation of smooth objectives: output perturbation, and RRPSGD.

Zhang, Zheng, Mou & Wang, "Efficient Private ERM for Smooth Objectives", IJCAI 2017.

Algorithm 1, `OutPert`: gradient descent on the exact rows, and noise on its end. Descent with short
steps moves little when one row changes, so its last point can be released with little noise.
Nothing before it is released. The descent and its sensitivity: `discreet.exact.GradientDescent`.
Proof: docs/proofs/outpert.md.

Algorithm 2, `RRPSGD`: noisy steps on single rows, stopped at a random round, for losses that need
not be convex. At a round drawn with probability ∝ 2η − βη², the expected squared gradient norm of a
smooth objective is small (Ghadimi & Lan 2013). Proof: docs/proofs/rrpsgd.md.

Differences from the paper:

- sensitivities without slack and the exact Gaussian mechanism in the least-noise form;
- at most 200,000 rounds are planned, not n²; the noise is calibrated for those that are;
- the printed logistic loss has a misprint, and is not followed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from discreet.accounting import conversions
from discreet.accounting.budget import Measure
from discreet.accounting.calibration import noise_multiplier_for
from discreet.accounting.subsampling import SampledGaussian
from discreet.core import Budget, Curator, Gaussian, L2Norm, Relation
from discreet.errors import NotSupported
from discreet.exact import Descent, GradientDescent, check_evaluated, check_step, smoothness_of
from discreet.objectives import Loss, Problem
from discreet.solvers import base
from discreet.validate import FloatArray, integer, number

MOST_ITERATIONS = 10_000  # cap on the T of the theorems, which grows without bound with ε
ROUNDED = 1e-9  # slack for steps that callers computed; the proof has a factor of 2 to spare there
_Bound = Annotated[float, partial(number, least=1e-9, most=1e9)]

MOST_ROUNDS = 200_000  # rounds planned by default at most
MOST_NUMBERS = 2 * 10**7  # rounds times weights by default at most, or 200 rounds
ENTRIES = 10  # number of parts that a run is reported in


@dataclass(frozen=True)
class ReleasedDescent(base.TraceEntry):
    """A descent that was released once, at its end.

    ``sensitivity`` is the largest change of the end when one row changes, rounding included;
    ``noise_scale`` the standard deviation of the noise, or Δ/ε when pure.
    """

    iterations: int
    step: float
    sensitivity: float
    noise_scale: float


@dataclass(frozen=True)
class DescentPlan(base.Plan):
    """The descent, its sensitivity, and the paper's where its noise is wanted."""

    descent: Any
    sensitivity: float
    published: float | None


@dataclass(frozen=True, kw_only=True)
class DescentSolver(base.PaperSolver):
    """Base of the solvers that descend on exact rows and release the end, with noise.

    ``weight_norm`` is D, a public guess of the best weights' norm: else 10, as long weights
    separate classes, or 1 for regression.
    """

    unsafe: bool = False
    weight_norm: base.Length | None = None

    composes: ClassVar[tuple[Measure, ...]] = ("gdp",)
    needs_smooth_loss: ClassVar[bool] = True
    needs_convex_loss: ClassVar[bool] = True

    def check(self, loss: Loss, budget: Budget, n_models: int = 1) -> None:
        """Refuse losses whose slopes have no proven error bound, too."""
        super().check(loss, budget, n_models)
        check_evaluated(self.name, loss)

    def _held(
        self, budget: Budget, n_models: int, descent: Any, sensitivity: float, published: float
    ) -> DescentPlan:
        """Hold the paper's noise, for its own sensitivity, to its claim, given the true one."""
        if self.calibration == "tight":
            return DescentPlan(budget, budget, descent, sensitivity, None)
        spends = budget
        if not budget.pure:  # pure noise is never less than the true sensitivity needs
            multiplier = published * _published_gaussian(budget, n_models)
            mu = math.sqrt(n_models) * sensitivity / multiplier
            epsilon = conversions.epsilon_from_mu(mu, budget.delta)
            spends = base.true_budget(self.name, budget, epsilon, self.unsafe)
        return DescentPlan(budget, spends, descent, sensitivity, published)

    @staticmethod
    def _mechanism(curator: Curator, plan: DescentPlan) -> Gaussian | L2Norm:
        """Open the curator's budget and return the noise, relative to the true sensitivity."""
        sensitivity = plan.sensitivity
        published = plan.published
        if plan.budget.pure:
            epsilon = curator.open("pure")
            if published is not None:
                epsilon *= min(1.0, sensitivity / published)
            return L2Norm(epsilon * (1 - 2.0**-50))
        total = curator.open("gdp")
        if published is None:
            return Gaussian(1 / math.sqrt(total) * (1 + 2.0**-50))
        multiplier = published * _published_gaussian(plan.budget, curator.n_models)
        return Gaussian(multiplier / sensitivity)

    def _noise_to_signal(
        self, problem: Problem, budget: Budget, lipschitz: float
    ) -> tuple[float, float]:
        """Return D and the squared size of the noise that a unit of descent costs, relative to D².

        L²·d·ln(1/δ)/(nεD)², with d² instead of d·ln(1/δ) for pure budgets.
        """
        norm = self.weight_norm or _guessed_norm(problem.loss)
        size = problem.n_parameters
        square = size**2 if budget.pure else size * math.log(1 / budget.delta)
        noise = square * (lipschitz / (problem.n_rows * budget.epsilon * norm)) ** 2
        return norm, max(noise, 1e-200)  # so that it can be divided by

    def _length(self, problem: Problem, budget: Budget, lipschitz: float) -> float:
        """Return the sum of step sizes that balances progress and noise for a convex objective.

        Zhang et al. 2017, theorem 3 (T steps of 1/β), with the constant 1 in its Θ(·).
        """
        smoothness = smoothness_of(problem)
        noise = self._noise_to_signal(problem, budget, lipschitz)[1]
        return float((smoothness**2 / noise) ** (1 / 3) / smoothness)


def _guessed_norm(loss: Loss) -> float:
    """Return D where the caller has no guess of the best weights' norm."""
    return 1.0 if loss.task == "regression" else 10.0


def _published_gaussian(budget: Budget, n_models: int) -> float:
    """Return the papers' σ/Δ = √(2 ln(2/δ))/ε, for one of several models."""
    share = base.part_of(budget, n_models)
    return math.sqrt(2 * math.log(2 / share.delta)) / share.epsilon


@dataclass(frozen=True, kw_only=True)
class OutPert(DescentSolver):
    """Descends on all exact rows and releases the last point, with noise.

    Parameters
    ----------
    calibration : {"tight", "published"}
        ``"published"``: the paper's sensitivities and its Gaussian constant √(2 ln(2/δ))/ε.
        ``"tight"``: the sensitivity that the same argument gives without slack, and exactly as
        much Gaussian noise as needed.
    unsafe : bool
        Run published constants that do not keep their promise; the guarantee has the true ε.
    iterations : int, optional
        T. By default by the paper's theorems 2 (strongly convex) and 3, which need
        ``weight_norm``.
    step_size : float, optional
        η, at most 2/(β + α) for a β-smooth objective with penalty α. By default 1/β, or
        1/(β + α) where the penalty decides T.
    weight_norm : float, optional
        D: public guess of the best weights' norm, for choosing T; 10 or (regression) 1 by default.

    `generalization_penalty` has the paper's choice of ``alpha`` for a small risk on new rows.
    """

    iterations: base.Iterations | None = None
    step_size: base.Length | None = None

    name: ClassVar[str] = "outpert"
    paper: ClassVar[str] = (
        "Zhang, Zheng, Mou, Wang: Efficient Private ERM for Smooth Objectives (IJCAI 2017), "
        "Algorithm 1"
    )
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE, Relation.ADD_REMOVE)
    demands: ClassVar[tuple[str, ...]] = (
        "the step is at most 2/(β + α), and when published at most 1/β",
        "the loss is one of logistic, huber-hinge and huber",
    )
    takes_weights: ClassVar[bool] = True
    needs_row_bound: ClassVar[bool] = True

    def generalization_penalty(
        self,
        loss: Loss,
        epsilon: float,
        *,
        n_rows: int,
        n_weights: int,
        row_norm: float = 1.0,
        failure: float = 0.1,
    ) -> float:
        """Return the penalty ``alpha`` that the paper chooses for a small risk on new rows.

        μ = √2·L^(1/2)·(βd)^(1/4)/(√(nεγ)·R), the end of section 3.1, for losses that are not
        strongly convex themselves. It depends on public numbers alone.

        Parameters
        ----------
        loss : Loss
            Smooth, with a bounded slope.
        epsilon : float
            The budget's ε.
        n_rows, n_weights : int
            n and d, the intercept included. Under replace-one the number of rows is public; else
            give a guess.
        row_norm : float
            Bound on a row's norm, which with the loss implies L and β.
        failure : float
            γ: the probability with which the paper's bound may fail.

        ``weight_norm`` of the solver is R.
        """
        number("epsilon", epsilon, least=1e-9, most=1e9)
        number("row_norm", row_norm, least=1e-9, most=1e9)
        number("failure", failure, least=1e-9, most=1.0)
        integer("n_rows", n_rows, least=1)
        integer("n_weights", n_weights, least=1)
        self._check_smooth(loss)
        lipschitz = loss.slope_bound * row_norm
        smoothness = float(loss.curvature_bound or math.inf) * row_norm**2
        radius = self.weight_norm or _guessed_norm(loss)
        size = math.sqrt(2.0 * lipschitz) * math.sqrt(math.sqrt(smoothness * n_weights))
        return size / (math.sqrt(n_rows * epsilon * failure) * radius)

    def _check_smooth(self, loss: Loss) -> None:
        if not loss.smooth or not math.isfinite(loss.slope_bound):
            raise NotSupported(
                f"the rule needs a smooth loss with a bounded slope; {loss.name!r} is not. Use "
                "logistic, huber-hinge or huber."
            )

    def _plan(self, problem: Problem, budget: Budget, n_models: int) -> DescentPlan:
        iterations, step = self._theorems(problem, base.part_of(budget, n_models))
        descent = GradientDescent(problem, self.iterations or iterations, self.step_size or step)
        if self.calibration == "published":
            check_step(descent.step, (1 + ROUNDED) / descent.smoothness)
        sensitivity = descent.sensitivity(budget.relation)
        return self._held(budget, n_models, descent, sensitivity, _published_sensitivity(descent))

    def _solve(
        self, problem: Problem, curator: Curator, plan: DescentPlan, record: base.Recorder
    ) -> base.Solution:
        descent = plan.descent
        sensitivity = plan.sensitivity
        mechanism = self._mechanism(curator, plan)
        weights = curator.release(
            descent.run,
            size=problem.n_parameters,
            sensitivity=sensitivity,
            proven_for=curator.relation,
            magnitude=descent.weight_bound,
            mechanism=mechanism,
        )
        scale = mechanism.scale(sensitivity)
        record(ReleasedDescent(descent.iterations, descent.step, sensitivity, scale), weights)
        conditions = (
            f"every row's gradient has norm at most {problem.lipschitz:g}, because rows are scaled "
            f"to norm {problem.row_norm:g} and the loss has a bounded slope",
            f"the loss is convex, its mean plus penalty {descent.smoothness:g}-smooth, and the "
            f"step {descent.step:g} at most 2/(β + α)",
            f"only the end of {descent.iterations} steps is released; it moves by at most "
            f"{sensitivity:.3g}",
        )
        return base.Solution(weights, record.trace, conditions)

    def _theorems(self, problem: Problem, budget: Budget) -> tuple[int, float]:
        """Choose T and η by theorem 2 or 3, the one with the smaller error; Θ(·) has constant 1."""
        smoothness = smoothness_of(problem)
        norm, noise = self._noise_to_signal(problem, budget, problem.lipschitz)
        alpha = problem.penalty.alpha
        gain = alpha**2 / noise
        error = (smoothness * norm**6 * noise) ** (1 / 3)  # of theorem 3
        if gain > math.e and smoothness * norm**2 / gain < error:
            rate = (alpha**2 + smoothness**2) / (alpha * smoothness)
            iterations = rate * math.log(gain)
            step = 1 / (alpha + smoothness)
        else:
            step = 1 / smoothness
            iterations = self._length(problem, budget, problem.lipschitz) / step
        return max(1, min(math.ceil(iterations), MOST_ITERATIONS)), step


def _published_sensitivity(descent: GradientDescent) -> float:
    """Return the paper's lemma 2, or lemma 3 where its condition holds and it is smaller."""
    problem = descent.problem
    beta = descent.smoothness
    alpha = problem.penalty.alpha
    convex = 3 * problem.lipschitz * descent.iterations * descent.step / problem.n_rows
    if alpha == 0 or descent.step > (1 + ROUNDED) / (alpha + beta):
        return convex
    strongly = 5 * problem.lipschitz * (alpha + beta) / (problem.n_rows * alpha * beta)
    return min(convex, strongly)


@dataclass(frozen=True)
class Rounds(base.TraceEntry):
    """Number of rounds in a part, deviation of the noise per coordinate, and last step size."""

    rounds: int
    noise_scale: float
    last_step: float


@dataclass(frozen=True)
class _RoundPlan(base.Plan):
    """The noise of one round, the bound on a row's gradient, and the step of each round."""

    mechanism: SampledGaussian
    clip: float
    steps: FloatArray


@dataclass(frozen=True, kw_only=True)
class RRPSGD(base.PaperSolver):
    """Takes noisy steps on single random rows and stops at a random round.

    Parameters
    ----------
    calibration : {"tight", "published"}
        ``"published"``: noise of variance 4L² ln(3n/δ) ln(2/δ)/ε² in each round, for ε ≤ 1.
        ``"tight"``: the least noise with which ``max_rounds`` rounds on one random row each keep
        the budget.
    unsafe : bool
        Run published constants that do not keep their promise; the guarantee has the true ε.
    max_rounds : int, optional
        Rounds to plan for; the random round is among them. By default n², but no more than
        200,000, nor than 20 million divided by the number of weights (200 are always allowed).
    step_size : float, optional
        η, below 2/β for a β-smooth objective. By default min(1/β, D/(σ√max_rounds)) with
        σ² = 4L² + d·(noise variance), as the paper's theorem 5 has it.
    schedule : {"constant", "sqrt"}
        The same step in each round, or η/√(k + 1) in round k.
    distance : float, optional
        D: public guess of √(2(F(0) − min F)/β), for the default step. By default, √(2φ(0)/β) for
        classification and 1 for regression.
    gradient_clip : float, optional
        L, the bound on a row's gradient norm. By default what the loss and ``data_norm`` imply.
    """

    unsafe: bool = False
    max_rounds: Annotated[int, partial(integer, most=10**8)] | None = None
    step_size: base.Length | None = None
    schedule: Literal["constant", "sqrt"] = "constant"
    distance: _Bound | None = None
    gradient_clip: _Bound | None = None

    name: ClassVar[str] = "rrpsgd"
    paper: ClassVar[str] = (
        "Zhang, Zheng, Mou, Wang: Efficient Private ERM for Smooth Objectives (IJCAI 2017), "
        "Algorithm 2"
    )
    takes_blocks: ClassVar[bool] = False
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    demands: ClassVar[tuple[str, ...]] = (
        "steps are below 2/β, for the random round's sake",
        "data_norm is given, and gradient_clip where the slope of the loss is not bounded",
        "published: epsilon is at most 1 per model",
    )
    needs_delta: ClassVar[bool] = True
    needs_smooth_loss: ClassVar[bool] = True

    def _plan(self, problem: Problem, budget: Budget, n_models: int) -> _RoundPlan:
        if self.calibration == "published" and base.part_of(budget, n_models).epsilon > 1:
            raise NotSupported(
                f"The published noise of {self.name!r} is for epsilon up to 1 per model; got "
                f"{budget.epsilon:g} for {n_models}. Use calibration='tight'."
            )
        if problem.row_norm is None:
            raise ValueError(
                f"solver={self.name!r} needs the smoothness of the objective. Pass data_norm, for "
                "example data_norm=1.0: longer rows are scaled down to it."
            )
        clip = min(problem.lipschitz, self.gradient_clip or math.inf)
        if not 1e-9 <= clip <= 1e9:
            raise ValueError(
                f"a bound on the norm of a row's gradient between 1e-9 and 1e9 is needed; it is "
                f"{clip:g} here. Pass gradient_clip, for example gradient_clip=1.0."
            )
        smoothness = smoothness_of(problem)
        if self.step_size is not None and not self.step_size < 2 / smoothness:
            raise ValueError(
                f"step_size must be below 2/β = {2 / smoothness:g}; got {self.step_size:g}."
            )
        affordable = max(200, MOST_NUMBERS // problem.n_parameters)
        rounds = self.max_rounds or min(problem.n_rows**2, MOST_ROUNDS, affordable)
        rate = 1 / problem.n_rows
        uses = rounds * n_models
        spends = budget
        if self.calibration == "published":
            share = base.part_of(budget, n_models)
            logs = math.log(3 * problem.n_rows / share.delta) * math.log(2 / share.delta)
            multiplier = 2 * math.sqrt(logs) / share.epsilon
        else:
            multiplier = noise_multiplier_for(budget, rate, uses, sampling="one_row")
        mechanism = SampledGaussian(multiplier, rate, budget.relation, sampling="one_row")
        if self.calibration == "published":
            epsilon = mechanism.epsilon(uses, budget.delta)
            spends = base.true_budget(self.name, budget, epsilon, self.unsafe)
        steps = self._steps(problem, rounds, clip, multiplier)
        return _RoundPlan(budget, spends, mechanism, clip, steps)

    def _solve(
        self, problem: Problem, curator: Curator, plan: _RoundPlan, record: base.Recorder
    ) -> base.Solution:
        mechanism = plan.mechanism
        clip = plan.clip
        steps = plan.steps
        curator.open_plan(mechanism, steps.size)
        stop = 1 + curator.draw_index(chances(steps, smoothness_of(problem)))
        weights: FloatArray = np.zeros(problem.n_parameters)
        for part in np.array_split(steps[:stop], min(ENTRIES, stop)):
            descent = Descent(
                problem.loss, weights, clip, part, order="one_row", alpha=problem.penalty.alpha
            )
            weights = curator.descend(descent, mechanism)
            scale = mechanism.noise_multiplier * clip
            record(Rounds(part.size, scale, float(part[-1])), weights)
        conditions = (
            f"each row's gradient is clipped to norm {clip:g}",
            f"every round uses one row, drawn uniformly from bits that nobody knows; the noise is "
            f"calibrated for all {steps.size} rounds that could have been run",
            "the round to stop at was drawn without looking at the rows",
        )
        return base.Solution(weights, record.trace, conditions)

    def _steps(self, problem: Problem, rounds: int, clip: float, multiplier: float) -> FloatArray:
        smoothness = smoothness_of(problem)
        step = self.step_size
        if step is None:
            deviation = clip * math.sqrt(4 + problem.n_parameters * multiplier**2)
            distance = self.distance or 1.0
            if self.distance is None and problem.loss.task == "classification":
                # D_F = √(2(F(0) − min F)/β) is at most √(2φ(0)/β), as losses are not negative
                start = float(np.max(problem.loss.value(np.zeros(2), np.array([-1.0, 1.0]))))
                distance = math.sqrt(2 * start / smoothness)
            step = min(1 / smoothness, distance / (deviation * math.sqrt(rounds)))
        if self.schedule == "sqrt":
            falling: FloatArray = step / np.sqrt(np.arange(1.0, rounds + 1))
            return falling
        return np.full(rounds, step)


def chances(steps: FloatArray, smoothness: float) -> FloatArray:
    """Return the weights of theorem 5: stop after round k with probability ∝ 2η_k − βη_k²."""
    return steps * (2 - smoothness * steps)
