"""Questions that pick one of several candidates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from discreet.accounting.budget import Relation
from discreet.core.curator.base import CuratorBase
from discreet.core.curator.checks import check_clip, check_kind, finite
from discreet.core.curator.protocols import FloatArray, Sum
from discreet.core.mechanisms import ExponentialMechanism, SelectionMechanism
from discreet.core.noisy_max import LaplaceNoisyMax, select_in_groups
from discreet.errors import NotSupported, PrivacyError

__all__ = ["Selections"]


class Selections(CuratorBase):
    """Noisy choices by sums over rows."""

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
        steps = finite("steps", steps)
        public_losses = finite("public_losses", public_losses)
        if steps.ndim != 1 or steps.size < 1 or steps.shape != public_losses.shape:
            raise ValueError("steps and public_losses must be vectors of one length, at least 1.")
        clip = check_clip(clip)
        check_kind(mechanism, SelectionMechanism)
        if isinstance(mechanism, LaplaceNoisyMax):
            raise TypeError("choose_step takes no Laplace noise: use an ExponentialMechanism.")
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

    def choose_corner(
        self,
        loss: Any,
        weights: FloatArray,
        *,
        clip: float,
        public_gradient: FloatArray,
        mechanism: SelectionMechanism,
    ) -> tuple[int, int]:
        """Along which signed coordinate the objective falls (noisily) fastest at ``weights``.

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
        weights = self._vector("weights", weights)
        public_gradient = self._vector("public_gradient", public_gradient)
        clip = check_clip(clip)
        _check_unordered(mechanism, loss, "Scores of corners")
        self._open_filter.charge(mechanism)
        sums = self._rows.corner_gradient(weights, loss, clip)
        total = sums.values + public_gradient
        chosen = self._select(
            np.concatenate([-total, total]), sums, clip, public_gradient, mechanism
        )
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
        """Which of several weights has (noisily) the least loss, compared with a public parent.

        Scores are the rows' changes of loss from ``parent``, clipped row by row.
        ``public_losses`` is added to each candidate's sum: it may depend on anything that is not
        private, and so may the candidates and the parent.

        Privacy
        -------
        One row's changes lie in [−clip, clip], so adding it moves each score by at most clip either
        way (not monotone); replacing it by at most 2·clip. Rounding errors widen that by twice
        their bound. Cost: that of ``mechanism``. Proof: docs/proofs/privgene.md.
        """
        parent = self._vector("parent", parent)
        candidates = finite("candidates", candidates)
        public_losses = finite("public_losses", public_losses)
        if candidates.ndim != 2 or candidates.shape != (public_losses.size, self.n_parameters):
            raise ValueError(
                f"candidates must have shape (m, {self.n_parameters}) with one public loss each; "
                f"got {candidates.shape} and {public_losses.shape}."
            )
        if public_losses.ndim != 1 or public_losses.size < 1:
            raise ValueError("public_losses must be a vector of at least one number.")
        clip = check_clip(clip)
        _check_unordered(mechanism, loss, "Changes of losses")
        self._open_filter.charge(mechanism)
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
        """Select by scores each of which moves by at most clip a changed row, either way."""
        error = self._score_error(sums, clip, public)
        sensitivity = math.nextafter(self.relation.rows_changed * clip + 2 * error, math.inf)
        magnitude = (self.n_rows + 1) * clip + error + float(np.abs(public).max())
        if isinstance(mechanism, ExponentialMechanism):
            return select_in_groups(
                mechanism,
                scores,
                sensitivity=sensitivity,
                magnitude=magnitude,
                noise=self._noise,
            )
        if isinstance(mechanism, LaplaceNoisyMax):
            return mechanism.select(
                scores, sensitivity=sensitivity, magnitude=magnitude, noise=self._noise
            )
        return mechanism.select(scores, sensitivity=sensitivity, noise=self._noise)

    def _score_error(self, sums: Sum, clip: float, public_losses: FloatArray) -> float:
        """Rounding error of a score: that of the sum, and of adding the public part to it.

        From public quantities only: no loss sum exceeds what n + 1 rows at the clip would give.
        """
        largest = (self.n_rows + 1) * clip + sums.error + np.abs(public_losses).max()
        return float(sums.error + 2.0**-52 * largest)


def _check_unordered(mechanism: SelectionMechanism, loss: Any, scores: str) -> None:
    """Refuse, before charging, a mechanism that counts on scores moving the same way.

    And a loss with several margins a row, which the sums behind these scores do not take.
    """
    check_kind(mechanism, SelectionMechanism)
    if getattr(loss, "n_outputs", 1) > 1:
        raise NotSupported(f"{loss.name!r} has several outputs a row; choices take one margin.")
    if mechanism.monotone:
        raise PrivacyError(
            f"{scores} are not monotone: a row moves some up and others down. Use a mechanism with "
            "monotone=False, which adds twice the noise."
        )
