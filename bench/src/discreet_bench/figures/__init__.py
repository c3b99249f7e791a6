"""Figures of an experiment: one panel a data set and measure, one line a method.

What a figure shows is decided in ``points``, how a line looks in ``looks``, where things stand in
``layout``, what is drawn in ``panels``, and what it says in words in ``words``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from discreet.files import replacing
from discreet_bench.experiment import Experiment
from discreet_bench.figures import layout, points, words
from discreet_bench.lines import honest, named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw"]

FORMATS = ("svg", "png", "pdf")
DPI = 300
MOST_LINES = 14
COMPARED = ("auto||private|default", "nonprivate||not private|default")
"""What the figure of the variants has besides them."""


def draw(
    runs: pd.DataFrame,
    experiment: Experiment,
    folder: Path | str,
    *,
    formats: Sequence[str] = ("svg", "png"),
) -> list[Path]:
    """Draw an experiment's runs, with a description in words beside each figure.

    Runs of several losses or relations make a figure each, named
    ``<experiment>-<loss>-<relation>``; else there is one, named ``<experiment>``. A figure of more
    than 14 lines is cut in two: ``<name>`` has the private methods in their default form and the
    baselines, ``<name>-variants`` has published constants, released code, tuned lines and other
    libraries, with discreet's default and the model without privacy to compare. A measure that no
    run has is left out, and a figure without any measure is not written.

    Parameters
    ----------
    runs
        A frame of runs (see `discreet_bench.runs`); those of other experiments are ignored.
    experiment
        Whose ``panels`` say what is drawn.
    folder
        Where files go; it is made if it is not there.
    formats
        Of ``"svg"``, ``"png"`` (300 dots an inch) and ``"pdf"``.

    Returns
    -------
    list of Path
        All files that were written: for each figure its pictures, in the order of ``formats``,
        then its description ``<name>.txt``.

    Raises
    ------
    ValueError
        If a format, the x axis or a measure is not known.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise ValueError(f"No figures as {unknown[0]!r}: formats are {', '.join(FORMATS)}.")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, shown, figure in figures(runs, experiment):
        said = " ".join(figure.texts[-1].get_text().split("\n"))  # the caption
        text = words.description(shown, experiment, said)
        for suffix in formats:
            path = folder / f"{name}.{suffix}"
            _save(figure, path, experiment.title, text)
            written.append(path)
        path = folder / f"{name}.txt"
        with replacing(path) as stream:
            stream.write(text + "\n")
        written.append(path)
    return written


def figures(
    runs: pd.DataFrame, experiment: Experiment
) -> Iterator[tuple[str, points.Shown, Figure]]:
    """Each figure of an experiment with its name and what it shows; nothing is left open."""
    runs = runs[runs["experiment"] == experiment.name]
    groups = runs.groupby(["loss", "relation"], sort=True)
    for (loss, relation), group in groups:
        name = experiment.name if len(groups) == 1 else f"{experiment.name}-{loss}-{relation}"
        for ending, shown in _parts(group, experiment):
            if shown.measures:
                yield name + ending, shown, layout.figure(shown, experiment)


def _parts(runs: pd.DataFrame, experiment: Experiment) -> Iterator[tuple[str, points.Shown]]:
    """What the figures of one loss and relation show, with the endings of their names."""
    everything = points.shown(runs, experiment)
    lines = set(everything.keys["line"])
    default = {line for line in lines if _is_default(line)}
    baselines = {line for line in lines if line.split("|")[2] == "not private"}
    variants = lines - default - baselines
    if len(everything.keys) <= MOST_LINES or not default or not variants:
        yield "", everything
        return
    compared = {line for line in lines if line in COMPARED}
    of = named(runs)["line"]
    for ending, part, chosen in (
        ("", "private methods in their default form", default | baselines),
        ("-variants", "variants of the methods, and other libraries", variants | compared),
    ):
        yield ending, replace(points.shown(runs[of.isin(chosen)], experiment), part=part)


def _is_default(line: str) -> bool:
    """Whether a line is a private method as this library has it, with nothing tuned."""
    _, calibration, _, tuning = line.split("|")
    return honest(line) and tuning == "default" and calibration != "published"


def _save(figure: Figure, path: Path, title: str, text: str) -> None:
    """Write a picture; the same runs give the same file."""
    import matplotlib

    metadata = {
        "svg": {"Title": title, "Description": text, "Date": None},
        "png": {"Title": title, "Description": text},
        "pdf": {"Title": title, "Subject": text, "CreationDate": None},
    }[path.suffix[1:]]
    partial = path.with_name(f".{path.stem}.part{path.suffix}")
    with matplotlib.rc_context({**layout.STYLE, "svg.hashsalt": path.stem}):
        figure.savefig(partial, dpi=DPI, metadata=metadata)
    if path.suffix == ".png":
        _fewer_colours(partial)
    partial.replace(path)


def _fewer_colours(path: Path) -> None:
    """Store a picture with 256 colours, a third of the size; the eye sees no difference."""
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    with Image.open(path) as image:
        texts = PngInfo()
        for key, value in image.info.items():
            if isinstance(value, str):
                texts.add_itxt(key, value)
        small = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    small.save(path, optimize=True, dpi=(DPI, DPI), pnginfo=texts)
