"""Training and test rows of each repeat."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_bench.choices import one_of

__all__ = ["Splits"]

TEST_SHARE = 0.2
FOLDS = 5


class Splits:
    """Training and test rows, one pair a repeat, the same for every method.

    ``"80/20"``: a fifth of the rows at random. ``"5-fold"``: repeats 0 to 4 are the folds of one
    random order, 5 to 9 of another. ``"train"``: all rows in a new order, for
    studies of the training objective.
    """

    def __init__(self, kind: str) -> None:
        one_of("test", kind)
        self.kind = kind

    def get_n_splits(self, **_: Any) -> int:
        """One, unless a number of repeats is asked for."""
        return 1

    def of(self, n: int, repeat: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Places of the training rows and of the test rows."""
        if self.kind == "5-fold":
            order = np.random.default_rng(repeat // FOLDS).permutation(n)
            parts = np.array_split(order, FOLDS)
            fold = parts.pop(repeat % FOLDS)
            return np.concatenate(parts), fold
        order = np.random.default_rng(repeat).permutation(n)
        if self.kind == "train":
            return order, order
        n_test = math.ceil(TEST_SHARE * n)
        return order[n_test:], order[:n_test]

    def split(self) -> Iterator[int]:
        """Numbers of repeats without end, as benchopt asks for them."""
        return itertools.count()
