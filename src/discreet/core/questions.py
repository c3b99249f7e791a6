"""Questions about rows, as data.

A question is a frozen dataclass of public numbers. It says which mechanisms may answer it, how far
one privacy unit can move its exact answer (`sensitivity`), how the exact answer is computed
(`on`: a kernel of `discreet.rows`, with a bound on its rounding error), and how noise is added to
it (`release`). It never holds rows, and it charges nothing: `discreet.core.curator.Curator.ask`
does that, in one place, for all of them.

To add a question, write a class here, a kernel in `discreet.rows`, and its proof. The table of
docs/proofs/curator.md is made from these classes (``python tools/questions.py --write``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.budget import Relation
from discreet.accounting.conversions import UNIT
from discreet.core.mechanisms import (
    AdditiveMechanism,
    ExponentialMechanism,
    Gaussian,
    L2Norm,
    LaplaceNoisyMax,
    PermuteAndFlip,
    SelectionMechanism,
)
from discreet.core.noise import Noise
from discreet.core.ranges import SCORE_ROUNDING, select_bounds_from_counts
from discreet.errors import NotSupported, PrivacyError
from discreet.rows import moments, scores, sums
from discreet.rows.bounds import CLIP_RANGE
from discreet.rows.moments import Counts, edges, norm_candidates
from discreet.rows.rows import Rows
from discreet.rows.sums import Sum
from discreet.validate import (
    CheckedFields,
    FloatArray,
    Positive,
    Vector,
    integer,
    number,
    positive,
    vector,
)

Source = TypeVar("Source")
Answer = TypeVar("Answer")

ACUTE_ROOM = 1 + 2.0**-50
"""Factor on √2·C for the rounding of squares: docs/proofs/curator.md, second moments."""

_check_clip = partial(
    number, least=CLIP_RANGE[0], most=CLIP_RANGE[1], remedy="A typical choice is 3."
)

Clip = Annotated[float, _check_clip]
"""Field that bounds the part of a row."""


class Public(NamedTuple):
    """Public facts about the rows that a question is about."""

    relation: Relation
    n_rows: int
    n_features: int
    n_parameters: int
    row_norm: float | None
    gaps: bool = False


@dataclass(frozen=True, eq=False)
class NoisySum:
    """A noisy sum over rows (not the mean) and the standard deviation of its noise.

    ``mechanism`` is the mechanism that all measurements of it amount to together.
    """

    values: FloatArray
    deviation: float
    mechanism: AdditiveMechanism

    def matrix(self) -> FloatArray:
        """Return the symmetric matrix whose upper triangle it is, off-diagonals times √2."""
        size = (math.isqrt(8 * self.values.size + 1) - 1) // 2
        first, second = np.triu_indices(size)
        matrix: FloatArray = np.empty((size, size))
        matrix[first, second] = self.values / np.where(first == second, 1.0, math.sqrt(2.0))
        matrix[second, first] = matrix[first, second]
        return matrix


class Question(CheckedFields, Generic[Source, Answer]):
    """Base of questions: frozen dataclasses of public numbers, asked of a source of rows.

    Attributes
    ----------
    mechanisms
        Kinds of mechanisms whose noise fits the sensitivity.
    uses
        Number of uses of the mechanism that are charged.
    monotone_under
        Relations under which a unit moves the scores of all candidates the same way. Under others,
        a mechanism that counts on it is refused.
    takes_gaps
        True if rows may have missing entries; any other question about them is refused.
    protected, proof
        Formula of the exact answer, and the page of docs/proofs with its proof.
    """

    mechanisms: ClassVar[tuple[type, ...]]
    uses: ClassVar[int] = 1
    monotone_under: ClassVar[tuple[Relation, ...]] = ()
    takes_gaps: ClassVar[bool] = False
    protected: ClassVar[str]
    proof: ClassVar[str] = "curator"

    def check(self, public: Public, mechanism: Any) -> None:
        """Raise if the question does not fit the rows or the mechanism; nothing is spent."""
        if not isinstance(mechanism, self.mechanisms):
            names = " or ".join(kind.__name__ for kind in self.mechanisms)
            raise TypeError(
                f"{type(self).__name__} needs a {names} mechanism; got {type(mechanism).__name__}."
            )
        if public.gaps and not self.takes_gaps:
            raise ValueError(f"{type(self).__name__} needs rows without missing entries.")
        if getattr(mechanism, "monotone", False) and public.relation not in self.monotone_under:
            raise PrivacyError(
                f"Scores of {type(self).__name__} are not monotone under "
                f"{str(public.relation)!r}: a row can raise one and lower another. Use a mechanism "
                "with monotone=False, which adds twice the noise."
            )

    def prepare(self, mechanism: Any, noise: Noise) -> Question[Source, Answer]:
        """Return the question as rows are read for it, once it was charged for.

        A question whose reading depends on noise draws it here. Most draw it in `release`.
        """
        return self

    def sensitivity(self, relation: Relation) -> float:
        """Bound how far one unit moves the exact answer, without rounding errors."""
        raise NotImplementedError

    def on(self, rows: Source) -> Any:
        """Return the exact answer for rows of one table, with a bound on its rounding error."""
        raise NotImplementedError

    def release(self, exact: Any, mechanism: Any, public: Public, noise: Noise) -> Answer:
        """Return the answer: the exact one with noise, or a noisy choice by it."""
        raise NotImplementedError


# ---- sums


class SumQuestion(Question[Rows, NoisySum]):
    """Base of questions for a sum of vectors, one for each unit, of L2 norm at most `bound`.

    The bound is the field ``clip``, or its square if the vectors are ``squared``: made of products
    of two numbers of a clipped row. Others state their bound.

    ``acute`` is True if the vectors of two units never have a negative inner product: then they
    differ by at most √2 times the bound, not by twice the bound. ``largest`` is the size that no
    coordinate of a unit's vector exceeds; None if that is the bound.
    """

    mechanisms: ClassVar[tuple[type, ...]] = (Gaussian,)
    squared: ClassVar[bool] = False
    acute: ClassVar[bool] = False
    largest: ClassVar[float | None] = None
    clip: float

    @property
    def bound(self) -> float:
        """L2 norm that no unit's vector exceeds."""
        return self.clip * self.clip if self.squared else self.clip

    def sensitivity(self, relation: Relation) -> float:
        """Return the L2 sensitivity of the sum of the units' vectors."""
        if self.acute:
            return math.sqrt(relation.rows_changed) * self.bound * ACUTE_ROOM
        return relation.rows_changed * self.bound

    def limits(self, exact: Sum, public: Public) -> tuple[float, float]:
        """Return the sensitivity with twice the rounding error, and the bound on a coordinate."""
        largest = self.bound if self.largest is None else self.largest
        sensitivity = self.sensitivity(public.relation) + 2 * exact.error
        return sensitivity, (public.n_rows + 1) * largest + exact.error

    def release(
        self, exact: Sum, mechanism: AdditiveMechanism, public: Public, noise: Noise
    ) -> NoisySum:
        """Add noise to the sum; twice its rounding error is part of the sensitivity."""
        sensitivity, magnitude = self.limits(exact, public)
        values, scale = mechanism.release(
            exact.values, sensitivity=sensitivity, magnitude=magnitude, noise=noise
        )
        if isinstance(mechanism, L2Norm):  # a norm of Gamma(d), in a uniform direction
            scale *= math.sqrt(values.size + 1)
        return NoisySum(values, scale, mechanism)


