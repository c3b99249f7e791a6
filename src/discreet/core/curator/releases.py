"""Results of computations on exact rows, for the solvers that are trusted with a proof."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from discreet.accounting.budget import Relation
from discreet.core.curator.base import CuratorBase
from discreet.core.curator.checks import check_kind, positive
from discreet.core.curator.protocols import FloatArray
from discreet.core.filters import Mechanism
from discreet.core.mechanisms import AdditiveMechanism
from discreet.core.noise import Noise
from discreet.errors import PrivacyError

__all__ = ["Releases"]


class Releases(CuratorBase):
    """Releases whose sensitivity or privacy the caller has proven."""

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
        sensitivity = positive("sensitivity", sensitivity)
        magnitude = positive("magnitude", magnitude)
        check_kind(mechanism, AdditiveMechanism)
        self._check_relation(proven_for)
        self._open_filter.charge(mechanism)
        values = _checked(compute(self._rows), size)
        noisy, _ = mechanism.release(
            values, sensitivity=sensitivity, magnitude=magnitude, noise=self._noise
        )
        return noisy

    def run(
        self,
        compute: Callable[[Any, Noise], FloatArray],
        *,
        size: int,
        proven_for: Relation,
        mechanism: Mechanism,
    ) -> FloatArray:
        """Run ``compute(rows, noise)`` inside; it adds its own noise and its result is released.

        For trusted solvers only: the caller has proven that the result has the privacy of
        ``mechanism`` under ``proven_for``, and that ``compute`` raises nothing whose text depends
        on the rows.

        Privacy
        -------
        Cost: that of ``mechanism``. A result that is not finite or has the wrong size is withheld,
        and what was charged stays spent.
        """
        self._check_relation(proven_for)
        self._open_filter.charge(mechanism)
        return _checked(compute(self._rows, self._noise), size)

    def reveal(self, compute: Callable[[Any], FloatArray], *, size: int) -> FloatArray:
        """Run ``compute(rows)`` and hand out its result as it is: for baselines, not private.

        Privacy
        -------
        None. The account is waived before the rows are read: its guarantee says that the fit is
        not private, and an `Accountant` refuses it.
        """
        self._account.forfeit()
        return _checked(compute(self._rows), size)

    def _check_relation(self, proven_for: Relation) -> None:
        if Relation.parse(proven_for) is not self.relation:
            raise PrivacyError(
                f"The sensitivity was proven for {str(proven_for)!r}, but this budget is for "
                f"{str(self.relation)!r}."
            )


def _checked(result: FloatArray, size: int) -> FloatArray:
    values = np.asarray(result, dtype=np.float64)
    if values.shape != (size,) or not np.isfinite(values).all():
        raise PrivacyError(
            f"The computation did not give {size} finite numbers; nothing was released."
        )
    return values
