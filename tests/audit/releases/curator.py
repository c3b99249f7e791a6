"""Attacks on single releases of a curator, of a preparation's step or of a score.

Each attack asks the real code one question many times, on two tables that differ in one row and
move the release as far as possible (`harness` explains how that is fast).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np

from discreet.accounting.calibration import noise_multiplier_for
from discreet.accounting.subsampling import SampledGaussian
from discreet.audit.attack import Attack
from discreet.core import (
    AdditiveMechanism,
    Budget,
    Curator,
    ExponentialMechanism,
    Gaussian,
    L2Norm,
    Laplace,
    LaplaceNoisyMax,
    PermuteAndFlip,
    Relation,
    SelectionMechanism,
)
from discreet.core.bits import Bits, SystemBits
from discreet.core.questions import (
    CandidateLosses,
    CornerGradient,
    CurvatureSum,
    Gradient,
    LineLosses,
    ScoreSquareSum,
    ScoreSum,
    ScoreVariances,
)
from discreet.exact.pair_questions import BestPairs, PairScores
from discreet.objectives import Hinge, Huber
from discreet.rows.moments import row_sum
from tests.audit.internals import from_grid, on_grid

from .harness import (
    BEYOND,
    COPIES,
    FloatArray,
    Harness,
    Table,
    against,
    changed,
    copied,
    projection,
)
from .summaries import summary_attacks

__all__ = ["release_attacks"]

LOG_ODDS = 0.7
"""Log-odds against the choice that the attack counts, in the world that favours it.

A choice that is rare in both worlds reveals most, but takes more trials.
"""

RATE = 0.2
"""Sampling rate of the sampled gradients."""


def release_attacks(*, epsilon: float, delta: float, bits: Bits | None = None) -> list[Attack]:
    """Return attacks on every question that a curator answers, on preparations and on scores.

    Parameters
    ----------
    epsilon, delta : float
        Guarantee of each release, δ > 0. Releases with pure privacy have δ = 0.
    bits : Bits, optional
        Source of noise; by default the operating system, as in a fit. Noisy scores always use the
        latter.

    Returns
    -------
    list of Attack
        Some have the same subject: other tables, or the other relation.
    """
    harness = Harness(float(epsilon), float(delta), SystemBits() if bits is None else bits)
    parts = (_vectors, _gradients, _scores, _selections, _pairs, summary_attacks)
    return [attack for part in parts for attack in part(harness)]


# -- vectors ---------------------------------------------------------------------------------------


def _vectors(harness: Harness) -> Iterator[Attack]:
    """Attack noisy vectors, drawn directly and by a curator's release."""
    moves: list[tuple[AdditiveMechanism, FloatArray, int]] = [
        (Gaussian(1 / harness.mu), np.array([0.48, 0.6, 0.64]), 2),
        (Laplace(harness.epsilon), np.array([0.5, 0.3, 0.2]), 1),
        (L2Norm(harness.epsilon), np.array([0.48, 0.6, 0.64]), 2),
    ]
    for mechanism, move, norm in moves:
        pure = not isinstance(mechanism, Gaussian)

        def block(
            world: int, count: int, mechanism: AdditiveMechanism = mechanism, move: Any = move
        ) -> FloatArray:
            noise, grid, _ = mechanism.draw_block(
                harness.noise(), count, move.size, sensitivity=1.0, magnitude=1.0
            )
            return from_grid(on_grid(world * move, grid) + noise, grid)

        def nearer(outputs: FloatArray, move: Any = move, norm: int = norm) -> FloatArray:
            distances = [np.linalg.norm(outputs - at, norm, axis=1) for at in (0 * move, move)]
            return np.asarray(distances[0] - distances[1])

        yield harness.attack(
            f"vector noise: {mechanism.name}",
            "values one sensitivity apart in several coordinates",
            Relation.REPLACE_ONE,
            block,
            pure=pure,
            learn=True,
            which_value_is_nearer=projection(move) if norm == 2 and not pure else nearer,
        )
    row, relation = np.array([0.6, 0.8]), Relation.ADD_REMOVE

    def release(curator: Curator) -> FloatArray:
        return curator.release(
            lambda rows: row_sum(rows).values,
            size=2,
            sensitivity=1 + 1e-9,
            proven_for=relation,
            magnitude=10.0,
            mechanism=L2Norm(harness.epsilon),
        )

    tables = ((np.zeros((1, 2)), np.ones(1)), (row[None, :], np.ones(1)))
    yield harness.attack(
        "release: a proven release",
        "one row of norm 1, or none",
        relation,
        harness.asking(tables, relation, release, norm=1.0),
        learn=True,
        projection_on_the_row=projection(row),
    )


# -- gradients -------------------------------------------------------------------------------------


