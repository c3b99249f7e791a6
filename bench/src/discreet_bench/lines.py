"""Lines of figures and tables: key, title and style.

Colours are those of Okabe and Ito, which colour-blind people can tell apart; methods of the same
colour have different markers, and kinds of runs (private, as released, tuned) different dashes, so
that a figure can be read in grey as well.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

__all__ = [
    "KINDS",
    "METHODS",
    "Method",
    "Style",
    "honest",
    "is_own",
    "kind_of",
    "named",
    "order_of",
    "parts",
    "style",
    "title_of",
]

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#666666"


@dataclass(frozen=True)
class Method:
    """A method of the benchmark: its title, colour, marker (as matplotlib names it) and source."""

    title: str
    colour: str
    marker: str
    source: str


METHODS: dict[str, Method] = {
    "auto": Method("discreet", BLACK, "o", "this library's default"),
    "gd": Method("Noisy GD", BLACK, "s", "Bassily et al. 2014, full batches"),
    "shrunk-gd": Method("Shrunk GD", BLACK, "^", "this library"),
    "newton": Method("Noisy Newton", BLACK, "v", "this library"),
    "agd": Method("DP-AGD", BLUE, "o", "Lee & Kifer 2018"),
    "amp": Method("AMP", RED, "o", "Iyengar et al. 2019"),
    "amp-hf": Method("H-F AMP", RED, "s", "Iyengar et al. 2019"),
    "objpert": Method("ObjPert", RED, "^", "Chaudhuri et al. 2011; Kifer et al. 2012"),
    "outpert": Method("OutPert", GREEN, "o", "Zhang et al. 2017"),
    "rrpsgd": Method("RRPSGD", GREEN, "s", "Zhang et al. 2017"),
    "permutation-sgd": Method("P-PSGD", GREEN, "^", "Wu et al. 2017"),
    "permutation-sgd-sc": Method("P-SCPSGD", GREEN, "v", "Wu et al. 2017, strongly convex"),
    "sgd": Method("P-SGD", ORANGE, "o", "Iyengar et al. 2019, Algorithm 2"),
    "sgd-adv": Method("SGD-Adv", ORANGE, "s", "Bassily et al. 2014"),
    "sgd-ma": Method("SGD-MA", ORANGE, "^", "Abadi et al. 2016"),
    "laplace-sgd": Method("Laplace SGD", ORANGE, "v", "Song et al. 2013"),
    "frank-wolfe": Method("P-FW", PURPLE, "o", "Talwar et al. 2015"),
    "privgene": Method("PrivGene", PURPLE, "s", "Zhang et al. 2013"),
    "noisy-gd": Method("Noisy descent, fixed steps", PURPLE, "^", "Lee & Kifer 2018, table 1"),
    "nonprivate": Method("Non-private", GREY, "D", "L-BFGS"),
    "majority": Method("Majority", GREY, "x", "the most frequent class"),
    "plain-sgd": Method("SGD without noise", GREY, "P", "Song et al. 2013"),
    "scikit-learn": Method("scikit-learn", GREY, "o", "its LogisticRegression, no privacy"),
    "diffprivlib": Method("diffprivlib", SKY, "o", "its LogisticRegression"),
    "opacus": Method("Opacus", SKY, "s", "logistic regression with DP-SGD"),
    "dp-ebm": Method("DP-EBM", SKY, "^", "interpret's boosted additive model"),
}
"""The methods by name; another solver's name is its title."""

OWN = "#A044D0"
"""Colour of methods that a user brings: no other line has it, and published numbers have none of
their markers."""

_OTHER = Method("", OWN, "D", "your own")

KINDS = {
    "private": "Private",
    "variant": "Private, published constants or tuned",
    "hindsight": "Tuned with hindsight, not private",
    "released": "Not private as released",
    "rival": "Other libraries, claims not recomputed",
    "baseline": "Without privacy",
}
"""Kinds of lines, in the order in which they are shown."""


@dataclass(frozen=True)
class Style:
    """Style of a line."""

    title: str
    colour: str
    marker: str
    dash: str  # "-", "--", ":" or "-."
    filled: bool


def named(runs: pd.DataFrame) -> pd.DataFrame:
    """Add a column ``line`` to runs: method, calibration, variant and tuning in one key.

    Keys are ``method|calibration|variant|tuning``, where the calibration is empty unless it is
    ``published``. Lines that depart from the paper's protocol have the difference as a fifth part.
    """
    calibration = runs["calibration"].where(runs["calibration"] == "published", "")
    keys = runs["method"] + "|" + calibration + "|" + runs["variant"] + "|" + runs["tuning"]
    if "difference" in runs:
        keys = keys.where(runs["difference"] == "", keys + "|" + runs["difference"])
    return runs.assign(line=keys)


def parts(line: str) -> tuple[str, str, str, str, str]:
    """Return method, calibration, variant, tuning and difference of a line."""
    method, calibration, variant, tuning, *difference = line.split("|")
    return method, calibration, variant, tuning, "".join(difference)


def title_of(line: str) -> str:
    """Return the title of a line, with what a reader must know about its privacy."""
    method, calibration, variant, tuning, difference = parts(line)
    title = METHODS.get(method, _OTHER).title or method.removesuffix("-released")
    if is_own(method):
        title = f"{title} (your method)"
    if method.endswith("-released"):
        title = METHODS.get(method.removesuffix("-released"), _OTHER).title or title
        calibration = ""
    words = [title]
    if calibration == "published" and variant == "private":
        words.append("published constants")
    if variant == "as released":
        if calibration == "published":
            words.append("published constants, not private as released")
        else:
            words.append("as released, not private")
    if variant == "not private" and method not in ("nonprivate", "majority"):
        words.append("not private")
    if tuning == "grid":
        words.append("tuned with hindsight, not private")
    elif tuning == "selected":
        words.append("tuned privately")
    if difference:
        words.append(difference)
    return ", ".join(words)


def is_own(method: str) -> bool:
    """Tell whether a method is one that a user brought, not one of the benchmark."""
    return method.removesuffix("-released") not in METHODS


def honest(line: str) -> bool:
    """Tell whether a line is private from end to end."""
    _, _, variant, tuning, _ = parts(line)
    return variant == "private" and tuning != "grid"


def style(line: str) -> Style:
    """Return the style of a line."""
    method, calibration, variant, tuning, difference = parts(line)
    known = METHODS.get(method) or METHODS.get(method.removesuffix("-released")) or _OTHER
    dash = "-"
    if variant == "as released":
        dash = ":"
    elif tuning == "grid" or variant == "not private":
        dash = "--"
    elif calibration == "published" or tuning == "selected" or difference:
        dash = "-."
    return Style(title_of(line), known.colour, known.marker, dash, filled=honest(line))


def kind_of(line: str) -> str:
    """Return which of `KINDS` a line is."""
    _, calibration, variant, tuning, difference = parts(line)
    if variant != "private":
        return {"as released": "released", "rival": "rival"}.get(variant, "baseline")
    if tuning == "grid":
        return "hindsight"
    plain = tuning == "default" and calibration != "published" and not difference
    return "private" if plain else "variant"


def order_of(line: str) -> tuple[int, int, str]:
    """Return a key that sorts lines by kind, and within a kind by method."""
    method, methods = line.split("|")[0].removesuffix("-released"), list(METHODS)
    place = methods.index(method) if method in METHODS else len(methods)
    return list(KINDS).index(kind_of(line)), place, line
