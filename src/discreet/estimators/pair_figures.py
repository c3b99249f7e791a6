"""Figures of pairs of columns: a heat map of what their cells add to the score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from discreet.estimators.pair_terms import PairTerm, PairTerms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BAND = 1.96
"""Standard deviations of the noise beyond which a number is written in black."""

MOST_NUMBERS = 64
"""Cells of a heat map whose numbers are written into it."""

LONGEST_LABEL = 18
"""Characters of a cell's name that are shown."""


def split_names(
    columns: Sequence[str] | None, pairs: PairTerms | None
) -> tuple[Sequence[str] | None, list[PairTerm]]:
    """Return the names of single columns among those that are drawn, and the pairs."""
    terms = [] if pairs is None else list(pairs.terms)
    if columns is None or pairs is None:
        return columns, terms if columns is None else []
    wanted = [columns] if isinstance(columns, str) else list(columns)
    known = dict(zip(pairs.names, terms, strict=True))
    single = [name for name in wanted if name not in known]
    return single, [known[name] for name in wanted if name in known]


def draw_pair(panel: Axes, pairs: PairTerms, term: PairTerm, classes: Sequence[str] = ()) -> None:
    """Draw a pair: colours around its mean, gray numbers where noise could have made them.

    With several classes, the one is drawn whose numbers vary most.
    """
    values = term.values - pairs.mean_of(term)[..., None, None]
    of_class = ""
    if values.ndim == 3:
        widest = int(np.abs(values).max(axis=(1, 2)).argmax())
        values = values[widest]
        of_class = f" (class {classes[widest]})"
    most = float(np.abs(values).max()) or 1.0
    panel.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto", origin="lower")
    first, second = pairs.columns_of(term)
    panel.set_title(f"{first} × {second}{of_class}", fontsize=9)
    panel.set_ylabel(_short(first), fontsize=7)
    panel.set_xlabel(_short(second), fontsize=7)
    names = [_short(label) for label in pairs.labels[term.first]]
    panel.set_yticks(range(len(names)), names, fontsize=6)
    names = [_short(label) for label in pairs.labels[term.second]]
    panel.set_xticks(range(len(names)), names, fontsize=6, rotation=40, ha="right")
    if values.size > MOST_NUMBERS:
        return
    decimals = max(0, 2 - max(0, math.floor(math.log10(most))))
    for at, value in np.ndenumerate(values):
        clear = abs(value) > BAND * float(term.deviation[at])
        dark = abs(value) > 0.6 * most
        colour = ("white" if dark else "black") if clear else "0.55"
        number = f"{value:+.{decimals}f}"
        panel.text(at[1], at[0], number, ha="center", va="center", fontsize=5, color=colour)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"