def _gradients(harness: Harness) -> Iterator[Attack]:
    """Attack a clipped gradient, measured once, measured twice, or of a sample."""
    row = BEYOND * np.array([0.6, 0.8])
    start = np.zeros(2 * COPIES)
    once, half = Gaussian(1 / harness.mu), Gaussian(math.sqrt(2) / harness.mu)

    def plain(curator: Curator) -> FloatArray:
        return curator.ask(Gradient(Hinge(), start, clip=1.0), once).values

    def refined(curator: Curator) -> FloatArray:
        first = curator.ask(Gradient(Hinge(), start, clip=1.0), half)
        return curator.refine(first, mechanism=half).values

    for relation in Relation:
        rows = (changed(relation, row), row)
        pair = f"a row of {BEYOND:g} times the norm of the clip, {against(relation)}"
        tables = (copied(rows[0], COPIES), copied(rows[1], COPIES))
        draws = {
            "gradient": harness.asking(tables, relation, plain, copies=COPIES),
            "gradient, measured twice": harness.asking(tables, relation, refined, copies=COPIES),
            "gradient of a sample": _sampled(harness, tables, relation),
        }
        for name, draw in draws.items():
            yield harness.attack(
                f"release: {name}",
                pair,
                relation,
                draw,
                pure=False,
                learn=name == "gradient",
                projection_on_the_row=projection(row),
            )