@dataclass(frozen=True, eq=False)
class Gradient(SumQuestion):
    """Sum of the gradients of a loss at weights, each clipped to norm ``clip``.

    A loss with K margins per row takes K rows of weights, one after the other; the clip bounds a
    row's gradient of all of them together. The loss must be computed row by row.
    """

    loss: Any
    weights: Vector
    clip: Clip
    protected: ClassVar[str] = "Σ clip_C(∇ℓ_i)"

    def check(self, public: Public, mechanism: Any) -> None:
        """Raise if the weights do not fit the rows."""
        vector("weights", self.weights, getattr(self.loss, "n_outputs", 1) * public.n_parameters)
        super().check(public, mechanism)

    def on(self, rows: Rows) -> Sum:
        """Return the exact sum."""
        return sums.gradient_sum(rows, self.weights, self.loss, self.clip)


class _BoundedRows(SumQuestion):
    """Base of questions about rows that are scaled down to their own public norm C = ``clip``."""

    mechanisms: ClassVar[tuple[type, ...]] = (Gaussian, L2Norm)
    proof: ClassVar[str] = "preparation"

    def check(self, public: Public, mechanism: Any) -> None:
        """Raise if the rows have no public norm, or another one."""
        if public.row_norm is None:
            raise ValueError("sums of rows need rows with a public bound on their norm.")
        if self.clip != public.row_norm:
            raise ValueError(
                f"the rows are scaled down to norm {public.row_norm:g}; the question is for norm "
                f"{self.clip:g}. Pass curator.row_norm."
            )
        super().check(public, mechanism)


