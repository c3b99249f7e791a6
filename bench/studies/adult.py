"""UCI Adult as the studies of DP-AGD take it: both files, 105 columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from discreet_bench import datasets

__all__ = ["load"]


def load(folder: Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """X of 105 columns, and whether income > 50K; ``folder`` holds the folder "adult"."""
    data = datasets.load("adult", data_dir=folder, sparse=False, dtype="float64")
    return data.X, data.y.astype(int)
