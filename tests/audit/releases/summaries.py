"""Attacks on releases before and after a model: sums, ranges, preparation steps, scores."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from discreet.audit.attack import Attack, Statistic
from discreet.core import Budget, Curator, ExponentialMechanism, Gaussian, Laplace, Relation
from discreet.core.questions import (
    ClassCounts,
    ColumnBounds,
    EdgeCounts,
    ExponentCounts,
    MedianNorm,
    MedianSlope,
    OuterSum,
    RowSum,
    SquareSum,
    TargetMoment,
    TargetSum,
)
from discreet.core.score_questions import CorrectCount
from discreet.core.session import Session
from discreet.estimators import LinearRegression, LinearSVC
from discreet.exact.cell_questions import CellBounds, KindVote, TextCounts
from discreet.objectives import Squared
from discreet.preparation import Bounds, Centre, FeatureMap, Radius, Scale, Spread, Step, Whiten
from discreet.rows import EXPONENTS, OCTAVES
from discreet.rows.scored import scored_rows
from tests.audit.internals import (
    RowNorms,
    StabilityHistogram,
    Subgroups,
    Terms,
    count_confusion,
    count_errors,
    edges,
    noisy_limit,
    norm_candidates,
    score_classifier,
    score_histogram,
    score_regressor,
)

from .harness import (
    BEYOND,
    COPIES,
    UNLIMITED,
    Ask,
    FloatArray,
    Harness,
    Table,
    against,
    changed,
    copied,
    projection,
)

__all__ = ["summary_attacks"]

MATRICES = 30
"""Copies of the changed row in one second moment, whose size is quadratic in it."""


def summary_attacks(harness: Harness) -> Iterator[Attack]:
    """Yield attacks on moments, ranges, preparation steps, drafts of tables, and scores."""
    for part in (_moments, _ranges, _steps, _drafts, _scores):
        yield from part(harness)


def _moments(harness: Harness) -> Iterator[Attack]:
    """Attack sums of rows, of their squares and products, and of targets."""
    gaussian = Gaussian(1 / harness.mu)
    first, second = np.array([2.0, 0.0]), np.array([0.0, 2.0])
    for relation in Relation:
        other = "or none" if relation is Relation.ADD_REMOVE else "or an orthogonal one"
        pair = f"a row beyond the norm bound, {other}"

        def sums(curator: Curator) -> FloatArray:
            return curator.ask(RowSum(curator.row_norm), gaussian).values

        def squares(curator: Curator) -> FloatArray:
            return curator.ask(SquareSum(curator.row_norm), gaussian).values

        def short_squares(curator: Curator) -> FloatArray:
            return curator.ask(SquareSum(curator.row_norm, share=0.25), gaussian).values

        def products(curator: Curator) -> FloatArray:
            matrix = (
                curator.ask(OuterSum(curator.row_norm), gaussian)
                .matrix()
                .reshape(MATRICES, 2, -1, 2)
            )
            own = matrix[np.arange(MATRICES), :, np.arange(MATRICES)]
            return own[:, [0, 1, 0], [0, 1, 1]]

        turned = (changed(relation, first), first)
        crossed = (changed(relation, first, second), first)
        cases: list[tuple[str, str, Any, Ask, int, FloatArray]] = [
            ("sum of rows", "", turned, sums, COPIES, turned[1] - turned[0]),
            ("sum of squares", pair, crossed, squares, COPIES, crossed[1] - crossed[0]),
            ("sum of short squares", pair, crossed, short_squares, COPIES, crossed[1] - crossed[0]),
            ("sum of products", pair, crossed, products, MATRICES, np.array([1.0, -1.0, 0.0])),
        ]
        for name, words, rows, ask, copies, direction in cases:
            tables = (copied(rows[0], copies), copied(rows[1], copies))
            if name == "sum of products" and relation is Relation.ADD_REMOVE:
                direction = np.array([1.0, 0.0, 0.0])
            yield harness.attack(
                f"release: {name}",
                words or f"a row beyond the norm bound, {against(relation)}",
                relation,
                harness.asking(tables, relation, ask, copies=copies, norm=1.0),
                pure=False,
                projection_on_the_row=projection(direction),
            )
        yield from _with_targets(harness, relation, gaussian)
        yield _exponents(harness, relation, gaussian)
        yield _exponents(harness, relation, gaussian, largest=True)
        yield _edges(harness, relation, gaussian)


def _with_targets(harness: Harness, relation: Relation, gaussian: Gaussian) -> Iterator[Attack]:
    """Attack sums with targets: a target beyond its bound, against none or its negative."""
    X = np.zeros((1, 1))

    def target(curator: Curator) -> FloatArray:
        return curator.ask(TargetSum(clip=1.0), gaussian).values

    def counts(curator: Curator) -> FloatArray:
        return curator.ask(ClassCounts(2), gaussian).values

    def joint(curator: Curator) -> FloatArray:
        return curator.ask(TargetMoment(clip=1.0, target_weight=1.0), gaussian).values

    lone = -BEYOND if relation is Relation.REPLACE_ONE else 0.0
    row = np.array([[BEYOND * (relation is Relation.REPLACE_ONE)]])
    cases = {
        "sum of targets": (((X, np.array([lone])), (X, np.array([BEYOND]))), target),
        "products of rows and targets": (((row, np.zeros(1)), (X, np.array([BEYOND]))), joint),
    }
    other = -1.0 if relation is Relation.ADD_REMOVE else 0.0  # of no class, or of another one
    cases["counts of classes"] = ((X, np.array([other])), (X, np.array([1.0]))), counts
    directions = {target: np.array([1.0]), counts: np.array([-1.0 - other, 1.0])}
    for name, (tables, ask) in cases.items():
        direction = directions.get(ask, np.array([-row[0, 0], 0.0, BEYOND]))
        yield harness.attack(
            f"release: {name}",
            "a target beyond its bound, or another row",
            relation,
            harness.asking(tables, relation, ask),
            pure=False,
            projection_on_the_row=projection(direction),
        )


def _edges(harness: Harness, relation: Relation, gaussian: Gaussian) -> Attack:
    """Attack counts between edges: both entries of a row in other cells, or no row."""
    replaced = relation is Relation.REPLACE_ONE
    edges = np.array([[0.0, 1.0, 100.0]] * 2)
    rows = (np.full((int(replaced), 2), 0.3), np.full((1, 2), 30.0))

    def ask(curator: Curator) -> FloatArray:
        return curator.ask(EdgeCounts((0, 1), edges), gaussian).values

    direction = np.array([-float(replaced), 1.0, 0.0] * 2)
    return harness.attack(
        "release: counts between edges",
        "both entries of a row in other cells, or no row",
        relation,
        harness.asking(tuple((row, np.zeros(len(row))) for row in rows), relation, ask),
        pure=False,
        projection_on_the_row=projection(direction),
    )


def _exponents(
    harness: Harness, relation: Relation, gaussian: Gaussian, *, largest: bool = False
) -> Attack:
    """Attack counts of exponents: an entry against one of another size, or against 0 (no entry).

    Where the ``largest`` counts, against one of another size in another column.
    """
    replaced = relation is Relation.REPLACE_ONE
    rows = (np.array([[0.3 * replaced, 0.0]]), np.array([[0.0, 30.0]]))
    rows = rows if largest else (rows[0][:, :1], rows[1][:, 1:])
    among = np.array([True, True]) if largest else None

    def ask(curator: Curator) -> FloatArray:
        return curator.ask(ExponentCounts(curator.n_features, among), gaussian).values

    step = OCTAVES if largest else 1
    cells = -(-(EXPONENTS[1] - EXPONENTS[0] + 1) // step) + (not largest)
    small, large = (-1 - EXPONENTS[0]) // step, (5 - EXPONENTS[0]) // step
    direction = np.zeros((3 if largest else 1, cells))
    direction[[0, -1], small] = -float(replaced)
    direction[[len(direction) // 2, -1], large] = 1.0
    direction = direction.ravel()
    return harness.attack(
        "release: counts of largest entries" if largest else "release: counts of exponents",
        "an entry of another size, or none",
        relation,
        harness.asking(tuple((row, np.zeros(1)) for row in rows), relation, ask),
        pure=False,
        projection_on_the_row=projection(direction),
    )


def _median_pair(relation: Relation) -> tuple[tuple[Table, Table], Statistic]:
    """Return norms with which a row makes many candidates for the median worse and few better.

    The statistic is True if one of the few was chosen. Under add/remove the row is removed: a row
    of zeros would be one of the shortest.
    """
    grid = norm_candidates()
    short = grid * (1 - 1e-9)  # a computed norm must not exceed its candidate
    if relation is Relation.REPLACE_ONE:
        low, high = -40, -10
        worlds = [short[[0, low]], short[[high, low]]]
    else:
        low, high = -20, -14
        worlds = [short[[low, high, high]], short[[low, low, high, high]]]
    tables = [(values[:, None], np.ones(values.size)) for values in worlds]
    few = (float(short[low]), float(short[high]))

    def among_few(outputs: FloatArray) -> FloatArray:
        return ((outputs[:, 0] > few[0]) & (outputs[:, 0] < few[1])).astype(np.float64)

    return (tables[0], tables[1]), among_few


def _bounds_pair(harness: Harness, relation: Relation) -> tuple[tuple[Table, Table], Statistic]:
    """Return cells of which one of the lowest quarter moves to the other end, or is removed.

    Candidates for the lower bound above the next cell then get better and those below it worse.
    Most are below, so that bounds above are rare; the statistic is True for these. All other cells
    are at the upper end, enough to keep the upper bound there in both worlds.
    """
    candidates = edges()
    quarter = math.ceil(20 / harness.epsilon)
    first, border, last = candidates[[0, 2800, 3700]]
    others = [first] * (quarter - 1) + [border] + [last] * (3 * quarter - 1)
    worlds = [np.array([first, *others]), np.array([last, *others])]
    if relation is Relation.ADD_REMOVE:
        worlds[1] = np.array(others)
    tables = [(values[:, None], np.ones(values.size)) for values in worlds]

    def moved(outputs: FloatArray) -> FloatArray:
        return np.asarray(outputs[:, 0] >= border, dtype=np.float64)

    return (tables[0], tables[1]), moved


def _ranges(harness: Harness) -> Iterator[Attack]:
    """Attack the bounds of a column and the median norm of rows."""
    choice = ExponentialMechanism(harness.epsilon, monotone=False)
    half = ExponentialMechanism(harness.epsilon / 2, monotone=False)

    def median(curator: Curator) -> FloatArray:
        return np.array([curator.ask(MedianNorm(), choice)])

    def slopes(curator: Curator) -> FloatArray:
        return np.array([curator.ask(MedianSlope(Squared(), np.zeros(1)), choice)])

    def bounds(curator: Curator) -> FloatArray:
        return np.array(curator.ask(ColumnBounds(0, coverage=0.98), half))

    for relation in Relation:
        tables, among_few = _median_pair(relation)
        yield harness.attack(
            "release: median norm of rows",
            "a row that makes few candidates better and many worse",
            relation,
            harness.asking(tables, relation, median),
            a_choice_among_the_few=among_few,
        )
        targets = [(np.zeros_like(X), -X[:, 0]) for X, _ in tables]
        yield harness.attack(
            "release: median size of slopes",
            "a residual that makes few candidates better and many worse",
            relation,
            harness.asking((targets[0], targets[1]), relation, slopes),
            a_choice_among_the_few=among_few,
        )
        tables, moved = _bounds_pair(harness, relation)
        yield harness.attack(
            "release: bounds of a column",
            "a cell beyond all others",
            relation,
            harness.asking(tables, relation, bounds),
            a_lower_bound_that_moved=moved,
        )


def _steps(harness: Harness) -> Iterator[Attack]:
    """What each step of a preparation releases, for a pure budget; a mean also for (ε, δ)."""
    known = RowNorms(1.0, 1.0, 1.0, raw=True)
    whole = Fraction(harness.epsilon)

    def ask(curator: Curator, step: Step, names: tuple[str, ...]) -> FloatArray:
        mechanism = step.mechanism("pure", whole)
        fitted, _ = step.fit(curator, mechanism, known if step.bounded else None)
        return np.concatenate([np.ravel(getattr(fitted, name)) for name in names])

    def centre(curator: Curator) -> FloatArray:
        step = Centre(shrink=False)
        mechanism = step.mechanism("gdp", Fraction(harness.mu) ** 2)
        return step.fit(curator, mechanism, known)[0].mean

    first, second = np.array([2.0, 0.0]), np.array([0.0, 2.0])
    for relation in Relation:
        tables, among_few = _median_pair(relation)
        choices: list[tuple[str, Step]] = [
            ("radius", Radius(factor=1.0)),
            ("norm", Spread(factor=1.0)),
        ]
        for name, step in choices:
            yield harness.attack(
                f"step: {step.name}",
                "a row that makes few candidates better and many worse",
                relation,
                harness.asking(tables, relation, partial(ask, step=step, names=(name,))),
                a_choice_among_the_few=among_few,
            )
        tables, moved = _bounds_pair(harness, relation)
        yield harness.attack(
            "step: bounds",
            "a cell beyond all others",
            relation,
            harness.asking(tables, relation, partial(ask, step=Bounds([0]), names=("low", "high"))),
            a_lower_bound_that_moved=moved,
        )
        turned = (changed(relation, first), first)
        crossed = (changed(relation, first, second), first)
        crowd = np.tile(second, (10, 1))  # a mean among its noise would be shrunk to nothing
        moments: list[tuple[str, Step, Any, FloatArray]] = [
            ("mean", Centre(), turned, crowd),
            ("weights", Scale(), crossed, crowd[:0]),
            ("matrix", Whiten(), crossed, crowd[:0]),
        ]
        for name, step, rows, others in moments:
            worlds = [(np.vstack([others, row]), np.ones(len(others) + 1)) for row in rows]
            yield harness.attack(
                f"step: {step.name}",
                "a row beyond the norm bound, in place of another",
                relation,
                harness.asking(
                    (worlds[0], worlds[1]),
                    relation,
                    partial(ask, step=step, names=(name,)),
                    norm=1.0,
                ),
                learn=True,
            )
        yield harness.attack(
            "step: centre, Gaussian",
            f"a row beyond the norm bound, {against(relation)}",
            relation,
            harness.asking(
                (copied(turned[0], COPIES), copied(turned[1], COPIES)),
                relation,
                centre,
                copies=COPIES,
                norm=1.0,
            ),
            pure=False,
            projection_on_the_row=projection(first),
        )


def _drafts(harness: Harness) -> Iterator[Attack]:
    """Attack the releases behind a drafted schema: categories, and numeric columns."""
    laplace = Laplace(harness.epsilon)
    half = ExponentialMechanism(harness.epsilon / 2, monotone=False)
    for relation in Relation:
        histogram = StabilityHistogram(harness.epsilon, min(harness.delta, 0.01), relation)
        apart = relation.rows_changed
        count = round(histogram.threshold)

        def categories(
            world: int, count_: int, histogram: Any = histogram, count: int = count, n: int = apart
        ) -> FloatArray:
            """Return noisy counts of one text, or of two that a row moves between; 0 if omitted."""
            texts = np.array([f"{k:07d}" for k in range(n * count_)])
            counts = np.full(n * count_, count) + (np.arange(n * count_) + world) % 2
            if n == 1:
                counts = np.full(count_, count + world)
            curator = harness.curator_of_cells(np.repeat(texts, counts), histogram.relation)
            found = curator.ask(TextCounts("a"), histogram)
            return np.array([found.get(text, 0.0) for text in texts]).reshape(count_, n)

        def vote(world: int, count: int, relation: Relation = relation) -> FloatArray:
            """Return votes that a row moves to a tie."""
            tie = ["x"] * 500 + ["1"] * 500
            other = [*tie, "x"] if relation is Relation.ADD_REMOVE else ["x", *tie[:-1]]
            cells = other if world == 0 else [*tie, *[None] * (len(other) - len(tie))]
            curator = harness.curator_of_cells(np.array(cells, dtype=object), relation)
            votes = [curator.ask(KindVote("a"), laplace) for _ in range(count)]
            return np.array(votes, dtype=np.float64)[:, None]

        tables, moved = _bounds_pair(harness, relation)

        def bounds(
            world: int, count: int, relation: Relation = relation, tables: Any = tables
        ) -> FloatArray:
            """Return bounds of a column of numbers."""
            curator = harness.curator_of_cells(tables[world][0][:, 0], relation)
            return np.array([curator.ask(CellBounds("a", 0.98), half) for _ in range(count)])

        yield harness.attack(
            "draft: categories",
            "a row that holds another category near the threshold",
            relation,
            categories,
            pure=False,
            difference_of_counts=projection(np.array([1.0, -1.0])[:apart]),
        )
        yield harness.attack("draft: numbers or text", "one row votes", relation, vote)
        yield harness.attack(
            "release: bounds of cells",
            "a cell beyond all others",
            relation,
            bounds,
            a_lower_bound_that_moved=moved,
        )

    def given_up(world: int, count: int) -> FloatArray:
        noise = harness.noise()
        limits = [noisy_limit(10, laplace, noise) for _ in range(count)]
        return np.array([9 + world > limit for limit in limits], dtype=np.float64)[:, None]

    yield harness.attack(
        "draft: too many categories", "one more category", Relation.ADD_REMOVE, given_up
    )


def _scores(harness: Harness) -> Iterator[Attack]:
    """Attack noisy scores: a row in another cell, or with the largest error."""
    rows = 20
    classifier, regressor = LinearSVC(), LinearRegression()  # they predict x > 0, and x
    for model in (classifier, regressor):
        model.features_, model.n_features_in_ = FeatureMap(), 1
    classifier.classes_ = np.array([0, 1])
    classifier.coef_, classifier.intercept_ = np.ones((1, 1)), np.zeros(1)
    regressor.coef_, regressor.intercept_ = np.ones(1), 0.0
    for relation in Relation:
        budget = Budget(harness.epsilon, 0.0, relation)

        def confusion(
            world: int, count: int, budget: Budget = budget, relation: Relation = relation
        ) -> FloatArray:
            """Return counts of a model with two labels: one row in another cell."""
            truth = np.repeat([0, 1], rows)
            predicted = truth.copy()
            if relation is Relation.REPLACE_ONE:
                predicted[0] = world
            elif world == 0:
                truth, predicted = truth[1:], predicted[1:]
            X = np.where(predicted, 1.0, -1.0)[:, None]
            scores = (score_classifier(classifier, X, truth, budget) for _ in range(count))
            return np.array([score.counts.ravel() for score in scores])

        def histogram(
            world: int, count: int, budget: Budget = budget, relation: Relation = relation
        ) -> FloatArray:
            """Return a histogram of scores by label: one row in another bin."""
            truth, scores = np.repeat([0, 1], rows), np.repeat([-0.5, 0.5], rows)
            if relation is Relation.REPLACE_ONE:
                scores[0] = 2.0 * world - 0.5
            elif world == 0:
                truth, scores = truth[1:], scores[1:]
            X, edges = scores[:, None], np.array([-1.0, 0.0, 1.0])
            found = (score_histogram(classifier, X, truth, edges, budget) for _ in range(count))
            return np.array([each.counts.ravel() for each in found])

        def subgroups(
            world: int, count: int, budget: Budget = budget, relation: Relation = relation
        ) -> FloatArray:
            """Return counts of two subgroups of one label: one row is in the other subgroup."""
            codes = np.repeat([0, 1], rows)
            if relation is Relation.REPLACE_ONE:
                codes[0] = world
            elif world == 0:
                codes = codes[1:]
            X, truth = np.full((len(codes), 1), -1.0), np.zeros(len(codes), dtype=int)
            terms = Terms(budget, subgroups=Subgroups("level", ("a", "b"), codes))
            found = (count_confusion(classifier, X, truth, terms) for _ in range(count))
            return np.array([each.counts[:, 0, 0] for each in found])

        def error_bins(
            world: int, count: int, budget: Budget = budget, relation: Relation = relation
        ) -> FloatArray:
            """Return counts of errors by subgroup: one row is in another subgroup and bin."""
            truth, codes = np.repeat([0.0, 0.6], rows), np.repeat([0, 1], rows)
            if relation is Relation.REPLACE_ONE:
                truth[0], codes[0] = 0.6 * world, world
            elif world == 0:
                truth, codes = truth[1:], codes[1:]
            X, ends = np.zeros((len(codes), 1)), np.array([0.2, 0.4])
            terms = Terms(budget, subgroups=Subgroups("level", ("a", "b"), codes))
            asked = (regressor, X, truth, (0.0, 1.0), ends, terms)
            found = (count_errors(*asked) for _ in range(count))
            return np.array([each.counts[[0, 1], 0, [0, 2]] for each in found])

        def errors(world: int, count: int, budget: Budget = budget) -> FloatArray:
            """Return errors of a regressor: one row has the largest error, or none."""
            truth, predicted = np.full(rows, 0.5), np.zeros(rows)
            predicted[0], truth[0] = 0.0, world
            X, bounds = predicted[:, None], (0.0, 1.0)
            scores = (score_regressor(regressor, X, truth, bounds, budget) for _ in range(count))
            return np.array([[s.mean_absolute_error, s.root_mean_squared_error**2] for s in scores])

        def correct(world: int, count: int, relation: Relation = relation) -> FloatArray:
            """Return numbers of correct predictions: one row is wrong, or is missing."""
            scores = np.zeros(rows)
            if relation is Relation.REPLACE_ONE:
                scores[0] = 1.0 - world
            elif world == 0:
                scores = scores[1:]
            table = scored_rows(scores[:, None], np.zeros(len(scores)), lambda X: X[:, 0])
            curator = Session(Budget(UNLIMITED, 1e-6, relation), bits=harness.bits).curator(table)
            curator.open("gdp")
            gaussian = Gaussian(1 / harness.mu)
            return np.array([curator.ask(CorrectCount(), gaussian).values for _ in range(count)])

        yield harness.attack(
            "score: correct predictions",
            "a row whose prediction is correct, or not",
            relation,
            correct,
            pure=False,
            number_of_correct_predictions=projection(np.ones(1)),
        )
        cells = np.array([rows, 0.0, 0.0, rows])
        move = np.array([-1.0, 1.0, 0.0, 0.0])
        if relation is Relation.ADD_REMOVE:
            cells, move = cells - [1.0, 0.0, 0.0, 0.0], np.array([1.0, 0.0, 0.0, 0.0])
        yield harness.attack(
            "score: counts of labels",
            "a row that counts in another cell",
            relation,
            confusion,
            which_counts_are_nearer=_nearer(cells, cells + move),
        )
        sizes = np.array([rows, rows], dtype=np.float64)
        exchange = np.array([-1.0, 1.0])
        if relation is Relation.ADD_REMOVE:
            sizes, exchange = sizes - [1.0, 0.0], np.array([1.0, 0.0])
        for subject, counts in (
            ("score: counts by subgroup", subgroups),
            ("score: counts of errors by subgroup", error_bins),
        ):
            yield harness.attack(
                subject,
                "a row of another subgroup",
                relation,
                counts,
                which_counts_are_nearer=_nearer(sizes, sizes + exchange),
            )
        bins = np.array([0.0, rows, 0.0, 0.0, 0.0, 0.0, rows, 0.0])
        shift = np.array([0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0])
        if relation is Relation.ADD_REMOVE:
            shift = np.array([0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
            bins = bins - shift
        yield harness.attack(
            "score: histogram of scores",
            "a row that counts in another bin",
            relation,
            histogram,
            which_counts_are_nearer=_nearer(bins, bins + shift),
        )
        sums = np.array([0.5 * (rows - 1), 0.25 * (rows - 1)]) / rows
        yield harness.attack(
            "score: errors of a regressor",
            "a row with the largest error, or with none",
            relation,
            errors,
            which_sums_are_nearer=_nearer(sums, sums + 1 / rows),
        )


def _nearer(first: FloatArray, second: FloatArray) -> Statistic:
    """Return the statistic that compares the L1 distances to two tables' exact numbers."""
    return lambda outputs: (np.abs(outputs - first) - np.abs(outputs - second)).sum(axis=1)
