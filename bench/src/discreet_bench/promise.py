"""The promise of a run: private is what an independent accountant confirms."""

from __future__ import annotations

from typing import Any

from discreet.accounting.recompute import recomputed_epsilon
from discreet.errors import PrivacyError

TOLERANCE = 0.01
"""Relative excess of the recomputed ε that is accepted: the other accountant rounds upwards on a
grid that is coarser than ours."""


def check(guarantee: Any, epsilon: float, delta: float) -> float:
    """Recompute a guarantee and insist that it keeps within a budget; returns the recomputed ε.

    Raises
    ------
    PrivacyError
        If the guarantee states more than (epsilon, delta), or if recomputing it gives more.
    """
    recomputed = recomputed_epsilon(guarantee)
    insist((guarantee.epsilon, guarantee.delta), recomputed, epsilon, delta)
    return recomputed


def insist(stated: tuple[float, float], recomputed: float, epsilon: float, delta: float) -> None:
    """Refuse a run that states, or by another accountant has, more than (epsilon, delta)."""
    if stated[0] > epsilon * (1 + 1e-9) or stated[1] > delta * (1 + 1e-9):
        raise PrivacyError(
            f"the run spent (ε = {stated[0]:g}, δ = {stated[1]:g}); the objective allows "
            f"(ε = {epsilon:g}, δ = {delta:g})."
        )
    if not recomputed <= epsilon * (1 + TOLERANCE):
        raise PrivacyError(
            f"the run states ε = {stated[0]:g}, but recomputing it gives {recomputed:g}; the "
            f"objective allows {epsilon:g}."
        )
