"""How each line of a figure looks: no two alike in colour, marker and dash."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from discreet_bench.lines import Look, look

__all__ = ["PUBLISHED", "looks"]

MARKERS = ("o", "s", "^", "v", "D", "P", "<", "X", ">", "p", "h", "d", "8")
DASHES = ("-", "--", ":", "-.")
PUBLISHED = {"o": "*", "s": "X", "^": "P", "v": "d"}
"""The mark of a published number, by its method's marker; a star for any other."""


def looks(keys: pd.DataFrame) -> dict[str, Look]:
    """The look of every key (`points.Shown.keys`), the same in all figures where it can be.

    Lines of one method that differ in a parameter get shades of the method's colour, the fullest
    for the largest value, and markers of their own; if there is one method only, they get colours
    from dark to light. Two that would look the same are told apart by their markers.
    """
    counts = keys.groupby("line", sort=False)["extra"].transform("size")
    varied = keys[~keys["reference"]]
    alone = varied["line"].nunique() == 1 and len(varied) > 1
    found: dict[str, Look] = {}
    taken: set[tuple[str, str, str]] = set()
    for line, group in keys.groupby("line", sort=False):
        for place, (key, extra) in enumerate(group["extra"].items()):
            this = look(line)
            if extra and counts[key] > 1:
                if alone and key in varied.index:
                    colour = _ramp(place, len(group))
                else:
                    colour = _paler(this.colour, (len(group) - 1 - place) / len(group))
                this = replace(this, colour=colour, marker=_after(this.marker, place))
            if extra:
                this = replace(this, title=f"{this.title}, {extra}")
            this = _unlike(this, taken)
            taken.add((this.colour, this.marker, this.dash))
            found[str(key)] = this
    return found


def _after(marker: str, places: int) -> str:
    start = MARKERS.index(marker) if marker in MARKERS else 0
    return MARKERS[(start + places) % len(MARKERS)] if places else marker


def _unlike(this: Look, taken: set[tuple[str, str, str]]) -> Look:
    """The look itself, or with the next marker (then dash) that makes it unlike the others."""
    markers = [_after(this.marker, place) for place in range(len(MARKERS))]
    dashes = [this.dash, *(dash for dash in DASHES if dash != this.dash)]
    for dash in dashes:
        for marker in markers:
            if (this.colour, marker, dash) not in taken:
                return replace(this, marker=marker, dash=dash)
    raise ValueError(f"Too many lines of one method to draw: {this.title}. Draw fewer settings.")


def _paler(colour: str, share: float) -> str:
    """A colour mixed with white; ``share`` of 1 is as pale as can still be read in print."""
    from matplotlib.colors import to_hex, to_rgb

    mixed = 0.65 * share
    return str(to_hex((1 - mixed) * np.array(to_rgb(colour)) + mixed))


def _ramp(place: int, number: int) -> str:
    """The colours of viridis from dark to light, without its yellow, which print loses."""
    import matplotlib
    from matplotlib.colors import to_hex

    return str(to_hex(matplotlib.colormaps["viridis"](0.8 * place / max(number - 1, 1))))