@dataclass(frozen=True, eq=False)
class RowSum(_BoundedRows):
    """Sum of the rows, each scaled down to the rows' public norm."""

    clip: Clip
    protected: ClassVar[str] = "Σ clip_C(x_i)"

    def on(self, rows: Rows) -> Sum:
        """Return the exact sum."""
        return moments.row_sum(rows)


@dataclass(frozen=True, eq=False)
class SquareSum(_BoundedRows):
    """Sum of the squares of entries, column by column, of rows scaled down to their norm C.

    With a ``share`` s below 1, the squares of a row are scaled down to norm s·C² as well.
    """

    clip: Clip
    share: Annotated[float, partial(number, least=1e-3, most=1.0)] = 1.0
    acute: ClassVar[bool] = True
    protected: ClassVar[str] = "Σ clip_C(x_i)², entry by entry, each within norm sC², s ≤ 1"

    @property
    def bound(self) -> float:
        """L2 norm that no unit's vector exceeds."""
        return self.share * self.clip * self.clip

    def on(self, rows: Rows) -> Sum:
        """Return the exact sum."""
        return moments.square_sum(rows, self.share)


@dataclass(frozen=True, eq=False)
class OuterSum(_BoundedRows):
    """Sum of xxᵀ over rows scaled down to their norm: the upper triangle of `NoisySum.matrix`."""

    clip: Clip
    squared: ClassVar[bool] = True
    acute: ClassVar[bool] = True
    protected: ClassVar[str] = "Σ clip_C(x_i) clip_C(x_i)ᵀ, Frobenius norm"

    def on(self, rows: Rows) -> Sum:
        """Return the exact sum."""
        return moments.outer_sum(rows)


@dataclass(frozen=True, eq=False)
class TargetMoment(SumQuestion):
    """Sum of vvᵀ over rows with their targets: the upper triangle of `NoisySum.matrix`.

    v is (x, 1, t·(y − c)): a row with its constant feature (if there is one) and its target,
    shifted by ``target_centre`` and multiplied by ``target_weight``, all scaled down together to
    norm ``clip`` where it is longer. Without ``features`` it is (1, t·(y − c)). Rows need no bound
    on their norm for it, nor targets on their size.
    """

    clip: Clip
    target_weight: Positive
    target_centre: Annotated[float, number] = 0.0
    features: bool = True
    squared: ClassVar[bool] = True
    acute: ClassVar[bool] = True
    protected: ClassVar[str] = "Σ clip_C(v_i) clip_C(v_i)ᵀ, v a row with its target"
    proof: ClassVar[str] = "newton"

    def on(self, rows: Rows) -> Sum:
        """Return the exact sum."""
        return moments.xy_moment_sum(
            rows, self.clip, self.target_weight, self.target_centre, features=self.features
        )


