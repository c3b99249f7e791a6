"""Selection of coefficients by their known errors: those that could be noise are set to 0.

It is post-processing of released numbers, and costs nothing. docs/inference.md has the rules.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from discreet.inference.covariance import Covariance, p_values
from discreet.validate import FloatArray, number

__all__ = ["RULES", "SELECTED", "selected"]

RULES = ("universal", "fdr")

SELECTED = (
    "coefficients were selected by the same numbers ({}), so that intervals around them would be "
    "too narrow; those of the model before the selection hold"
)


def selected(
    values: FloatArray, covariance: Covariance, rule: str, level: float, *, intercept: bool
) -> tuple[FloatArray, Covariance]:
    """Return coefficients, the intercept last, with those set to 0 that a rule does not select.

    The others move to where they are expected if those are 0: b − Σ_bo·Σ_oo⁻¹·o, with o what is set
    to 0 and Σ the covariance of all. The intercept is always kept, and so are coefficients without
    an interval. The covariance that is returned refuses all intervals, and says why.
    """
    with np.errstate(invalid="ignore"):
        z = values / covariance.parts().errors
    tested = np.isfinite(z)
    if intercept:
        tested[-1] = False
    out = np.flatnonzero(tested)[~_large(np.abs(z[tested]), rule, level)]
    whole = covariance.sampling + covariance.noise + covariance.bias
    left = values - whole[:, out] @ np.linalg.solve(whole[np.ix_(out, out)], values[out])
    left[out] = 0.0
    text = f"{rule}, {int(tested.sum()) - out.size} of {int(tested.sum())} kept"
    none = np.ones(values.size, dtype=bool)
    return left, replace(covariance, refused=none, reason=SELECTED.format(text))


def _large(z: FloatArray, rule: str, level: float) -> NDArray[np.bool_]:
    """Return which of the statistics are too large for noise and chance, by a rule."""
    if rule == "universal":
        return np.asarray(z > math.sqrt(2 * math.log(max(z.size, 2))))
    if rule != "fdr":
        raise ValueError(f"rule must be one of {', '.join(map(repr, RULES))}; got {rule!r}.")
    level = number("level", level, above=0.0, below=1.0, remedy="Usual is 0.1.")
    p = p_values(z)
    below = np.sort(p) <= level * np.arange(1, p.size + 1) / max(p.size, 1)
    count = int(np.flatnonzero(below).max(initial=-1)) + 1
    return np.asarray(p <= np.sort(p)[count - 1]) if count else np.zeros(p.size, dtype=bool)