def _sampled(
    harness: Harness, tables: tuple[Table, Table], relation: Relation
) -> Callable[[int, int], FloatArray]:
    """Return a function that draws gradients of Poisson samples, independent per copy."""
    budget = Budget(harness.epsilon, harness.delta, relation)
    step = SampledGaussian(noise_multiplier_for(budget, RATE, 1), RATE, relation)

    def draw(world: int, count: int) -> FloatArray:
        curator = harness.curator(tables[world], relation, remember=False)
        asks, start = -(-count // COPIES), np.zeros(2 * COPIES)
        curator.open_plan(step, asks)
        answers = [
            curator.sampled_gradient(Gradient(Hinge(), start, clip=1.0), step).values
            for _ in range(asks)
        ]
        return np.concatenate(answers).reshape(-1, 2)[:count]

    return draw


# -- scores ----------------------------------------------------------------------------------------


def _scores(harness: Harness) -> Iterator[Attack]:
    """Attack scores, Hessians and squared scores: a row of just the norm of the clip, or another.

    Longer rows count less.
    """
    mechanism, loss, start = Gaussian(1 / harness.mu), Huber(1.0), np.zeros(2)

    def score(curator: Curator) -> FloatArray:
        return curator.ask(ScoreSum(loss, start, clip=1.0), mechanism).values

    def hessian(curator: Curator) -> FloatArray:
        return curator.ask(CurvatureSum(loss, start, clip=1.0), mechanism).values

    def squares(curator: Curator) -> FloatArray:
        return curator.ask(ScoreSquareSum(loss, start, clip=1.0), mechanism).values

    def variances(curator: Curator) -> FloatArray:
        asked = ScoreVariances(loss, start, 1.0, 2.0 * np.eye(2), 1.0)
        return curator.ask(asked, mechanism).values

    first, second = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    for relation in Relation:
        none = relation is Relation.ADD_REMOVE
        across = [1.0, 0.0, 0.0 if none else -1.0]
        cases = [
            ("score", 0 * first if none else -first, 9.0, score, [1.0, 0.0]),
            ("Hessian", 0 * first if none else second, 0.0, hessian, across),
            ("squared score", 0 * first, 9.0, squares, [1.0]),
            ("variances", 0 * first if none else second, 9.0, variances, across[::2]),
        ]
        for name, other, target, asked, direction in cases:
            tables = ((other, np.full(1, -target)), (first, np.full(1, -target)))
            yield harness.attack(
                f"release: {name}",
                "a row of the norm of the clip, or none, its negative or one across",
                relation,
                harness.asking(tables, relation, asked),
                pure=False,
                projection_on_the_row=projection(np.array(direction)),
            )


# -- selections ------------------------------------------------------------------------------------


def _selections(harness: Harness) -> Iterator[Attack]:
    """Attack choices among candidates, where one row separates the scores as far as possible."""
    kinds: list[type[SelectionMechanism]] = [ExponentialMechanism, PermuteAndFlip, LaplaceNoisyMax]
    for relation in Relation:
        for kind in kinds:
            if kind is not LaplaceNoisyMax:
                monotone = relation is Relation.ADD_REMOVE
                yield _selection(harness, "step", relation, kind(harness.epsilon, monotone), 1)
            for question in ("corner", "candidate"):
                yield _selection(harness, question, relation, kind(harness.epsilon, False), 1)
        many = ExponentialMechanism(harness.epsilon, monotone=False)
        yield _selection(harness, "corner", relation, many, 300)  # more than are drawn at once


def _selection(
    harness: Harness, question: str, relation: Relation, mechanism: SelectionMechanism, width: int
) -> Attack:
    """Return the attack on one question; the last row favours the second candidate in world 1.

    In world 0 it is missing, or favours the first. Public losses favour the first, so that the
    second is chosen rarely.
    """
    X, y = np.zeros((3, width)), np.array([1.0, -1.0, 1.0])
    X[2] = BEYOND
    other = X.copy()
    other[2] = changed(relation, X[2])
    if question == "step":  # one of its two losses is 1, the other 0
        gap, sensitivity = 1.0, 1.0
    else:  # one score rises by 1 and the other falls
        gap, sensitivity = 2.0, float(relation.rows_changed)
    ahead = gap + LOG_ODDS * mechanism.scale(sensitivity)

    def ask(curator: Curator) -> FloatArray:
        public = np.array([0.0, ahead])
        if question == "step":
            from_, towards = np.array([-1.0]), np.array([-2.0])
            chosen = curator.ask(
                LineLosses(
                    Hinge(), from_, towards, np.array([0.0, 1.0]), clip=1.0, public_losses=public
                ),
                mechanism,
            )
        elif question == "corner":
            _, sign = curator.ask(
                CornerGradient(
                    Hinge(), np.zeros(width), clip=1.0, public_gradient=np.full(width, ahead / 2)
                ),
                mechanism,
            )
            chosen = int(sign > 0)
        else:
            chosen = curator.ask(
                CandidateLosses(
                    Hinge(), np.array([[-1.0], [1.0]]), np.zeros(1), clip=1.0, public_losses=public
                ),
                mechanism,
            )
        return np.array([float(chosen)])

    among = f" of {2 * width}" if width > 1 else ""
    return harness.attack(
        f"release: chosen {question}{among}, {mechanism.name}",
        f"a row that separates the scores, {against(relation)}",
        relation,
        harness.asking(((other, y), (X, y)), relation, ask),
    )


# -- pairs of columns ------------------------------------------------------------------------------


def _pairs(harness: Harness) -> Iterator[Attack]:
    """Attack the choice of pairs of columns, and the scores of ten of them."""
    for relation in Relation:
        yield _best_pair(harness, relation)
        yield _pair_scores(harness, relation)


def _best_pair(harness: Harness, relation: Relation) -> Attack:
    """Return the attack on a choice of two pairs: one row raises one score and lowers the other.

    Half of the other rows put the first pair ahead: their residuals cancel in the second.
    """
    mechanism = ExponentialMechanism(harness.epsilon, monotone=False)
    ahead = 2 + LOG_ODDS * mechanism.scale(float(relation.rows_changed))
    cells = (np.arange(2),) * 4
    pairs = ((0, 1), (2, 3))
    many = math.ceil(ahead / 2)
    blocks = [
        ([0, 0, 1, 1], -1.0, 4),
        ([1, 1, 0, 0], 1.0, 4),
        ([0, 1, 0, 1], ahead / (2 * many), many),
        ([1, 0, 0, 1], -ahead / (2 * many), many),
        ([0, 0, 0, 0], 1.0, 1),
    ]
    X = np.vstack([np.tile(np.array(row, dtype=float), (count, 1)) for row, _, count in blocks])
    y = np.concatenate([np.full(count, residual) for _, residual, count in blocks])
    other = y.copy()
    other[-1] = 0.0 if relation is Relation.ADD_REMOVE else -1.0

    def ask(curator: Curator) -> FloatArray:
        chosen = curator.ask(BestPairs(cells, pairs, 1), mechanism)
        return np.array([float(chosen[0])])

    return harness.attack(
        "release: chosen pair of columns",
        f"a row that takes 1 from one score and adds 1 to the other, {against(relation)}",
        relation,
        harness.asking(((X, other), (X, y)), relation, ask),
        the_second=lambda outputs: outputs[:, 0],
    )


def _pair_scores(harness: Harness, relation: Relation) -> Attack:
    """Return the attack on noisy scores: one row raises all of them."""
    pairs = tuple(combinations(range(5), 2))
    cells = (np.arange(2),) * 5
    X = np.zeros((9, 5))
    y = np.ones(9)
    other = y.copy()
    other[-1] = 0.0 if relation is Relation.ADD_REMOVE else -1.0
    mechanism = Gaussian(1 / harness.mu)

    def ask(curator: Curator) -> FloatArray:
        return curator.ask(PairScores(cells, pairs), mechanism).values

    return harness.attack(
        "release: scores of pairs of columns",
        f"a row with the residual 1 in the same cells as others, {against(relation)}",
        relation,
        harness.asking(((X, other), (X, y)), relation, ask),
        pure=False,
        projection_on_the_move=projection(np.ones(len(pairs))),
    )
