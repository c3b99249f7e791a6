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
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from discreet.errors import PrivacyError
from discreet.privacy.account import Account
from discreet.privacy.budget import Relation
from discreet.privacy.conversions import Conversion
from discreet.privacy.filters import Measure, PrivacyFilter, Unique
from discreet.privacy.mechanisms import AdditiveMechanism, Gaussian, SelectionMechanism
from discreet.privacy.noise import Noise

__all__ = ["Curator", "NoisyGradient", "Rows", "Sum"]

FloatArray = NDArray[np.float64]

_CLIPS = (1e-100, 1e100)
"""Clips that sums over rows can take; see docs/proofs/summation.md."""


class Sum(Protocol):
    """A sum over rows as computed, and a public bound on its rounding error."""

    @property
    def values(self) -> FloatArray:
        """The computed sum."""
        ...

    @property
    def error(self) -> float:
        """Bound on its distance from the exact sum; see docs/proofs/summation.md."""
        ...


class Rows(Protocol):
    """What the curator needs of the place where rows live."""

    @property
    def n_rows(self) -> int:
        """Number of rows (public)."""
        ...

    @property
    def n_parameters(self) -> int:
        """Number of weights (public)."""
        ...

    def gradient_sum(self, weights: FloatArray, loss: Any, clip: float) -> Sum:
        """Sum of the rows' loss gradients, each clipped to L2 norm ``clip``."""
        ...

    def line_losses(
        self, weights: FloatArray, direction: FloatArray, steps: FloatArray, loss: Any, clip: float
    ) -> Sum:
        """For each step, the sum of the rows' losses at ``weights - step·direction``, clipped."""
        ...

    def sample(self, rate: float, generator: np.random.Generator) -> Self:
        """A Poisson sample of the rows."""
        ...


@dataclass(frozen=True, eq=False)
class NoisyGradient:
    """A noisy sum of clipped gradients.

    Attributes
    ----------
    values
        The noisy sum over rows (not the mean).
    noise_scale
        Standard deviation of the noise in each coordinate.
    mechanism
        The Gaussian mechanism that all measurements of it amount to together.
    """

    values: FloatArray
    noise_scale: float
    mechanism: Gaussian