@dataclass(frozen=True, eq=False)
class TargetSum(SumQuestion):
    """Sum of the targets, each clipped to [−clip, clip]: one number."""

    clip: Clip
    protected: ClassVar[str] = "Σ y_i clipped to [−C, C]"
    proof: ClassVar[str] = "gd"

    def on(self, rows: Rows) -> Sum:
        """Return the exact sum."""
        return moments.target_sum(rows, self.clip)


@dataclass(frozen=True, eq=False)
class ClassCounts(SumQuestion):
    """Total weight of the rows of each class: targets 0, 1, …, n_classes − 1.

    A unit adds entries ≥ 0 of sum at most 1.
    """

    n_classes: Annotated[int, integer]
    mechanisms: ClassVar[tuple[type, ...]] = (Gaussian, L2Norm)
    acute: ClassVar[bool] = True
    protected: ClassVar[str] = "Σ e_{y_i}: the total weight of each class"
    proof: ClassVar[str] = "gd"

    @property
    def bound(self) -> float:
        """L2 norm that no unit's vector exceeds."""
        return 1.0

    def on(self, rows: Rows) -> Sum:
        """Return the exact sum."""
        return moments.class_counts(rows, self.n_classes)


@dataclass(frozen=True, eq=False)
class ExponentCounts(SumQuestion):
    """Number of entries of each of ``n_features`` columns that have each binary exponent.

    There are m exponents and a cell for ±1, in this order, for each column; zeros are not counted.
    With ``among``, which names some of the columns, only the largest entry of each row among them
    is counted: by column and size, and in one more row of cells by size alone.

    A unit adds at most 1 to the cells of each of d columns, or of two rows of cells with ``among``.
    """

    n_features: int
    among: NDArray[np.bool_] | None = None
    mechanisms: ClassVar[tuple[type, ...]] = (Gaussian, L2Norm)
    largest: ClassVar[float | None] = 1.0
    protected: ClassVar[str] = (
        "counts of entries by column and binary exponent (d = number of columns), or of rows by "
        "column and size of their largest entry, and by size (d = 2)"
    )
    proof: ClassVar[str] = "preparation"

    def sensitivity(self, relation: Relation) -> float:
        """Return the L2 sensitivity of all counts together."""
        columns = self.n_features if self.among is None else 2
        return math.sqrt(columns * relation.rows_changed) * ACUTE_ROOM

    def check(self, public: Public, mechanism: Any) -> None:
        """Raise if the rows have another number of columns."""
        width = public.n_features
        if self.n_features != width:
            raise ValueError(
                f"n_features must be {width}, that of the rows; got {self.n_features}."
            )
        if self.among is not None and not (np.shape(self.among) == (width,) and self.among.any()):
            raise ValueError(f"among must name some of {width} columns.")
        super().check(public, mechanism)

    def on(self, rows: Rows) -> Sum:
        """Return the exact counts."""
        return moments.exponent_counts(rows, self.among)


@dataclass(frozen=True, eq=False)
class EdgeCounts(SumQuestion):
    """Number of entries of some columns between public edges, of which each column has its own.

    Entries beyond the outermost edges count in the outermost cells; missing ones have a cell of
    their own, the last of a column. A unit adds at most 1 in all to the cells of each of c columns,
    and nothing negative.
    """

    columns: tuple[int, ...]
    column_edges: NDArray[np.float64]
    mechanisms: ClassVar[tuple[type, ...]] = (Gaussian, L2Norm)
    acute: ClassVar[bool] = True
    takes_gaps: ClassVar[bool] = True
    largest: ClassVar[float | None] = 1.0
    protected: ClassVar[str] = "counts of entries of c columns between public edges"
    proof: ClassVar[str] = "preparation"

    @property
    def bound(self) -> float:
        """L2 norm that no unit's vector exceeds."""
        return math.sqrt(len(self.columns))

    def check(self, public: Public, mechanism: Any) -> None:
        """Raise if the columns or their edges do not fit the rows."""
        own = set(self.columns)
        if not own or len(own) < len(self.columns) or not own <= set(range(public.n_features)):
            raise ValueError(f"columns must name some of {public.n_features} columns, each once.")
        edges = np.asarray(self.column_edges)
        if edges.ndim != 2 or edges.shape[0] != len(own) or edges.shape[1] < 2:
            raise ValueError("column_edges must have one row of two or more edges for each column.")
        if not (np.isfinite(edges).all() and (np.diff(edges, axis=1) > 0).all()):
            raise ValueError("edges of a column must be finite and increasing.")
        super().check(public, mechanism)

    def on(self, rows: Rows) -> Sum:
        """Return the exact counts."""
        return moments.edge_counts(rows, self.columns, self.column_edges)


