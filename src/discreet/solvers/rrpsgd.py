"""RRPSGD: noisy steps on single rows, stopped at a random round; for losses that are not convex.

Zhang, Zheng, Mou & Wang, "Efficient Private ERM for Smooth Objectives", IJCAI 2017, Algorithm 2.
At a round drawn with probability ∝ 2η − βη², the expected squared gradient norm of a smooth
objective is small (Ghadimi & Lan 2013), convex or not.

Proof, and differences from the paper: docs/proofs/rrpsgd.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np

from discreet.accounting.subsampling import SampledGaussian, noise_multiplier_for
from discreet.core import Budget, Curator, Relation
from discreet.errors import NotSupported
from discreet.exact import Descent, smoothness_of
from discreet.objectives import Problem
from discreet.solvers import base
from discreet.validate import FloatArray, integer, number

_Bound = Annotated[float, partial(number, least=1e-9, most=1e9)]

MOST_ROUNDS = 200_000  # rounds planned by default at most
MOST_NUMBERS = 2 * 10**7  # rounds times weights by default at most, or 200 rounds
ENTRIES = 10  # number of parts that a run is reported in


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
