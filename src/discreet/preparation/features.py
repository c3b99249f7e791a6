"""Features: the columns that a model is linear in, as a map from X by public and released numbers.

Without anything else the features are the columns of X themselves.

Proof: docs/proofs/preparation.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discreet.preparation.steps import FittedBounds

__all__ = ["FeatureMap"]


@dataclass(frozen=True, eq=False)
class FeatureMap:
    """Map from rows of X to the features that ``coef_`` belongs to.

    ``decision_function(X)`` is ``features_.transform(X) @ coef_.T + intercept_``. The features of a
    row depend on that row and on public or released numbers alone.

    Parameters
    ----------
    bounds : FittedBounds, optional
        Columns that are brought to [0, 1] first, by privately chosen bounds.
    """

    bounds: FittedBounds | None = None

    @property
    def is_identity(self) -> bool:
        """True if the features are the columns of X themselves."""
        return self.bounds is None

    def width(self, n_features: int) -> int:
        """Return the number of features of a table with this many columns."""
        return n_features

    def transform(self, X: Any) -> Any:
        """Return the features of rows: X itself if they are its columns, else a new table."""
        return X if self.bounds is None else self.bounds.apply(X)