class Curator(Unique):
    """Answers private questions about rows within a budget.

    Parameters
    ----------
    rows : Rows
        The protected rows.
    account : Account
        The fit's budget.
    noise : Noise
        Where noise comes from.
    share : Fraction
        The part of the account that this curator may spend.
    """

    def __init__(
        self, rows: Rows, account: Account, noise: Noise, share: Fraction = Fraction(1)
    ) -> None:
        self._rows = rows
        self._account = account
        self._noise = noise
        self._share = share
        self._n_rows = rows.n_rows
        self._filter: PrivacyFilter | None = None
        self._measured: tuple[NoisyGradient, Sum, float] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows of the whole table (public; that of a sample of it is not)."""
        return self._n_rows

    @property
    def n_parameters(self) -> int:
        """Number of weights (public)."""
        return self._rows.n_parameters

    @property
    def relation(self) -> Relation:
        """The relation that every answer is protected under."""
        return self._account.budget.relation

    @property
    def spent_share(self) -> float:
        """Share of this curator's budget that is spent; a function of earlier answers only."""
        return self._open_filter.spent_share

    @property
    def _open_filter(self) -> PrivacyFilter:
        if self._filter is None:
            raise PrivacyError("Call curator.open(measure) before asking for private answers.")
        return self._filter

    def open(self, measure: Measure, conversion: Conversion = "tight") -> float:
        """Choose, once, the measure to compose in; returns this curator's total in its unit."""
        if self._filter is not None:
            raise PrivacyError("This curator's budget is already open.")
        self._filter = self._account.open(measure, conversion, self._share)
        return float(self._filter.total)

    def sample(self, rate: float) -> Curator:
        """A curator for a fresh Poisson sample of the rows, on the same budget.

        Privacy
        -------
        No amplification is claimed: whatever the sample, a row is in it at most once, so every
        answer has the sensitivity it has on all rows. The sample is drawn independently of the
        rows' values, so its randomness needs no protection; its size stays inside.
        """
        if not 0 < rate <= 1:
            raise ValueError(f"rate must be in (0, 1]; got {rate!r}.")
        filter_ = self._open_filter
        generator = np.random.default_rng([int(word) for word in self._noise.bits.words(4)])
        part = Curator(self._rows.sample(rate, generator), self._account, self._noise, self._share)
        part._filter = filter_
        part._n_rows = self._n_rows
        return part

    def gradient(
        self, loss: Any, weights: FloatArray, *, clip: float, mechanism: Gaussian
    ) -> NoisyGradient:
        """The sum over rows of the gradient of ``loss`` at ``weights``, clipped row by row, noisy.

        Privacy
        -------
        L2 sensitivity: clip under add/remove, twice that under replace, plus twice the rounding
        error of the sum, for any loss that is computed row by row. Cost: that of ``mechanism``.
        """
        weights = self._vector("weights", weights)
        clip = _check_clip(clip)
        _check_kind(mechanism, Gaussian)
        self._open_filter.charge(mechanism)
        exact = self._rows.gradient_sum(weights, loss, clip)
        noisy = self._measure(exact, clip, mechanism)
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
        _check_kind(mechanism, Gaussian)
        self._open_filter.charge(mechanism)
        again = self._measure(exact, clip, mechanism)
        old = 1 / gradient.noise_scale**2
        new = 1 / again.noise_scale**2
        merged = NoisyGradient(
            values=(old * gradient.values + new * again.values) / (old + new),
            noise_scale=1 / math.sqrt(old + new),
            mechanism=Gaussian(
                1
                / math.hypot(
                    1 / gradient.mechanism.noise_multiplier, 1 / mechanism.noise_multiplier
                )
            ),
        )
        self._measured = (merged, exact, clip)
        return merged

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
        """Which step along ``-direction`` has (noisily) the least clipped loss.

        ``public_losses`` is added to each candidate's sum of row losses (a penalty, say): it may
        depend on anything that is not private.

        Privacy
        -------
        One row's losses lie in [0, clip], so adding it moves all candidates' sums the same way by
        at most clip (monotone); replacing it moves each by at most clip either way (not monotone:
        twice the noise). Rounding errors widen that by four times their bound. Cost: that of
        ``mechanism``.
        """
        weights = self._vector("weights", weights)
        direction = self._vector("direction", direction)
        steps = _finite("steps", steps)
        public_losses = _finite("public_losses", public_losses)
        if steps.ndim != 1 or steps.size < 1 or steps.shape != public_losses.shape:
            raise ValueError("steps and public_losses must be vectors of one length, at least 1.")
        clip = _check_clip(clip)
        _check_kind(mechanism, SelectionMechanism)
        if mechanism.monotone and self.relation is not Relation.ADD_REMOVE:
            raise PrivacyError(
                f"Sums of losses are not monotone under {str(self.relation)!r}: use a mechanism "
                "with monotone=False, which adds twice the noise."
            )
        self._open_filter.charge(mechanism)
        sums = self._rows.line_losses(weights, direction, steps, loss, clip)
        return mechanism.select(
            -(sums.values + public_losses),
            sensitivity=clip + 4 * self._score_error(sums, clip, public_losses),
            noise=self._noise,
        )

    def release(
        self,
        compute: Callable[[Any], FloatArray],
        *,
        size: int,
        sensitivity: float,
        proven_for: Relation,
        magnitude: float,
        mechanism: AdditiveMechanism,
    ) -> FloatArray:
        """Run ``compute(rows)`` inside and release its result with noise.

        For trusted solvers only: the caller has proven that the result, rounding errors included,
        moves by at most ``sensitivity`` in the mechanism's norm between neighbours under
        ``proven_for``; that it is finite for every table; and that ``compute`` raises nothing
        whose text depends on the rows.

        Privacy
        -------
        Cost: that of ``mechanism``. A result that is not finite or has the wrong size is withheld,
        and what was charged stays spent.
        """
        sensitivity = _positive("sensitivity", sensitivity)
        magnitude = _positive("magnitude", magnitude)
        _check_kind(mechanism, AdditiveMechanism)
        if Relation.parse(proven_for) is not self.relation:
            raise PrivacyError(
                f"The sensitivity was proven for {str(proven_for)!r}, but this budget is for "
                f"{str(self.relation)!r}."
            )
        self._open_filter.charge(mechanism)
        values = np.asarray(compute(self._rows), dtype=np.float64)
        if values.shape != (size,) or not np.isfinite(values).all():
            raise PrivacyError(
                f"The computation did not give {size} finite numbers; nothing was released."
            )
        noisy, _ = mechanism.release(
            values, sensitivity=sensitivity, magnitude=magnitude, noise=self._noise
        )
        return noisy

    def _measure(self, exact: Sum, clip: float, mechanism: Gaussian) -> NoisyGradient:
        values, scale = mechanism.release(
            exact.values,
            sensitivity=self.relation.rows_changed * clip + 2 * exact.error,
            magnitude=(self.n_rows + 1) * clip + exact.error,
            noise=self._noise,
        )
        return NoisyGradient(values, scale, mechanism)

    def _score_error(self, sums: Sum, clip: float, public_losses: FloatArray) -> float:
        """Rounding error of a score: that of the sum, and of adding the public part to it.

        From public quantities only: no loss sum exceeds what n + 1 rows at the clip would give.
        """
        largest = (self.n_rows + 1) * clip + sums.error + np.abs(public_losses).max()
        return float(sums.error + 2.0**-52 * largest)

    def _vector(self, name: str, value: FloatArray) -> FloatArray:
        vector = _finite(name, value)
        if vector.shape != (self.n_parameters,):
            raise ValueError(f"{name} must have shape ({self.n_parameters},); got {vector.shape}.")
        return vector


def _finite(name: str, value: FloatArray) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinity; nothing was spent.")
    return array


def _positive(name: str, value: float) -> float:
    number = float(value)  # a double: narrower types would round sensitivities too coarsely
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be > 0 and finite; got {value!r}.")
    return number


def _check_clip(clip: float) -> float:
    number = float(clip)
    if not _CLIPS[0] <= number <= _CLIPS[1]:
        raise ValueError(
            f"clip must be between {_CLIPS[0]:g} and {_CLIPS[1]:g}; got {clip!r}. "
            "A usual choice is 3."
        )
    return number


def _check_kind(mechanism: object, kind: type) -> None:
    """Refuse a mechanism whose noise does not fit the question's sensitivity, before charging."""
    if not isinstance(mechanism, kind):
        raise TypeError(
            f"this question needs a {kind.__name__} mechanism; got {type(mechanism).__name__}."
        )