# ---- scores, for inference


@dataclass(frozen=True, eq=False)
class _ScoreQuestion(SumQuestion):
    """Base of questions about a loss at weights, where rows longer than the clip weigh less.

    A row of norm N, with its constant, has weight min(1, (clip/N)²), which does not depend on its
    target. The loss has a bound s on its slopes.
    """

    loss: Any
    weights: Vector
    clip: Annotated[float, partial(number, least=1.0, most=CLIP_RANGE[1])]
    proof: ClassVar[str] = "inference"

    def check(self, public: Public, mechanism: Any) -> None:
        """Raise if the weights do not fit the rows."""
        vector("weights", self.weights, public.n_parameters)
        super().check(public, mechanism)


@dataclass(frozen=True, eq=False)
class ScoreSum(_ScoreQuestion):
    """Sum of the rows' gradients, rows longer than the clip weighted down."""

    protected: ClassVar[str] = "Σ a_i·φ'_i·v_i, a_i = min(1, (C/‖v_i‖)²), φ' within s"

    @property
    def bound(self) -> float:
        """L2 norm that no unit's vector exceeds."""
        return self.clip * positive("slope_bound of the loss", self.loss.slope_bound)

    def check(self, public: Public, mechanism: Any) -> None:
        """Raise if the loss has no bound on its slopes."""
        _check_clip("clip", self.bound)
        super().check(public, mechanism)

    def on(self, rows: Rows) -> Sum:
        """Return the exact sum."""
        return scores.score_sum(rows, self.weights, self.loss, self.clip)


@dataclass(frozen=True, eq=False)
class CurvatureSum(_ScoreQuestion):
    """Sum of φ''/κ·vvᵀ over rows v, κ the bound on φ'': the triangle of `NoisySum.matrix`.

    A row's part is h·uuᵀ with h in [0, 1] and ‖u‖ ≤ clip.
    """

    squared: ClassVar[bool] = True
    acute: ClassVar[bool] = True
    protected: ClassVar[str] = "Σ a_i·(φ''_i/κ)·v_i v_iᵀ, Frobenius norm"

    def on(self, rows: Rows) -> Sum:
        """Return the exact sum."""
        return scores.curvature_sum(rows, self.weights, self.loss, self.clip)


@dataclass(frozen=True, eq=False)
class ScoreSquareSum(_ScoreQuestion):
    """Sum of the squared norms of the units' parts in `ScoreSum`, divided by their bound.

    A unit's part is a number in [0, 1], so that both relations move the sum by at most 1.
    """

    protected: ClassVar[str] = "Σ over units of a squared score in [0, 1]"

    @property
    def bound(self) -> float:
        """L2 norm that no unit's vector exceeds."""
        return 1.0

    def sensitivity(self, relation: Relation) -> float:
        """Return 1: numbers from 0 to 1 differ by at most 1."""
        return 1.0

    def on(self, rows: Rows) -> Sum:
        """Return the exact sum."""
        return scores.score_square_sum(rows, self.weights, self.loss, self.clip)


