"""Parameters of the objective that are one of a few words."""

from __future__ import annotations

__all__ = ["CHOICES", "one_of"]

CHOICES = {
    "test": ("80/20", "5-fold", "train"),
    "rows": ("encoded", "unit"),
    "relation": ("add_remove", "replace_one"),
    "loss": ("logistic", "huber-hinge", "hinge", "huber", "squared"),
}
"""The words by parameter."""


def one_of(name: str, given: str) -> None:
    """Refuse a word that is not one of a parameter's."""
    if given not in CHOICES[name]:
        raise ValueError(f"{name} must be one of {', '.join(CHOICES[name])}; got {given!r}.")
