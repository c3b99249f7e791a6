"""The experiments by name: the papers' figures and tables, and ours.

An experiment is a description. Nothing here reads data or runs anything.
"""

from __future__ import annotations

import difflib

from discreet_bench.experiment import Experiment
from discreet_bench.experiments import amp, auto, dpagd, outpert, sgd

__all__ = ["EXPERIMENTS", "find", "known"]

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for paper in (auto, dpagd, amp, outpert, sgd)
    for experiment in paper.EXPERIMENTS
}
"""All experiments in reading order: the comparison of everything first, then paper by paper."""


def known() -> dict[str, Experiment]:
    """Return all experiments, those of installed packages included."""
    from discreet_bench import extensions

    return {**EXPERIMENTS, **extensions.experiments()}


def find(name: str) -> Experiment:
    """Return the experiment of that name, of an installed package, or of a user's file.

    Raises
    ------
    ValueError
        If there is none; the message has the nearest name and all others.
    """
    from discreet_bench import extensions

    if extensions.is_file(name):
        found = extensions.experiment_of(name)
        return EXPERIMENTS.setdefault(found.name, found)
    EXPERIMENTS.update(extensions.experiments())
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    near = difflib.get_close_matches(name, EXPERIMENTS, n=1, cutoff=0.0)[0]
    raise ValueError(
        f"unknown experiment {name!r}; did you mean {near!r}? Known: {', '.join(EXPERIMENTS)}."
    )