@dataclass(frozen=True, eq=False)
class ScoreVariances(_ScoreQuestion):
    """Sum over units of the squared entries of A·s, where s is a unit's part in `ScoreSum`.

    A·s is scaled down to the norm ``cut``, so that the entries of a unit's part are at least 0 and
    add up to at most cut².
    """

    matrix: Any
    cut: Clip
    acute: ClassVar[bool] = True
    protected: ClassVar[str] = "Σ over units of (A·s_u)² by entry, ‖A·s_u‖ within T"

    @property
    def bound(self) -> float:
        """L2 norm that no unit's vector exceeds."""
        return self.cut * self.cut

    def check(self, public: Public, mechanism: Any) -> None:
        """Raise if the matrix does not fit the rows."""
        for row in self.matrix:
            vector("rows of the matrix", row, public.n_parameters)
        super().check(public, mechanism)

    def on(self, rows: Rows) -> Sum:
        """Return the exact sum."""
        about = (self.weights, self.loss, self.clip, self.matrix, self.cut)
        return scores.score_variances(rows, *about)


# ---- choices by sums over rows


def _refuse_outputs(loss: Any) -> None:
    if getattr(loss, "n_outputs", 1) > 1:
        raise NotSupported(f"{loss.name!r} has several outputs per row; choices take one margin.")


def _score_error(exact: Sum, clip: float, added: FloatArray, n_rows: int) -> float:
    """Bound the rounding error of a score: of the sum, and of adding the public part to it.

    It is made of public numbers: no sum exceeds what n + 1 rows at the clip would give.
    """
    largest = (n_rows + 1) * clip + exact.error + np.abs(added).max()
    return float(exact.error + 2 * UNIT * largest)


@dataclass(frozen=True, eq=False)
class LineLosses(Question[Rows, int]):
    """Choice of the step along ``-direction`` from ``weights`` that has the least clipped loss.

    ``public_losses`` is added to each candidate's sum of row losses (a penalty, say): it may depend
    on anything that is not private. The answer is the index of a step.

    One row's losses lie in [0, clip], so adding it moves all candidates' sums the same way by at
    most clip (monotone); replacing it moves each by at most clip either way (not monotone).
    """

    loss: Any
    weights: Vector
    direction: Vector
    steps: Vector
    clip: Clip
    public_losses: Vector
    mechanisms: ClassVar[tuple[type, ...]] = (SelectionMechanism,)
    monotone_under: ClassVar[tuple[Relation, ...]] = (Relation.ADD_REMOVE,)
    protected: ClassVar[str] = "Σ min(ℓ_i, C) per candidate"

    def check(self, public: Public, mechanism: Any) -> None:
        """Raise if the line does not fit the rows."""
        vector("weights", self.weights, public.n_parameters)
        vector("direction", self.direction, public.n_parameters)
        vector("public_losses", self.public_losses, self.steps.size)
        if self.steps.size < 1:
            raise ValueError("steps must have at least one number.")
        if isinstance(mechanism, LaplaceNoisyMax):
            raise TypeError("LineLosses takes no Laplace noise: use an ExponentialMechanism.")
        super().check(public, mechanism)

    def sensitivity(self, relation: Relation) -> float:
        """Bound the change of any candidate's sum."""
        return self.clip

    def on(self, rows: Rows) -> Sum:
        """Return the exact sum of losses for each step."""
        return sums.line_losses(
            rows, self.weights, self.direction, self.steps, self.loss, self.clip
        )

    def release(
        self, exact: Sum, mechanism: SelectionMechanism, public: Public, noise: Noise
    ) -> int:
        """Choose a step; rounding errors move scores apart by four times their bound."""
        error = _score_error(exact, self.clip, self.public_losses, public.n_rows)
        return mechanism.select(
            -(exact.values + self.public_losses),
            sensitivity=self.sensitivity(public.relation) + 4 * error,
            noise=noise,
        )


class _SignedScores(Question[Rows, Any]):
    """Base of choices by scores that each move by at most the clip per changed row, either way."""

    mechanisms: ClassVar[tuple[type, ...]] = (SelectionMechanism,)
    loss: Any
    clip: float

    def sensitivity(self, relation: Relation) -> float:
        """Bound the change of any score."""
        return relation.rows_changed * self.clip

    def _select(
        self,
        scores: FloatArray,
        exact: Sum,
        added: FloatArray,
        mechanism: SelectionMechanism,
        public: Public,
        noise: Noise,
    ) -> int:
        error = _score_error(exact, self.clip, added, public.n_rows)
        return mechanism.select(
            scores,
            sensitivity=math.nextafter(self.sensitivity(public.relation) + 2 * error, math.inf),
            magnitude=(public.n_rows + 1) * self.clip + error + float(np.abs(added).max()),
            noise=noise,
        )


