"""Rows of a search for pairs: values of columns, with targets that know a first model's scores.

Each function here makes a row of one row and of released numbers. All of them can be pickled: they
run on workers as they run in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.estimators.units import Inputs, Rule
from discreet.objectives import Logistic, Loss, Poisson, Softmax, Squared
from discreet.objectives.offset import WithOffset, with_offsets
from discreet.preparation import FeatureMap, pipeline
from discreet.preparation.pair_cells import CellColumn, cell_table, values_of
from discreet.rows import Rows
from discreet.rows.partitions import Block
from discreet.validate import FloatArray

__all__ = ["Known", "PairRows", "curvatures", "offset_loss", "residuals", "squares"]


@dataclass(frozen=True, eq=False)
class Known:
    """Scores of the first model for encoded rows, in units of its targets.

    Attributes
    ----------
    coef, intercept, features, middles
        The model, and the columns whose missing numbers it takes for the middle of their bounds.
    scale, centre
        Factor and constant from its own units to those of ``coef``.
    log_odds
        Function from scores to those that its predictions stand for.
    most
        Size beyond which scores of regression are clipped, as the first loss does.
    """

    coef: FloatArray
    intercept: FloatArray
    features: FeatureMap
    design: Any
    scale: float
    centre: float
    log_odds: Callable[[FloatArray], FloatArray]
    most: float = np.inf

    def __call__(self, X: Any) -> FloatArray:
        """Return the scores of rows, each from its row alone: one each, or one for each output."""
        if self.design is not None:
            bounds = self.features.bounds
            X = self.design.with_middles(X, () if bounds is None else bounds.columns)
        scores = pipeline.linear_scores(self.features, X, self.coef, self.intercept, by_row=True)
        margins = np.asarray(self.log_odds((scores - self.centre) / self.scale))
        margins = np.clip(margins, -self.most, self.most)
        return margins[:, 0] if margins.shape[1] == 1 else margins


@dataclass(frozen=True, eq=False)
class PairRows:
    """Rows whose entries are values of columns, and whose targets have the known scores beside."""

    inputs: Inputs
    columns: tuple[CellColumn, ...]
    rows: Rows
    table: Any

    @classmethod
    def of(
        cls, inputs: Inputs, columns: tuple[CellColumn, ...], known: Known | None = None
    ) -> PairRows:
        """Make the rows; without a first model, their targets are those of the inputs."""
        if inputs.y is None:
            made = inputs.X.made(partial(_described, columns, inputs.rules[0], known))
            return cls(inputs, columns, made.rows(fit_intercept=False), made)
        targets = inputs.rules[0](inputs.y)
        values = values_of(columns, inputs.X)
        return cls(inputs, columns, inputs.units.rows(values, targets), values)

    def knowing(self, known: Known) -> PairRows:
        """Return the same rows with the scores of a first model beside their targets."""
        if self.inputs.y is None:
            return PairRows.of(self.inputs, self.columns, known)
        targets = with_offsets(self.rows.targets, known(self.inputs.X))
        return replace(self, rows=self.rows.with_targets(targets))

    def cells(self, cells: Sequence[NDArray[np.intp]], pairs: Sequence[tuple[int, int]]) -> Rows:
        """Return the indicators of the cells of pairs, with the weights of the objective."""
        units = self.inputs.units
        if self.inputs.y is None:
            made = self.table.made(partial(_celled, cells, pairs))
            rows: Rows = made.rows(fit_intercept=False)
            return rows
        rows = units.rows(cell_table(self.table, cells, pairs), self.rows.targets)
        return rows if units.even else units.weigh(rows)


def _described(
    columns: tuple[CellColumn, ...], rule: Rule, known: Known | None, block: Block
) -> Block:
    """Return a block of values; runs on a worker."""
    targets = rule(block.y)
    if known is not None:
        targets = with_offsets(targets, known(block.X))
    return block._replace(X=values_of(columns, block.X), y=targets)


def _celled(
    cells: Sequence[NDArray[np.intp]], pairs: Sequence[tuple[int, int]], block: Block
) -> Block:
    """Return a block of indicators of cells; runs on a worker."""
    return block._replace(X=cell_table(block.X, cells, pairs))


def offset_loss(loss: Loss) -> WithOffset:
    """Return the loss of the second model, of scores with a known part."""
    return WithOffset(loss if isinstance(loss, Logistic | Softmax | Poisson) else Squared(None))


def residuals(loss: WithOffset, unit: float, targets: FloatArray) -> FloatArray:
    """Return minus the slopes of the loss at the known scores, over a unit."""
    start = np.zeros((len(targets), loss.n_outputs) if loss.n_outputs > 1 else len(targets))
    return np.asarray(-loss.derivative(start, targets) / unit)


def squares(loss: WithOffset, unit: float, targets: FloatArray) -> FloatArray:
    """Return the sum of the squares of each row's residuals, as they count in scores of pairs."""
    found = np.clip(residuals(loss, unit, targets).reshape(len(targets), -1), -1.0, 1.0)
    found /= np.maximum(np.abs(found).sum(axis=1, keepdims=True), 1.0)
    return np.asarray(np.square(found).sum(axis=1))


def curvatures(loss: WithOffset, targets: FloatArray) -> FloatArray:
    """Return the second derivatives of a loss of one score at the known scores."""
    return np.asarray(loss.second_derivative(np.zeros(len(targets)), targets))
