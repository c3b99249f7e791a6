"""What the curator needs of the place where rows live."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["FloatArray", "Rows", "Sum"]

FloatArray = NDArray[np.float64]


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
