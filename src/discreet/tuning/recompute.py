"""Recomputation of the guarantee of a tuning with dp-accounting: it can only accuse."""

from __future__ import annotations

import numpy as np

from discreet.core import Guarantee
from discreet.errors import PrivacyError
from discreet.tuning.laws import BestOfMany


def recomputed_epsilon(mechanism: BestOfMany, delta: float) -> float:
    """Recompute the ε of a selection at this δ with dp-accounting, on a grid of Rényi orders.

    The best of the grid is slightly above the optimum, which the calibration solves for.
    """
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(orders=1 + np.geomspace(1e-2, 1e6, 400))
    return float(accountant.compose(mechanism.event()).get_epsilon(delta))


class TunedGuarantee(Guarantee):
    """The guarantee of a tuning: for the best of K runs."""

    def recompute(self) -> float:
        """Return the ε at the guarantee's δ that `recomputed_epsilon` finds for the selection."""
        ((mechanism, count),) = [(use.mechanism, use.count) for use in self.mechanisms]
        if count != 1 or not isinstance(mechanism, BestOfMany):
            raise PrivacyError("this guarantee is not that of one selection among runs.")
        return recomputed_epsilon(mechanism, self.delta)
