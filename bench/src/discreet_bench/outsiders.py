"""Attacks on this library by auditing tools that others wrote.

    python -m discreet_bench.outsiders [--trials 200000] [--auditorium FOLDER] [CASE …]

Real fits are run on worst-case pairs of tables. A fifth of the runs select a score and an event;
the other runs are handed to each tool as a file. The tool, in an environment of its own, returns
its lower bound on ε, which is printed beside ours on the same runs. Two bugs are planted in the
library's own code, and every tool must find both. The exit code is 1 if a sound fit is refuted or
a bug is missed.

DP-Auditorium is not on PyPI: FOLDER is ``python/dp_auditorium`` of a checkout of
google/differential-privacy. Without it, the other tools run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from discreet.audit.attack import LARGEST_NUMBER, Attack, Statistic, learn, most_telling, run
from discreet.audit.cases import attacks
from discreet.audit.statistics import LEARNING_SHARE, Event, choose_event
from discreet.core import Relation
from discreet.core.questions import SumQuestion
from discreet.rows import sums
from discreet.validate import FloatArray
from discreet_bench.rivals.environments import install, python_of

__all__ = ["CASES", "TOOLS", "Case", "Tool", "bounds", "draw", "main", "save"]

EPSILON, DELTA = 1.0, 1e-3
ERROR = 1e-3
"""Probability that any bound of the whole table is above the true ε."""

WIDEST = 20.0
"""Outputs are handed over in interquartile ranges from their median, cut off at this many."""

_SCRIPTS = Path(__file__).parent / "attackers"


@dataclass(frozen=True)
class Tool:
    """An auditing tool: its packages, and the script that its Python runs."""

    name: str
    packages: tuple[str, ...]
    imports: tuple[str, ...]
    script: Path


TOOLS = (
    Tool(
        "jax-privacy",
        ("jax-privacy>=2.0,<3",),
        ("jax_privacy.auditing",),
        _SCRIPTS / "jax_privacy.py",
    ),
    Tool(
        "privacy-estimates",
        ("privacy-estimates>=0.1", "pandas>=2.0"),  # it imports pandas but does not require it
        ("privacy_estimates",),
        _SCRIPTS / "privacy_estimates.py",
    ),
    Tool(
        "DP-Auditorium",
        ("tensorflow-cpu>=2.16", "etils>=1.5", "absl-py>=1.0", "typing-extensions>=4.9"),
        ("tensorflow", "etils.array_types", "absl.logging", "typing_extensions"),
        _SCRIPTS / "dp_auditorium.py",
    ),
)
"""The tools; the last needs its source as well."""


@contextmanager
def half_noise() -> Iterator[None]:
    """Plant a bug: the noise of every gradient is for half of its sensitivity."""
    sound = SumQuestion.sensitivity

    def broken(self: SumQuestion, relation: Relation) -> float:
        return sound(self, relation) / 2

    with patch.object(SumQuestion, "sensitivity", broken):
        yield


@contextmanager
def unclipped() -> Iterator[None]:
    """Plant a bug: gradients of any norm are summed, with the noise for clipped ones."""
    sound = sums.gradient_sum

    def broken(rows: Any, weights: Any, loss: Any, clip: float) -> Any:
        return sound(rows, weights, loss, 1e3 * clip)

    with patch.object(sums, "gradient_sum", broken):
        yield


@dataclass(frozen=True)
class Case:
    """A subject of `discreet.audit`, with its share of the trials and perhaps a planted bug."""

    name: str
    subject: str
    relation: str = "add_remove"
    delta: float = DELTA
    label: str = ""
    share: float = 1.0
    bug: Callable[[], AbstractContextManager[None]] | None = None

    def attack(self) -> Attack:
        """Return the strongest attack on the subject."""
        found = attacks(self.subject, epsilon=EPSILON, delta=self.delta, relation=self.relation)
        return next(one for one in most_telling(found) if self.label in one.subject)


CASES = (
    Case("gd", "gd"),
    Case("gd, people of 40 rows", "gd: people"),
    Case("sgd", "sgd"),
    Case("objpert", "objpert"),
    Case("amp", "amp", "replace_one"),
    Case("outpert", "outpert"),
    Case("outpert, pure ε", "outpert", delta=0.0),
    Case("laplace-sgd, pure ε", "laplace-sgd", "replace_one", 0.0, share=0.1),
    Case("auto: the default fit", "auto", "replace_one", share=0.02),
    Case("bug: half of the noise", "gd", share=4.0, bug=half_noise),
    Case("bug: rows that are not clipped", "gd", label="clipped gradients", bug=unclipped),
)


Outputs = tuple[FloatArray, FloatArray]


def draw(case: Case, trials: int) -> tuple[Attack, Outputs]:
    """Run the fits of a case: the attack, and the outputs on either table."""
    attack, each = case.attack(), max(500, int(case.share * trials)) // 2
    with case.bug() if case.bug else nullcontext(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, second = (np.asarray(attack.draw(world, each), dtype=float) for world in (0, 1))
    first, second = (
        np.nan_to_num(
            outputs.reshape(each, -1),
            nan=2 * LARGEST_NUMBER,
            posinf=LARGEST_NUMBER,
            neginf=-LARGEST_NUMBER,
        )
        for outputs in (first, second)
    )
    return attack, (first, second)


def ours(attack: Attack, outputs: Outputs, alpha: float) -> float:
    """Return the lower bound of `discreet.audit` on runs that were made before."""
    position = [0, 0]

    def replay(world: int, count: int) -> FloatArray:
        start = position[world]
        position[world] += count
        return outputs[world][start : start + count]

    again = replace(attack, draw=replay)
    return run(again, trials=2 * len(outputs[0]), confidence=1 - alpha).epsilon_bound


def save(path: Path, attack: Attack, outputs: Outputs, alpha: float) -> None:
    """Write what a tool gets of a case; scores and event come from runs that it does not get."""
    first = int(LEARNING_SHARE * len(outputs[0]))
    score, event = _select(attack, tuple(part[:first] for part in outputs), len(outputs[0]), alpha)
    both = np.concatenate([part[:first] for part in outputs])
    middle, (low, high) = np.median(both, axis=0), np.quantile(both, [0.25, 0.75], axis=0)
    scale = np.where(high > low, high - low, np.where(both.std(axis=0) > 0, both.std(axis=0), 1))
    sign = 1.0 if event.above else -1.0
    kept = {}
    for name, world in (("likely", event.likely), ("other", 1 - event.likely)):
        tested = outputs[world][first:]
        kept[name] = np.clip((tested - middle) / scale, -WIDEST, WIDEST)
        kept[f"{name}_scores"] = sign * score(tested)
    promise = {"epsilon": attack.epsilon, "delta": attack.delta, "alpha": alpha}
    np.savez(path, **kept, **promise, threshold=sign * event.threshold)  # type: ignore[arg-type]


def _select(
    attack: Attack, learning: tuple[FloatArray, ...], trials: int, alpha: float
) -> tuple[Statistic, Event]:
    """Choose a score and an event, as `discreet.audit` does."""
    half = len(learning[0]) // 2
    scores = {**attack.statistics, "learned": learn(*(part[:half] for part in learning))}
    found = []
    for statistic in scores.values():
        values = (statistic(learning[0][half:]), statistic(learning[1][half:]))
        event, merit = choose_event(values, trials, alpha=alpha, delta=attack.delta)
        found.append((merit, statistic, event))
    _, statistic, event = max(found, key=lambda item: item[0])
    return statistic, event


def bounds(
    tool: Tool, files: list[Path], *extra: str, python: Path | None = None
) -> tuple[str, list[dict[str, Any]]]:
    """Return a tool's version and, per file, its lower bound and whether it refutes the promise."""
    command = [str(python or python_of(tool)), "-I", str(tool.script), *extra, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise RuntimeError(f"{tool.name} failed: {said[-1] if said else 'without a message'}")
    version, *answers = map(json.loads, done.stdout.splitlines())
    if len(answers) != len(files):
        raise RuntimeError(f"{tool.name} answered {len(answers)} of {len(files)} cases.")
    return version, answers


def verdict(cases: list[Case], answers: list[list[dict[str, Any]]]) -> tuple[int, int]:
    """Count the sound fits that some tool refutes, and the bugs that some tool misses."""
    refuted = missed = 0
    for case, found in zip(cases, zip(*answers, strict=True), strict=True):
        seen = [one["refuted"] for one in found]
        refuted += case.bug is None and any(seen)
        missed += case.bug is not None and not all(seen)
    return refuted, missed


def main(arguments: list[str] | None = None) -> int:
    """Run all cases, hand them to all tools and print one Markdown table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", nargs="*", help="only cases whose names contain one of these")
    parser.add_argument("--trials", type=int, default=200_000, help="runs of a fast solver")
    parser.add_argument("--auditorium", type=Path, metavar="FOLDER", help="see above")
    given = parser.parse_args(arguments)
    cases = [case for case in CASES if any(word in case.name for word in given.cases or [""])]
    tools = [tool for tool in TOOLS if given.auditorium or tool is not TOOLS[-1]]
    for tool in tools:
        reason = install(tool)
        if reason is not None:
            raise SystemExit(f"{tool.name} could not be installed: {reason}")
    alpha = ERROR / (len(cases) * (1 + len(tools)))
    own, trials, promises = [], [], []
    with tempfile.TemporaryDirectory(prefix="discreet-outsiders-") as name:
        files = [Path(name) / f"{k}.npz" for k in range(len(cases))]
        for case, path in zip(cases, files, strict=True):
            attack, outputs = draw(case, given.trials)
            save(path, attack, outputs, alpha)
            own.append(ours(attack, outputs, alpha))
            trials.append(2 * len(outputs[0]))
            promises.append(f"{attack.epsilon:g}, {attack.delta:g}")
            print(f"{case.name}: {trials[-1]:,} trials", file=sys.stderr, flush=True)
        answers, headings = [], []
        for tool in tools:
            source = [str(given.auditorium)] if tool is TOOLS[-1] else []
            version, found = bounds(tool, files, *source)
            answers.append(found)
            headings.append(f"{tool.name} {version}")
    print("| " + " | ".join(["attacked", "promised ε, δ", "trials", "ours", *headings]) + " |")
    print("|---|---|" + "---:|" * (2 + len(tools)))
    for k, case in enumerate(cases):
        cells = [f"{own[k]:.2f}", *(f"{found[k]['bound']:.2f}" for found in answers)]
        print("| " + " | ".join([case.name, promises[k], f"{trials[k]:,}", *cells]) + " |")
    refuted, missed = verdict(cases, answers)
    print(
        f"\n{refuted} sound fits refuted, {missed} planted bugs missed by a tool; the probability "
        f"that any bound is above the true ε is at most {ERROR:g}."
    )
    return int(refuted > 0 or missed > 0)


if __name__ == "__main__":
    sys.exit(main())