@dataclass(frozen=True, eq=False)
class CornerGradient(_SignedScores):
    """Choice of the signed coordinate along which the objective falls fastest.

    The answer is the coordinate and the sign (±1) of the corner of an L1 ball that has the least
    inner product with the gradient. ``public_gradient`` is added to the sum of the rows' gradients
    (a penalty's, say): it may depend on anything that is not private.

    Entries of one row's gradient lie in [−clip, clip], so adding it moves each of the scores
    ±gradient_j by at most clip and some of them in opposite directions (never monotone).
    """

    loss: Any
    weights: Vector
    clip: Clip
    public_gradient: Vector
    protected: ClassVar[str] = "± coordinates of Σ clip_∞(∇ℓ_i)"
    proof: ClassVar[str] = "frank_wolfe"

    def check(self, public: Public, mechanism: Any) -> None:
        """Raise if vectors do not fit the rows."""
        vector("weights", self.weights, public.n_parameters)
        vector("public_gradient", self.public_gradient, public.n_parameters)
        _refuse_outputs(self.loss)
        super().check(public, mechanism)

    def on(self, rows: Rows) -> Sum:
        """Return the exact sum of gradients."""
        return sums.corner_gradient(rows, self.weights, self.loss, self.clip)

    def release(
        self, exact: Sum, mechanism: SelectionMechanism, public: Public, noise: Noise
    ) -> tuple[int, int]:
        """Choose a coordinate and its sign."""
        total = exact.values + self.public_gradient
        both = np.concatenate([-total, total])
        chosen = self._select(both, exact, self.public_gradient, mechanism, public, noise)
        return chosen % total.size, 1 if chosen < total.size else -1


@dataclass(frozen=True, eq=False)
class CandidateLosses(_SignedScores):
    """Choice of the weights that have the least loss, compared with a public parent.

    Scores are the rows' changes of loss from ``parent``, clipped row by row. ``public_losses`` is
    added to each candidate's sum: it may depend on anything that is not private, and so may the
    candidates and the parent. The answer is the index of a candidate.
    """

    loss: Any
    candidates: FloatArray
    parent: Vector
    clip: Clip
    public_losses: Vector
    protected: ClassVar[str] = "Σ clip(ℓ_i(candidate) − ℓ_i(parent)) to ±C"
    proof: ClassVar[str] = "privgene"

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = (self.public_losses.size, self.parent.size)
        if np.shape(self.candidates) != shape or self.public_losses.size < 1:
            raise ValueError(
                f"candidates must have shape (m, {self.parent.size}), that of the parent, with one "
                f"public loss each; got {np.shape(self.candidates)} and {self.public_losses.shape}."
            )
        flat = vector("candidates", np.ravel(self.candidates))
        object.__setattr__(self, "candidates", flat.reshape(shape))

    def check(self, public: Public, mechanism: Any) -> None:
        """Raise if candidates do not fit the rows."""
        vector("parent", self.parent, public.n_parameters)
        _refuse_outputs(self.loss)
        super().check(public, mechanism)

    def on(self, rows: Rows) -> Sum:
        """Return the exact sum of changes for each candidate."""
        return sums.candidate_losses(rows, self.candidates, self.parent, self.loss, self.clip)

    def release(
        self, exact: Sum, mechanism: SelectionMechanism, public: Public, noise: Noise
    ) -> int:
        """Choose a candidate."""
        both = -(exact.values + self.public_losses)
        return self._select(both, exact, self.public_losses, mechanism, public, noise)


# ---- choices by counts of rows


