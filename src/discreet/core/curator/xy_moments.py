"""The question about rows and targets together: a noisy second moment of both."""

from __future__ import annotations

from typing import Protocol, cast

import numpy as np

from discreet.core.curator.checks import check_clip, check_kind, finite, positive
from discreet.core.curator.moments import Moments, NoisyMoment
from discreet.core.curator.protocols import Sum
from discreet.core.mechanisms import Gaussian

__all__ = ["XYMoments"]


class _WithTargets(Protocol):
    """What this question needs of rows, beyond what every question does."""

    def xy_moment_sum(
        self, clip: float, target_weight: float, target_centre: float, *, features: bool
    ) -> Sum:
        """Sum of vvᵀ, v a row with its constant and moved target, scaled down to ``clip``."""
        ...

    def target_sum(self, bound: float) -> Sum:
        """Sum of the targets, each cut to [-bound, bound]."""
        ...


class XYMoments(Moments):
    """Noisy sums of targets, and second moments of rows with their targets."""

    def target_sum(self, *, bound: float, mechanism: Gaussian) -> NoisyMoment:
        """The sum of the targets, each cut to [-bound, bound]; one number.

        Privacy
        -------
        Sensitivity: bound under add/remove, twice that under replace, plus twice the rounding
        error. Cost: that of ``mechanism``. Proof: docs/proofs/gd.md.
        """
        bound = check_clip(bound)
        check_kind(mechanism, Gaussian)
        self._open_filter.charge(mechanism)
        exact = cast(_WithTargets, self._rows).target_sum(bound)
        return self._moment(exact, self.relation.rows_changed * bound, bound, mechanism)

    def xy_moment_sum(
        self,
        *,
        clip: float,
        target_weight: float,
        target_centre: float = 0.0,
        features: bool = True,
        mechanism: Gaussian,
    ) -> NoisyMoment:
        """The sum of vvᵀ over rows: its upper triangle, off-diagonals times √2.

        v is (x, 1, t·(y − c)): a row with its constant feature (if there is one) and its target,
        moved by ``target_centre`` and multiplied by ``target_weight``, all scaled down together to
        norm ``clip`` where it is longer. Without ``features`` it is (1, t·(y − c)). Rows need no
        bound on their norm for it, nor targets on their size.

        Privacy
        -------
        L2 sensitivity, which is that of the matrix in Frobenius norm: clip² under add/remove,
        √2·clip² under replace, plus twice the rounding error. Cost: that of ``mechanism``. Proof:
        docs/proofs/newton.md.
        """
        clip = check_clip(clip)
        target_weight = positive("target_weight", target_weight)
        target_centre = float(finite("target_centre", np.array(target_centre)))
        check_kind(mechanism, Gaussian)
        self._open_filter.charge(mechanism)
        exact = cast(_WithTargets, self._rows).xy_moment_sum(
            clip, target_weight, target_centre, features=features
        )
        return self._second_moment(exact, clip, mechanism)
