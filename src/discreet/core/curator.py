"""The curator: the only code that sees rows, and it charges before it looks.

A solver asks; the curator checks the question (nothing is spent on a bad one), charges the filter,
computes on the rows, adds noise, and hands back the noisy answer alone. Exact values stay in
attributes that start with an underscore and never appear in an answer, an error or a log line.

Proofs: docs/proofs/curator.md, and the page of each mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.budget import Budget, Measure, Relation
from discreet.accounting.conversions import UNIT, Conversion
from discreet.accounting.subsampling import SampledGaussian
from discreet.core.account import Account
from discreet.core.bits import permutation, poisson_index
from discreet.core.descents import Order, check_descent, descend
from discreet.core.filters import Mechanism, PlannedStep, PrivacyFilter, Unique
from discreet.core.mechanisms import AdditiveMechanism, Gaussian, L2Norm
from discreet.core.noise import Noise
from discreet.core.ranges import (
    edges,
    norm_candidates,
    refuse_monotone,
    select_bounds_from_counts,
    select_median_norm,
)
from discreet.core.rows import Rows, Sum
from discreet.core.selections import ExponentialMechanism, LaplaceNoisyMax, SelectionMechanism
from discreet.errors import NotSupported, PrivacyError
from discreet.validate import FloatArray, integer, number, positive, vector

Result = TypeVar("Result")

CLIPS = (1e-100, 1e100)
"""Clips that sums over rows can take; see docs/proofs/summation.md."""

_CLIP: dict[str, Any] = {"least": CLIPS[0], "most": CLIPS[1], "remedy": "A usual choice is 3."}

_OPEN = "This curator's budget is already open."


@dataclass(frozen=True, eq=False)
class NoisyGradient:
    """A noisy sum of clipped gradients (not the mean), and the noise's standard deviation.

    ``mechanism`` is the Gaussian mechanism that all measurements of it amount to together.
    """

    values: FloatArray
    noise_scale: float
    mechanism: Gaussian


@dataclass(frozen=True, eq=False)
class NoisyMoment:
    """A noisy sum over rows (not the mean), and the noise's standard deviation per coordinate."""

    values: FloatArray
    deviation: float

    def matrix(self) -> FloatArray:
        """Return the symmetric matrix whose upper triangle it is, off-diagonals times √2."""
        size = (math.isqrt(8 * self.values.size + 1) - 1) // 2
        first, second = np.triu_indices(size)
        matrix: FloatArray = np.empty((size, size))
        matrix[first, second] = self.values / np.where(first == second, 1.0, math.sqrt(2.0))
        matrix[second, first] = matrix[first, second]
        return matrix