class _MedianQuestion(Question[Rows, float]):
    """Base of choices of a public candidate near the median of sizes of rows.

    Counts of sizes above a candidate have sensitivity 1/2 under add/remove and 1 under replace.
    """

    mechanisms: ClassVar[tuple[type, ...]] = (ExponentialMechanism,)
    proof: ClassVar[str] = "preparation"
    largest: float | None = None

    def sensitivity(self, relation: Relation) -> float:
        """Bound the change of any score."""
        return 0.5 if relation is Relation.ADD_REMOVE else 1.0

    def release(
        self, exact: Counts, mechanism: ExponentialMechanism, public: Public, noise: Noise
    ) -> float:
        """Choose the smallest candidate that about half of the sizes do not exceed.

        A score is 0 where half of the sizes or fewer are above a candidate and half above the one
        before; otherwise minus the number of sizes by which that fails. Sizes beyond the last
        candidate count as that one, so that it wins where most are.
        """
        rounding = (exact.unit > 1) * SCORE_ROUNDING * (public.n_rows + 1)
        above = np.cumsum(exact.values[::-1])[::2][::-1] / exact.unit  # above[k]: k candidates
        half = 0.5 * above[0]
        misses = np.maximum(above[1:] - half, half - above[:-1])
        chosen = mechanism.select(
            -np.maximum(misses, 0.0),
            sensitivity=(1.0 + rounding) * self.sensitivity(public.relation),
            noise=noise,
        )
        return float(norm_candidates(self.largest)[chosen])


@dataclass(frozen=True, eq=False)
class MedianNorm(_MedianQuestion):
    """Choice of a public candidate near the median of the rows' L2 norms, at most ``largest``."""

    largest: Clip | None = None
    protected: ClassVar[str] = "median of ‖x_i‖ among public candidates"

    def on(self, rows: Rows) -> Counts:
        """Return the exact counts of norms between the candidates."""
        return moments.norm_counts(rows, norm_candidates(self.largest))


@dataclass(frozen=True, eq=False)
class MedianSlope(_MedianQuestion):
    """Choice of a public candidate near the median of the sizes of a loss's slopes at weights."""

    loss: Any
    weights: Vector
    protected: ClassVar[str] = "median of the sizes of φ'_i among public candidates"
    proof: ClassVar[str] = "inference"

    def check(self, public: Public, mechanism: Any) -> None:
        """Raise if the weights do not fit the rows."""
        vector("weights", self.weights, public.n_parameters)
        _refuse_outputs(self.loss)
        super().check(public, mechanism)

    def on(self, rows: Rows) -> Counts:
        """Return the exact counts of slopes between the candidates."""
        return moments.slope_counts(rows, self.weights, self.loss, norm_candidates())


@dataclass(frozen=True, eq=False)
class ColumnBounds(Question[Rows, tuple[float, float]]):
    """Choice of public bounds between which about ``coverage`` of a column's values lie.

    With ``whole`` they are whole numbers. There are two choices among public candidates, by counts
    of values below them, each of sensitivity 1 under both relations: the mechanism is used twice.
    Missing entries are not counted.
    """

    column: int
    coverage: Annotated[float, partial(number, above=0.0, below=1.0)]
    whole: bool = False
    mechanisms: ClassVar[tuple[type, ...]] = (ExponentialMechanism, PermuteAndFlip)
    uses: ClassVar[int] = 2
    takes_gaps: ClassVar[bool] = True
    protected: ClassVar[str] = "two quantiles of a column among public candidates"
    proof: ClassVar[str] = "ranges"

    def sensitivity(self, relation: Relation) -> float:
        """Bound the change of any score."""
        return 1.0

    def on(self, rows: Rows) -> Counts:
        """Return the exact counts of values between the candidates."""
        return moments.column_counts(rows, self.column, edges(self.whole))

    def release(
        self, exact: Counts, mechanism: SelectionMechanism, public: Public, noise: Noise
    ) -> tuple[float, float]:
        """Choose both bounds."""
        return select_bounds_from_counts(
            exact.values,
            public.n_rows,
            self.coverage,
            mechanism,
            noise,
            exact.unit,
            whole=self.whole,
        )
