"""PrivGene: a genetic algorithm whose every generation is decided by one private choice.

Zhang, Xiao, Yang, Zhang & Winslett, "PrivGene: Differentially Private Model Fitting Using Genetic
Algorithms", SIGMOD 2013, as compared by Lee & Kifer 2018. Children of the last winners are made in
public: by crossover (each weight from one of two winners) and mutation (one weight moves by a
shrinking amount). The rows only decide which child wins. A row's change of loss from the last
winner is clipped to a bound that shrinks with the mutations, so late choices get less noise.

Differences from the paper:

- a generation has one winner, and a row's change of loss is clipped, so the range is known.

Proof: docs/proofs/privgene.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import numpy as np

from discreet.accounting.budget import Measure
from discreet.accounting.planning import affordable_selection
from discreet.core import Budget, Curator, ExponentialMechanism, Relation
from discreet.core.questions import CandidateLosses
from discreet.objectives import Problem
from discreet.solvers import base
from discreet.validate import FloatArray, integer, number

_Factor = Annotated[float, partial(number, least=1e-9, most=1e6)]

FEWEST = 20
"""Least default number of generations."""

MOST = 100
"""Largest default number of generations."""

MOST_WEIGHTS = 10**8
"""Largest number of weights of all candidates of a generation together (800 MB)."""


@dataclass(frozen=True)
class Generation(base.TraceEntry):
    """Largest mutation, clip of a row's change of loss, distance moved and ε of one generation."""

    mutation: float
    clip: float
    moved: float
    epsilon: float


@dataclass(frozen=True, kw_only=True)
class PrivGene(base.PaperSolver):
    """Breeds candidates by a genetic algorithm in which a private choice selects the winner.

    Parameters
    ----------
    calibration : {"tight", "published"}
        ``"published"``: ε/T for each of T choices. ``"tight"``: composed by bounded range in zCDP
        where that allows more.
    generations : int, optional
        T. By default growth·n·ε, between 20 and 100.
    growth : float
        Generations per row and ε.
    population, winners : int
        Candidates in a generation, the last winner included, and last winners that are crossed.
    mutation, last_mutation : float
        Largest change of a weight by mutation in the first and in the last generation; it shrinks
        by a constant factor in between.
    objective_clip : float
        Bound on a row's change of loss, in units of the current mutation. 1 cuts nothing where
        entries of rows and slopes of the loss are within ±1 and one weight was mutated.
    seed : int, optional
        Seed of the candidates, which are public; by default from where the noise comes from. It
        does not seed the noise of choices.
    """

    generations: Annotated[int, partial(integer, most=10**6)] | None = None
    growth: _Factor = 1.25e-3
    population: Annotated[int, partial(integer, least=2, most=10**5)] = 100
    winners: Annotated[int, partial(integer, most=10**3)] = 2
    mutation: _Factor = 1.0
    last_mutation: _Factor = 0.1
    objective_clip: _Factor = 1.0
    seed: Annotated[int, partial(integer, least=0, most=2**64 - 1)] | None = None

    name: ClassVar[str] = "privgene"
    paper: ClassVar[str] = (
        "Zhang, Xiao, Yang, Zhang & Winslett, PrivGene: Differentially Private Model Fitting Using "
        "Genetic Algorithms, 2013"
    )
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE, Relation.ADD_REMOVE)
    takes_units: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True
    composes: ClassVar[tuple[Measure, ...]] = ("pure", "zcdp", "gdp")
    demands: ClassVar[tuple[str, ...]] = (
        "each row's change of loss from the last winner is clipped",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.last_mutation > self.mutation:
            raise ValueError(
                f"last_mutation must be at most mutation={self.mutation!r}; got "
                f"{self.last_mutation!r}."
            )

    def _plan(self, problem: Problem, budget: Budget, n_models: int) -> base.ChoicePlan:
        if self.population * problem.n_parameters > MOST_WEIGHTS:
            raise ValueError(
                f"population={self.population:,} times {problem.n_parameters:,} weights is more "
                f"than {MOST_WEIGHTS:,}. Use a smaller population."
            )
        count = self.generations
        if count is None:
            wanted = self.growth * problem.n_rows * budget.epsilon / n_models
            count = round(min(max(wanted, FEWEST), MOST))
        if self.calibration == "published":
            measure: Measure = "pure"
            epsilon = budget.epsilon / (count * n_models) * (1 - 2.0**-50)
        else:
            measure, epsilon = affordable_selection(budget, count * n_models)
        mechanism = ExponentialMechanism(epsilon, monotone=False)
        return base.ChoicePlan(budget, budget, measure, mechanism, count)

    def _solve(
        self, problem: Problem, curator: Curator, plan: base.ChoicePlan, record: base.Recorder
    ) -> base.Solution:
        mechanism = plan.mechanism
        count = plan.count
        curator.open(plan.measure)
        seeded = self.seed is not None
        generator = np.random.default_rng(self.seed) if seeded else curator.generator()
        pool: list[FloatArray] = [np.zeros(problem.n_parameters)]
        shrink = (self.last_mutation / self.mutation) ** (1 / max(1, count - 1))
        for t in range(count):
            mutation = self.mutation * shrink**t
            clip = self.objective_clip * mutation
            parent = pool[-1]
            candidates = self._breed(pool, mutation, generator)
            squares = np.einsum("ij,ij->i", candidates, candidates)
            penalties = problem.n_rows * 0.5 * problem.penalty.alpha * squares
            question = CandidateLosses(problem.loss, candidates, parent, clip, penalties)
            chosen = curator.ask(question, mechanism)
            winner = candidates[chosen]
            moved = float(np.linalg.norm(winner - parent))
            if moved > 0:
                pool = [*pool, winner][-self.winners :]
            record(Generation(mutation, clip, moved, mechanism.epsilon), pool[-1])
        conditions = (
            f"each row's change of loss from the last winner is clipped to {self.objective_clip:g} "
            "times the current mutation",
            f"{count} private choices of a winner, each {mechanism.epsilon:.4g}-DP; candidates are "
            "made in public",
        )
        return base.Solution(pool[-1], record.trace, conditions)

    def _breed(
        self, pool: list[FloatArray], mutation: float, generator: np.random.Generator
    ) -> FloatArray:
        """Return the last winner and its children: crossed with an earlier one, then mutated."""
        parent = pool[-1]
        candidates = np.tile(parent, (self.population, 1))
        children = candidates[1:]
        earlier = np.array(pool[:-1] or pool)
        crossed = np.flatnonzero(generator.random(len(children)) < 0.5)  # the others only mutate
        others = earlier[generator.integers(len(earlier), size=crossed.size)]
        heads = generator.bytes(crossed.size * (-(-parent.size // 8)))  # a coin for each weight
        coins = np.frombuffer(heads, dtype=np.uint8).reshape(crossed.size, -(-parent.size // 8))
        swapped = np.unpackbits(coins, axis=1, count=parent.size).view(bool)
        children[crossed] = np.where(swapped, others, parent)
        at = generator.integers(parent.size, size=len(children))
        changes = generator.uniform(-mutation, mutation, size=len(children))
        children[np.arange(len(children)), at] += changes
        return candidates