class Curator(Unique):
    """Answers private questions about rows within a budget.

    Parameters
    ----------
    rows : Rows
        The protected rows.
    account : Account
        The fit's budget.
    noise : Noise
        Source of the noise.
    share : Fraction
        Share of the account that this curator may spend.
    n_rows : int, optional
        Public size of the whole table, if these are a sample of it.

    Attributes
    ----------
    n_rows
        Public size of the whole table: its number of rows (that of a sample of it is private), or
        the number of privacy units, where several rows may share one.
    n_parameters
        Number of weights (public).
    relation
        Relation that every answer is protected under.
    n_models
        Number of models that share the fit's budget; this curator serves one of them.
    """

    def __init__(
        self,
        rows: Rows,
        account: Account,
        noise: Noise,
        share: Fraction = Fraction(1),
        n_rows: int | None = None,
    ) -> None:
        self._rows = rows
        self._account = account
        self._noise = noise
        self._share = share
        self._filter: PrivacyFilter | None = None
        self._measured: tuple[NoisyGradient, Sum, float] | None = None
        self.n_rows: Final = rows.public_size if n_rows is None else n_rows
        self.n_parameters: Final = rows.n_parameters
        self.relation: Final = account.budget.relation
        self.n_models: Final = int(1 / share)

    # ---- the budget

    @property
    def budget(self) -> Budget:
        """Budget of all models of the fit: that of the account, without what was reserved."""
        return self._account.models

    @property
    def spent_share(self) -> float:
        """Share of this curator's budget that is spent; a function of earlier answers only."""
        return 0.0 if self._filter is None else self._filter.spent_share

    def _charge(self, mechanism: Mechanism, *kinds: type, times: int = 1) -> None:
        """Charge for a mechanism, unless its noise does not fit the question's sensitivity."""
        if self._filter is None:
            raise PrivacyError("Call curator.open(measure) before asking for private answers.")
        if not isinstance(mechanism, kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            got = type(mechanism).__name__
            raise TypeError(f"this question needs a {names} mechanism; got {got}.")
        self._filter.charge(mechanism, times)

    def open(self, measure: Measure, conversion: Conversion = "tight") -> float:
        """Choose, once, the measure to compose in; returns this curator's total in its unit."""
        if self._filter is not None:
            raise PrivacyError(_OPEN)
        self._filter = self._account.open(measure, conversion, self._share)
        return float(self._filter.total)

    def open_plan(self, step: PlannedStep, count: int) -> None:
        """Spend this curator's budget on at most ``count`` uses of one mechanism, nothing else.

        For mechanisms that only compose well as a whole (amplification by sampling): the account
        checks that all models' steps together keep the budget before it opens.
        """
        if self._filter is not None:
            raise PrivacyError(_OPEN)
        self._filter = self._account.open_plan(step, count, self._share)

    def open_reserved(self, part: int) -> tuple[Measure, Fraction]:
        """Open a part of the budget that was reserved; returns its measure and total."""
        if self._filter is not None:
            raise PrivacyError(_OPEN)
        self._filter = self._account.open_reserved(part)
        return self._filter.measure, self._filter.total

    # ---- other views of the rows, on the same budget

    def sample(self, rate: float) -> Self:
        """Return a curator for a fresh Poisson sample of the rows, on the same budget.

        Privacy
        -------
        No amplification is claimed: whatever the sample, a row is in it at most once, so every
        answer has the sensitivity it has on all rows. The sample is drawn independently of the
        rows' values, so its randomness needs no protection; its size stays inside.
        """
        rate = number("rate", rate, above=0.0, most=1.0)
        return self._view(self._rows.sample(rate, self.generator()))

    def on_sample(self, rows: Rows, n_rows: int) -> Self:
        """Return a curator for a sample that was drawn already, of ``n_rows`` expected rows.

        Privacy
        -------
        As for `sample`: ``rows`` has rows of the same table, each once at most, by a draw that does
        not depend on their values. ``n_rows`` is public.
        """
        return self._view(rows, integer("n_rows", n_rows, least=1, most=self.n_rows))

    def columns(
        self,
        index: NDArray[np.intp],
        *,
        factor: float = 1.0,
        matrix: FloatArray | None = None,
    ) -> Self:
        """Return a curator for some columns of the rows, times ``factor``, on the same budget.

        Rows under a map may be multiplied by a ``matrix``, too. A constant feature stays, as it is.
        All arguments may depend on anything that is not private: public numbers, earlier answers.

        Privacy
        -------
        Nothing is released and nothing spent. A row's new values are a function of that row and of
        numbers that are not private, so tables that differ in one row still do, and every answer
        has the sensitivity it has on any table. Proof: docs/proofs/shrunk_gd.md.
        """
        chosen = np.asarray(index, dtype=np.intp)
        rising = chosen.ndim == 1 and chosen.size > 0 and bool(np.all(np.diff(chosen) > 0))
        if not rising or chosen[0] < 0 or chosen[-1] >= self.n_parameters:
            raise ValueError("index must name at least one column, each once, in rising order.")
        return self._view(self._rows.columns(chosen, positive("factor", factor), matrix))

    def _view(self, rows: Rows, n_rows: int | None = None) -> Self:
        n_rows = self.n_rows if n_rows is None else n_rows
        view = type(self)(rows, self._account, self._noise, self._share, n_rows)
        view._filter = self._filter
        return view

    # ---- randomness that involves no row

    def generator(self) -> np.random.Generator:
        """Return a fresh generator for randomness that no privacy rests on, such as proposals.

        It is seeded from the curator's bits, so a fit with a fixed seed repeats it.
        """
        return np.random.default_rng([int(word) for word in self._noise.bits.words(4)])

    def permutation(self) -> NDArray[np.int64]:
        """Draw a uniformly random order of the rows, independent of their values."""
        return permutation(self.n_rows, self._noise.bits)

    def draw_index(self, chances: FloatArray) -> int:
        """Draw a random index with probability proportional to ``chances``; reads no row."""
        ends = np.cumsum(vector("chances", chances))
        if ends.size < 1 or not ends[-1] > 0 or np.min(chances) < 0:
            raise ValueError("chances must be a vector of numbers >= 0 that are not all 0.")
        share = int(self._noise.bits.words(1)[0] >> np.uint64(11)) * UNIT
        return int(np.searchsorted(ends, share * ends[-1], side="right"))

    # ---- gradients

    def gradient(
        self, loss: Any, weights: FloatArray, *, clip: float, mechanism: Gaussian
    ) -> NoisyGradient:
        """Release the sum over rows of the gradients of ``loss`` at ``weights``, each clipped.

        A loss with K margins per row takes K rows of weights, one after the other; the clip bounds
        a row's gradient of all of them together.

        Privacy
        -------
        L2 sensitivity: clip under add/remove, twice that under replace, plus twice the rounding
        error of the sum, for any loss that is computed row by row. Cost: that of ``mechanism``.
        """
        weights = vector("weights", weights, getattr(loss, "n_outputs", 1) * self.n_parameters)
        clip = number("clip", clip, **_CLIP)
        self._charge(mechanism, Gaussian)
        exact = self._rows.gradient_sum(weights, loss, clip)
        changed = self.relation.rows_changed
        noisy = NoisyGradient(*self._add_noise(exact, changed * clip, clip, mechanism), mechanism)
        self._measured = (noisy, exact, clip)
        return noisy

    def refine(self, gradient: NoisyGradient, *, mechanism: Gaussian) -> NoisyGradient:
        """Measure the same gradient again and average, weighted by precision.

        Only the newest gradient can be refined (its exact sum is kept inside, so this costs no
        pass over the rows).

        Privacy
        -------
        An independent release of the same sum: cost that of ``mechanism``, on top of what was
        spent. The average is post-processing; it carries the precision of both.
        """
        if self._measured is None or self._measured[0] is not gradient:
            raise ValueError("Only the newest gradient of this curator can be refined.")
        _, exact, clip = self._measured
        self._charge(mechanism, Gaussian)
        changed = self.relation.rows_changed
        again = NoisyGradient(*self._add_noise(exact, changed * clip, clip, mechanism), mechanism)
        old = 1 / gradient.noise_scale**2
        new = 1 / again.noise_scale**2
        mu = math.hypot(1 / gradient.mechanism.noise_multiplier, 1 / mechanism.noise_multiplier)
        merged = NoisyGradient(
            values=(old * gradient.values + new * again.values) / (old + new),
            noise_scale=1 / math.sqrt(old + new),
            mechanism=Gaussian(1 / mu),
        )
        self._measured = (merged, exact, clip)
        return merged

    def sampled_gradient(
        self, loss: Any, weights: FloatArray, *, clip: float, mechanism: SampledGaussian
    ) -> NoisyGradient:
        """Release that sum over a fresh Poisson sample of the units, drawn with the rate charged.

        A unit is a row, unless rows share units: then it is drawn with all of its rows.

        Privacy
        -------
        Given who else is sampled, a unit that is sampled too moves the sum, rounding errors and
        grid included, by at most the number that ``mechanism.noise_multiplier`` is multiplied
        with; so each step is what ``mechanism`` accounts for. The sample and its size stay inside.
        Proof: docs/proofs/subsampling.md.
        """
        weights = vector("weights", weights, self.n_parameters)
        clip = number("clip", clip, **_CLIP)
        if isinstance(mechanism, SampledGaussian) and (
            mechanism.relation is not self.relation or mechanism.sampling != "poisson"
        ):
            raise PrivacyError(
                f"This question needs Poisson sampling accounted under {str(self.relation)!r}; got "
                f"{mechanism!r}. Nothing was spent."
            )
        self._rows.check_sampling()
        self._charge(mechanism, SampledGaussian)
        noise, rows = Gaussian(mechanism.noise_multiplier), self._rows
        if mechanism.rate < 1:
            rows = rows.take_units(poisson_index(rows.n_units, mechanism.rate, self._noise.bits))
        exact = rows.gradient_sum(weights, loss, clip)
        return NoisyGradient(*self._add_noise(exact, clip, clip, noise), noise)

    def _add_noise(
        self, exact: Sum, sensitivity: float, largest: float, mechanism: AdditiveMechanism
    ) -> tuple[FloatArray, float]:
        """Release a sum; no coordinate of a term exceeds ``largest``. Also returns the scale."""
        return mechanism.release(
            exact.values,
            sensitivity=sensitivity + 2 * exact.error,
            magnitude=(self.n_rows + 1) * largest + exact.error,
            noise=self._noise,
        )

    def descend(
        self,
        loss: Any,
        start: FloatArray,
        *,
        clip: float,
        step_sizes: FloatArray,
        mechanism: Mechanism,
        order: Order,
        batch_size: int = 1,
        alpha: float = 0.0,
        radius: float | None = None,
        average: bool = False,
    ) -> FloatArray:
        """Take noisy steps of gradient descent from ``start``; returns the last weights.

        w ← w − step·((Σ clipped gradients of a batch + noise)/b + alpha·w), projected to the ball
        of ``radius`` if there is one; with ``average``, the mean of the weights after each update.
        ``start`` may depend on all earlier answers. In the order ``"pass"``, a fresh random
        permutation of the rows is cut into n // b batches of exactly b = ``batch_size`` rows, the
        rest is not used, and a `Gaussian` or `L2Norm` is charged once for the whole pass. In the
        order ``"one_row"``, each update takes one row, drawn uniformly and independently, and a
        `SampledGaussian` is charged per update.

        Privacy
        -------
        Under replace only. *pass*: a replaced row is in one batch at most, whose sum then moves by
        2·clip plus twice its rounding error; the other sums are computed from the same rows at
        weights that are functions of earlier noisy sums. So the whole pass costs ``mechanism``
        once. Under add/remove this does not follow: one row more shifts the batches of all.
        *one_row*: every update is a use of ``mechanism``; its amplification rests on the secrecy
        and uniformity of the draws, which come from the noise's own bits.
        """
        weights = vector("start", start, self.n_parameters)
        clip, steps = number("clip", clip, **_CLIP), vector("step_sizes", step_sizes)
        alpha = number("alpha", alpha, least=0.0)
        radius = None if radius is None else positive("radius", radius)
        if getattr(loss, "n_outputs", 1) > 1:
            raise NotSupported("descent by batches needs a loss with one output per row.")
        self._rows.check_batches()
        if self._rows.n_rows != self.n_rows:
            raise PrivacyError("Descent by batches needs all rows, not a sample of them.")
        check_descent(mechanism, order, batch_size, steps.size, self.n_rows, self.relation)
        self._charge(mechanism, object, times=1 if order == "pass" else steps.size)
        settings = {"clip": clip, "alpha": alpha, "radius": radius}
        last, mean = descend(
            self._rows, loss, weights, steps, mechanism, batch_size, self._noise, **settings
        )
        return mean if average else last

    # ---- choices

    def choose_step(
        self,
        loss: Any,
        weights: FloatArray,
        direction: FloatArray,
        steps: FloatArray,
        *,
        clip: float,
        public_losses: FloatArray,
        mechanism: SelectionMechanism,
    ) -> int:
        """Choose the step along ``-direction`` that has (noisily) the least clipped loss.

        ``public_losses`` is added to each candidate's sum of row losses (a penalty, say): it may
        depend on anything that is not private.

        Privacy
        -------
        One row's losses lie in [0, clip], so adding it moves all candidates' sums the same way by
        at most clip (monotone); replacing it moves each by at most clip either way (not monotone:
        twice the noise). Rounding errors widen that by four times their bound. Cost: that of
        ``mechanism``.
        """
        weights = vector("weights", weights, self.n_parameters)
        direction = vector("direction", direction, self.n_parameters)
        steps = vector("steps", steps)
        public_losses = vector("public_losses", public_losses, steps.size)
        if steps.size < 1:
            raise ValueError("steps must have at least one number.")
        clip = number("clip", clip, **_CLIP)
        if isinstance(mechanism, LaplaceNoisyMax):
            raise TypeError("choose_step takes no Laplace noise: use an ExponentialMechanism.")
        if self.relation is not Relation.ADD_REMOVE:
            refuse_monotone(mechanism, f"Sums of losses under {str(self.relation)!r}")
        self._charge(mechanism, SelectionMechanism)
        sums = self._rows.line_losses(weights, direction, steps, loss, clip)
        return mechanism.select(
            -(sums.values + public_losses),
            sensitivity=clip + 4 * self._score_error(sums, clip, public_losses),
            noise=self._noise,
        )

    def choose_corner(
        self,
        loss: Any,
        weights: FloatArray,
        *,
        clip: float,
        public_gradient: FloatArray,
        mechanism: SelectionMechanism,
    ) -> tuple[int, int]:
        """Choose the signed coordinate along which the objective falls (noisily) fastest.

        Returns the coordinate and the sign (±1) of the corner of an L1 ball that has the least
        inner product with the gradient. ``public_gradient`` is added to the sum of the rows'
        gradients (a penalty's, say): it may depend on anything that is not private.

        Privacy
        -------
        Entries of one row's gradient lie in [−clip, clip], so adding it moves each of the scores
        ±gradient_j by at most clip and some of them in opposite directions (never monotone);
        replacing it moves each by at most 2·clip. Rounding errors widen that by twice their
        bound. Cost: that of ``mechanism``. Proof: docs/proofs/frank_wolfe.md.
        """
        weights = vector("weights", weights, self.n_parameters)
        public_gradient = vector("public_gradient", public_gradient, self.n_parameters)
        clip = number("clip", clip, **_CLIP)
        _refuse_outputs(loss)
        refuse_monotone(mechanism, "Scores of corners")
        self._charge(mechanism, SelectionMechanism)
        sums = self._rows.corner_gradient(weights, loss, clip)
        total = sums.values + public_gradient
        scores = np.concatenate([-total, total])
        chosen = self._select(scores, sums, clip, public_gradient, mechanism)
        return chosen % total.size, 1 if chosen < total.size else -1

    def choose_candidate(
        self,
        loss: Any,
        candidates: FloatArray,
        parent: FloatArray,
        *,
        clip: float,
        public_losses: FloatArray,
        mechanism: SelectionMechanism,
    ) -> int:
        """Choose the weights that have (noisily) the least loss, compared with a public parent.

        Scores are the rows' changes of loss from ``parent``, clipped row by row.
        ``public_losses`` is added to each candidate's sum: it may depend on anything that is not
        private, and so may the candidates and the parent.

        Privacy
        -------
        One row's changes lie in [−clip, clip], so adding it moves each score by at most clip either
        way (not monotone); replacing it by at most 2·clip. Rounding errors widen that by twice
        their bound. Cost: that of ``mechanism``. Proof: docs/proofs/privgene.md.
        """
        parent = vector("parent", parent, self.n_parameters)
        public_losses = vector("public_losses", public_losses)
        shape = (public_losses.size, self.n_parameters)
        if np.shape(candidates) != shape or public_losses.size < 1:
            raise ValueError(
                f"candidates must have shape (m, {self.n_parameters}) with one public loss each; "
                f"got {np.shape(candidates)} and {public_losses.shape}."
            )
        candidates = vector("candidates", np.ravel(candidates)).reshape(shape)
        clip = number("clip", clip, **_CLIP)
        _refuse_outputs(loss)
        refuse_monotone(mechanism, "Changes of losses")
        self._charge(mechanism, SelectionMechanism)
        sums = self._rows.candidate_losses(candidates, parent, loss, clip)
        scores = -(sums.values + public_losses)
        return self._select(scores, sums, clip, public_losses, mechanism)

    def _select(
        self,
        scores: FloatArray,
        sums: Sum,
        clip: float,
        public: FloatArray,
        mechanism: SelectionMechanism,
    ) -> int:
        """Select by scores that each move by at most clip per changed row, either way."""
        error = self._score_error(sums, clip, public)
        return mechanism.select(
            scores,
            sensitivity=math.nextafter(self.relation.rows_changed * clip + 2 * error, math.inf),
            magnitude=(self.n_rows + 1) * clip + error + float(np.abs(public).max()),
            noise=self._noise,
        )

    def _score_error(self, sums: Sum, clip: float, public: FloatArray) -> float:
        """Bound the rounding error of a score: of the sum, and of adding the public part to it.

        From public quantities only: no sum exceeds what n + 1 rows at the clip would give.
        """
        largest = (self.n_rows + 1) * clip + sums.error + np.abs(public).max()
        return float(sums.error + 2 * UNIT * largest)

    def median_norm(
        self, *, mechanism: ExponentialMechanism, largest: float | None = None
    ) -> float:
        """Choose a public candidate near the median of the rows' L2 norms, at most ``largest``.

        Privacy
        -------
        One choice among public candidates by counts of norms above them, of sensitivity 1/2 under
        add/remove and 1 under replace. Cost: that of ``mechanism``. Proof:
        docs/proofs/preparation.md.
        """
        refuse_monotone(mechanism)
        largest = None if largest is None else number("clip", largest, **_CLIP)
        self._charge(mechanism, ExponentialMechanism)
        replaced = self.relation is not Relation.ADD_REMOVE
        candidates = norm_candidates(largest)
        counts = self._rows.norm_counts(candidates)
        settings = (candidates, self.n_rows, mechanism, self._noise)
        return select_median_norm(counts, *settings, replaced=replaced)

    def median_slope(
        self, loss: Any, weights: FloatArray, *, mechanism: ExponentialMechanism
    ) -> float:
        """Choose a public candidate near the median of the sizes of the loss's slopes at weights.

        Privacy
        -------
        One choice by counts of slopes above candidates, as in `median_norm`. Cost: that of
        ``mechanism``. Proof: docs/proofs/inference.md.
        """
        weights = vector("weights", weights, self.n_parameters)
        refuse_monotone(mechanism)
        _refuse_outputs(loss)
        self._charge(mechanism, ExponentialMechanism)
        replaced = self.relation is not Relation.ADD_REMOVE
        counts = self._rows.slope_counts(weights, loss, norm_candidates())
        settings = (norm_candidates(), self.n_rows, mechanism, self._noise)
        return select_median_norm(counts, *settings, replaced=replaced)

    def column_bounds(
        self,
        column: int,
        *,
        coverage: float,
        mechanism: ExponentialMechanism,
        whole: bool = False,
    ) -> tuple[float, float]:
        """Choose public bounds between which about ``coverage`` of a column's values lie.

        With ``whole`` they are whole numbers.

        Privacy
        -------
        Two choices among public candidates by counts of values below them, each of sensitivity 1
        under both relations. Cost: twice that of ``mechanism``.
        """
        coverage = number("coverage", coverage, above=0.0, below=1.0)
        refuse_monotone(mechanism)
        self._charge(mechanism, ExponentialMechanism, times=2)
        values, unit = self._rows.column_counts(column, edges(whole))
        return select_bounds_from_counts(
            values, self.n_rows, coverage, mechanism, self._noise, unit, whole=whole
        )

    # ---- moments

    def row_sum(self, *, mechanism: Gaussian | L2Norm) -> NoisyMoment:
        """Release the sum of the rows, each scaled down to the rows' own bound C if longer.

        Privacy
        -------
        L2 sensitivity: C under add/remove, 2C under replace, plus twice the rounding error of the
        sum. Cost: that of ``mechanism``.
        """
        return self._moment(self._rows.row_sum, None, mechanism, Gaussian, L2Norm)

    def square_sum(self, *, share: float = 1.0, mechanism: Gaussian | L2Norm) -> NoisyMoment:
        """Release the sum of the squares of entries, column by column, of rows scaled down to C.

        With a ``share`` s below 1, the squares of a row are scaled down to norm s·C² as well.

        Privacy
        -------
        L2 sensitivity: s·C² under add/remove, √2·s·C² under replace, plus twice the rounding
        error. Cost: that of ``mechanism``. Proof: docs/proofs/preparation.md.
        """
        share = number("share", share, least=1e-3, most=1.0)
        kinds, ask = (Gaussian, L2Norm), partial(self._rows.square_sum, share)
        return self._moment(ask, None, mechanism, *kinds, second=True, share=share)

    def outer_sum(self, *, mechanism: Gaussian | L2Norm) -> NoisyMoment:
        """Release the sum of xxᵀ over rows scaled down to C: its upper triangle, see `matrix`.

        Privacy
        -------
        L2 sensitivity, which is that of the matrix in Frobenius norm: C² under add/remove, √2·C²
        under replace, plus twice the rounding error. Cost: that of ``mechanism``. Proof:
        docs/proofs/preparation.md.
        """
        return self._moment(self._rows.outer_sum, None, mechanism, Gaussian, L2Norm, second=True)

    def xy_moment_sum(
        self,
        *,
        clip: float,
        target_weight: float,
        target_centre: float = 0.0,
        features: bool = True,
        mechanism: Gaussian,
    ) -> NoisyMoment:
        """Release the sum of vvᵀ over rows with their targets: its upper triangle.

        v is (x, 1, t·(y − c)): a row with its constant feature (if there is one) and its target,
        shifted by ``target_centre`` and multiplied by ``target_weight``, all scaled down together
        to norm ``clip`` where it is longer. Without ``features`` it is (1, t·(y − c)). Rows need
        no bound on their norm for it, nor targets on their size.

        Privacy
        -------
        L2 sensitivity, which is that of the matrix in Frobenius norm: clip² under add/remove,
        √2·clip² under replace, plus twice the rounding error. Cost: that of ``mechanism``. Proof:
        docs/proofs/newton.md.
        """
        clip = number("clip", clip, **_CLIP)
        weight = positive("target_weight", target_weight)
        centre = number("target_centre", target_centre)
        add_up = partial(self._rows.xy_moment_sum, clip, weight, centre, features=features)
        return self._moment(add_up, clip, mechanism, Gaussian, second=True)

    def target_sum(self, *, bound: float, mechanism: Gaussian) -> NoisyMoment:
        """Release the sum of the targets, each cut to [-bound, bound]; one number.

        Privacy
        -------
        Sensitivity: bound under add/remove, twice that under replace, plus twice the rounding
        error. Cost: that of ``mechanism``. Proof: docs/proofs/gd.md.
        """
        bound = number("bound", bound, **_CLIP)
        add_up = partial(self._rows.target_sum, bound)
        return self._moment(add_up, bound, mechanism, Gaussian)

    def class_counts(self, n_classes: int, *, mechanism: Gaussian | L2Norm) -> NoisyMoment:
        """Release the total weight of the rows of each class: targets 0, 1, …, n_classes − 1.

        Privacy
        -------
        A unit adds entries ≥ 0 of sum at most 1. L2 sensitivity: 1 under add/remove, √2 under
        replace, plus twice the rounding error. Cost: that of ``mechanism``. Proof:
        docs/proofs/gd.md.
        """
        add_up = partial(self._rows.class_counts, integer("n_classes", n_classes))
        return self._moment(add_up, 1.0, mechanism, Gaussian, L2Norm, second=True)

    def exponent_counts(
        self, among: NDArray[np.bool_] | None = None, *, mechanism: Gaussian | L2Norm
    ) -> NoisyMoment:
        """Release how many entries of each column have each binary exponent.

        There are m exponents and a cell for ±1, in this order, for each column; zeros count
        nowhere. Of columns ``among`` some, only the largest entry of each row counts: by column and
        size, and once more by size alone.

        Privacy
        -------
        A unit adds at most 1 to the cells of each of d columns, or of two where the largest entry
        counts. L2 sensitivity: √d or √2 under add/remove, √(2d) or 2 under replace. Cost: that of
        ``mechanism``. Proof: docs/proofs/preparation.md.
        """
        width = self._rows.n_features  # an intercept is not counted
        columns, kinds = width if among is None else 2, (Gaussian, L2Norm)
        if among is not None and not (np.shape(among) == (width,) and np.any(among)):
            raise ValueError(f"among must name some of {width} columns.")
        add_up = partial(self._rows.exponent_counts, among)
        return self._moment(add_up, 1.0, mechanism, *kinds, second=True, columns=columns)

    # ---- scores, for inference

    def score_sum(
        self, loss: Any, weights: FloatArray, *, clip: float, mechanism: Gaussian
    ) -> NoisyMoment:
        """Release the sum of the rows' gradients, rows longer than the clip weighted down.

        A row of norm N, with its constant, counts min(1, (clip/N)²): a weight that does not depend
        on its target. The loss has a bound on its slopes.

        Privacy
        -------
        A row's part has norm at most C = slope_bound·clip. L2 sensitivity: C under add/remove, 2C
        under replace, plus twice the rounding error. Cost: that of ``mechanism``. Proof:
        docs/proofs/inference.md.
        """
        clip = number("clip", clip, least=1.0, most=CLIPS[1])
        weights = vector("weights", weights, self.n_parameters)
        add_up = partial(self._rows.score_sum, weights, loss, clip)
        slope = positive("slope_bound of the loss", loss.slope_bound)
        return self._moment(add_up, clip * slope, mechanism, Gaussian)

    def curvature_sum(
        self, loss: Any, weights: FloatArray, *, clip: float, mechanism: Gaussian
    ) -> NoisyMoment:
        """Release the sum of φ''/κ·vvᵀ over rows v, weighted as in `score_sum`: a triangle.

        φ'' is the loss's second derivative at the row's margin and κ its bound.

        Privacy
        -------
        A row's part is h·uuᵀ with h in [0, 1] and ‖u‖ ≤ clip: sensitivity as in `outer_sum`, with
        C the clip. Cost: that of ``mechanism``. Proof: docs/proofs/inference.md.
        """
        clip = number("clip", clip, least=1.0, most=CLIPS[1])
        weights = vector("weights", weights, self.n_parameters)
        add_up = partial(self._rows.curvature_sum, weights, loss, clip)
        return self._moment(add_up, clip, mechanism, Gaussian, second=True)

    def score_square_sum(
        self, loss: Any, weights: FloatArray, *, clip: float, mechanism: Gaussian
    ) -> NoisyMoment:
        """Release the sum of squared norms of the units' parts in `score_sum`, over their bound.

        Privacy
        -------
        A unit's part is a number in [0, 1]: sensitivity 1 under both relations, plus twice the
        rounding error. Cost: that of ``mechanism``. Proof: docs/proofs/inference.md.
        """
        clip = number("clip", clip, least=1.0, most=CLIPS[1])
        weights = vector("weights", weights, self.n_parameters)
        self._charge(mechanism, Gaussian)
        exact = self._rows.score_square_sum(weights, loss, clip)
        return NoisyMoment(*self._add_noise(exact, 1.0, 1.0, mechanism))

    def _moment(
        self,
        add_up: Callable[[], Sum],
        clip: float | None,
        mechanism: AdditiveMechanism,
        *kinds: type,
        second: bool = False,
        columns: int = 1,
        share: float = 1.0,
    ) -> NoisyMoment:
        """Charge, then add up terms of norm at most clip, and release the sum.

        The clip is None for rows that are scaled down to their own bound. Terms of a second moment
        have norm at most share·clip² and differ by at most √2 times that; so do those of each of
        several columns. The deviation is that of the noise in each coordinate.
        """
        clip = self._rows.row_norm if clip is None else clip
        if clip is None:
            raise ValueError("sums of rows need rows with a public bound on their norm.")
        clip = number("clip", clip, **_CLIP)
        self._charge(mechanism, *kinds)
        exact, changed = add_up(), self.relation.rows_changed
        largest, sensitivity = clip, changed * clip
        if second:
            largest = share * clip * clip
            sensitivity = math.sqrt(columns * changed) * largest * (1 + 2.0**-50)
        values, scale = self._add_noise(exact, sensitivity, largest, mechanism)
        if isinstance(mechanism, L2Norm):  # a norm of Gamma(d), in a uniform direction
            scale *= math.sqrt(values.size + 1)
        return NoisyMoment(values, scale)

    # ---- computations on exact rows, for methods that are trusted with a proof

    def release(
        self,
        compute: Callable[[Rows], FloatArray],
        *,
        size: int,
        sensitivity: float,
        proven_for: Relation,
        magnitude: float,
        mechanism: AdditiveMechanism,
    ) -> FloatArray:
        """Run ``compute(rows)`` inside and release its result with noise.

        For trusted methods only: the caller has proven that the result, rounding errors included,
        moves by at most ``sensitivity`` in the mechanism's norm between neighbours under
        ``proven_for``; that it is finite for every table; and that ``compute`` raises nothing
        whose text depends on the rows.

        Privacy
        -------
        Cost: that of ``mechanism``. A result that is not finite or has the wrong size is withheld,
        and what was charged stays spent.
        """
        sensitivity = positive("sensitivity", sensitivity)
        magnitude = positive("magnitude", magnitude)
        self._check_proof(proven_for)
        self._charge(mechanism, AdditiveMechanism)
        values = _checked(compute(self._rows), size)
        return mechanism.release(
            values, sensitivity=sensitivity, magnitude=magnitude, noise=self._noise
        )[0]

    def run(
        self,
        compute: Callable[[Rows, Noise], Result],
        *,
        size: int,
        proven_for: Relation,
        mechanism: Mechanism,
    ) -> Result:
        """Run ``compute(rows, noise)`` inside, which adds its own noise, and release its result.

        The result is a vector of ``size`` numbers, or a tuple that starts with one and goes on
        with what else is released (bounds, noise scales): nothing needs to leave by a variable.

        For trusted methods only: the caller has proven that all of the result has the privacy of
        ``mechanism`` under ``proven_for``, and that ``compute`` raises nothing whose text depends
        on the rows.

        Privacy
        -------
        Cost: that of ``mechanism``. A result that is not finite or has the wrong size is withheld,
        and what was charged stays spent.
        """
        self._check_proof(proven_for)
        self._charge(mechanism, object)
        result = compute(self._rows, self._noise)
        _checked(result[0] if isinstance(result, tuple) else result, size)
        return result

    def reveal(self, compute: Callable[[Rows], FloatArray], *, size: int) -> FloatArray:
        """Run ``compute(rows)`` and return its result as it is: for baselines, not private.

        Privacy
        -------
        None. The account forfeits its promise before the rows are read: its guarantee says that
        the fit is not private, and a ledger refuses it.
        """
        self._account.forfeit()
        return _checked(compute(self._rows), size)

    def _check_proof(self, proven_for: Relation) -> None:
        if self._rows.grouped:
            raise PrivacyError("The sensitivity was proven for single rows, but rows share units.")
        if Relation(proven_for) is not self.relation:
            raise PrivacyError(
                f"The sensitivity was proven for {str(proven_for)!r}, but this budget is for "
                f"{str(self.relation)!r}."
            )


def _refuse_outputs(loss: Any) -> None:
    if getattr(loss, "n_outputs", 1) > 1:
        raise NotSupported(f"{loss.name!r} has several outputs per row; choices take one margin.")


def _checked(result: object, size: int) -> FloatArray:
    values = np.asarray(result, dtype=np.float64)
    if values.shape != (size,) or not np.isfinite(values).all():
        raise PrivacyError(
            f"The computation did not give {size} finite numbers; nothing was released."
        )
    return values
