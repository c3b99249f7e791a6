"""``discreet audit``: attack the guarantee of a solver or a model, and report the result."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from discreet.cli.exits import CommandError, Exit, interrupted
from discreet.cli.options import AsJson, Force
from discreet.cli.screen import Bar, Screen
from discreet.cli.state import check_figure
from discreet.core import Budget, Relation
from discreet.errors import PrivacyError

if TYPE_CHECKING:
    from discreet.audit import Attack, Audit

EPSILON = 1.0  # of the default guarantee of a solver under attack
DELTA = 1e-5  # of the same
FEWEST = 100  # trials per attack that may be asked for
TYPICAL = 10_000  # least number of trials per attack by default
MOST = 1_000_000  # largest number of trials per attack by default
MINUTES_FOR_ALL = 15.0  # default duration of ``discreet audit all``
SHARE_OF_TIME = 0.85  # of an attack, for its runs; the rest is for learning and counting


def _complete(incomplete: str) -> list[str]:
    from discreet.audit.cases import subjects

    return [name for name in (*subjects(), "all") if name.startswith(incomplete)]


def audit(
    target: Annotated[
        str,
        Argument(
            metavar="SOLVER|MODEL|all",
            help="A solver (see: discreet solvers), a model file written by `discreet fit`, or "
            "all: every private solver and the default pipelines, each on its worst-case tables.",
            autocompletion=_complete,
        ),
    ],
    epsilon: Annotated[
        float | None,
        Option(help=f"Promised ε; default {EPSILON:g}. Not for a model, which has its own."),
    ] = None,
    delta: Annotated[
        float | None,
        Option(
            help=f"Promised δ; default {DELTA:g}. Not for a model, which has its own. A larger δ "
            "needs fewer trials."
        ),
    ] = None,
    relation: Annotated[
        Relation | None,
        Option(help="Neighbouring relation; by default each that the solver supports."),
    ] = None,
    minutes: Annotated[float | None, Option(help="Duration of all attacks together.")] = None,
    trials: Annotated[
        int | None,
        Option(
            min=FEWEST,
            help="Runs per attack (with --minutes: at most). Default: enough to refute twice the "
            f"promised ε, up to {MOST:,}.",
        ),
    ] = None,
    confidence: Annotated[float, Option(help="Probability that all bounds hold.")] = 0.999,
    jobs: Annotated[int, Option(min=1, help="Number of processes.")] = 1,
    figure: Annotated[
        Path | None,
        Option(help="File for the ROC curves: a figure (.svg, .png, .pdf) or a page (.html)."),
    ] = None,
    force: Force = False,
    markdown: Annotated[bool, Option("--markdown", help="Write Markdown.")] = False,
    as_json: AsJson = False,
) -> None:
    """Try to refute a privacy guarantee: attack a solver, or a model's settings.

    Each attack runs the real method many times on two tables that differ in one row, and decides
    from each output which table was used. Its success certifies a lower bound on the true ε. A
    bound above the promised ε refutes the guarantee; the exit code is then 6. An audit cannot
    prove a guarantee. If there are too few trials, it says so and how many are needed.

    Example: discreet audit gd --minutes 5 --figure gd.svg
    """
    from discreet.audit import Verdict, result
    from discreet.audit.figure import FORMATS, save

    screen = Screen(as_json=as_json)
    if as_json and markdown:
        raise CommandError("Pass --json or --markdown, not both.")
    _check_numbers(confidence, minutes)
    check_figure(figure, force, endings=FORMATS)
    chosen = attacks_on(target, epsilon, delta, relation, jobs)
    for remark in chosen.remarks:
        screen.note(remark)
    each = 1 - (1 - confidence) / len(chosen.attacks)
    if target == "all" and minutes is None and trials is None:
        minutes = MINUTES_FOR_ALL
    done: list[Audit] = []
    stopped: BaseException | None = None
    try:
        with screen.bar(f"auditing {target}") as bar:
            _attack_all(chosen.attacks, done, each, trials, minutes, bar, screen)
    except BaseException as error:  # report the finished attacks, then raise the error
        if not done:
            raise
        stopped = error
    found = result.document(
        done,
        settings={
            "target": target,
            "epsilon": chosen.epsilon,
            "delta": chosen.delta,
            "relation": None if relation is None else str(relation),
            "confidence": confidence,
            "confidence_of_each": each,
            "minutes": minutes,
            "trials": trials,
            "jobs": jobs,
        },
        left_out=chosen.left_out,
        complete=stopped is None,
    )
    if figure is not None:
        save(done, figure, title=f"Audit of {Path(target).name}")
        found["figure"] = os.fspath(figure)
    screen.result(found, _display(screen, done, markdown))
    if figure is not None:
        screen.note(f"Figure: {figure}")
    if isinstance(stopped, KeyboardInterrupt):
        raise CommandError(
            f"Interrupted after {len(done)} of {len(chosen.attacks)} attacks; the others were not "
            "carried out.",
            interrupted(),
        )
    if stopped is not None:
        raise stopped
    if any(audit.verdict is Verdict.REFUTED for audit in done):
        raise typer.Exit(Exit.REFUTED)


def _check_numbers(confidence: float, minutes: float | None) -> None:
    """Refuse a confidence or a duration that no audit can have."""
    if not 0.5 <= confidence < 1:
        raise CommandError(f"--confidence must be in [0.5, 1); got {confidence:g}.")
    if minutes is not None and not (math.isfinite(minutes) and minutes > 0):
        raise CommandError(f"--minutes must be a finite number > 0; got {minutes:g}.")


def _attack_all(
    attacks: Sequence[Attack],
    done: list[Audit],
    confidence: float,
    trials: int | None,
    minutes: float | None,
    bar: Bar,
    screen: Screen,
) -> None:
    """Carry out attacks one after the other; each result is added to ``done`` at once."""
    import sklearn.linear_model  # noqa: F401  # for learned statistics; not to be timed

    from discreet.audit import run
    from discreet.tables.messages import counted

    if trials is None or minutes is not None:
        about = minutes or sum(
            _default_trials(attack, confidence) * _seconds_per_run(attack) / (60 * SHARE_OF_TIME)
            for attack in attacks
        )
        duration = f"about {counted(round(about), 'minute')}" if about >= 1 else "under a minute"
        screen.note(f"{counted(len(attacks), 'attack')}, {duration}. Change it by --minutes.")
    end = time.perf_counter() + 60 * (minutes or 0.0)
    for k, attack in enumerate(attacks):
        count = trials or _default_trials(attack, confidence)
        if minutes is not None:
            rate = _seconds_per_run(attack)
            left = SHARE_OF_TIME * (end - time.perf_counter()) / (len(attacks) - k)
            count = max(FEWEST, min(int(left / rate), trials or 10**12))

        def show(runs: int, of: int, before: int = k) -> None:
            bar((before + runs / of) / len(attacks))

        done.append(run(attack, trials=count, confidence=confidence, progress=show))


def _default_trials(attack: Attack, confidence: float) -> int:
    """Return the number of trials that can refute twice the promised ε, but at most `MOST`."""
    from discreet.audit.statistics import trials_needed

    needed = trials_needed(attack.epsilon, attack.delta, confidence) or MOST
    return min(MOST, max(TYPICAL, needed))


def _seconds_per_run(attack: Attack) -> float:
    """Measure the duration of a run by batches that are discarded."""
    batch = 1000 if attack.batched else 1
    attack.draw(0, batch)  # may compile something
    while True:
        begun = time.perf_counter()
        attack.draw(0, batch)
        seconds = time.perf_counter() - begun
        if seconds > 0.02:
            return seconds / batch
        batch *= 2


def _display(screen: Screen, done: Sequence[Audit], markdown: bool) -> Any:
    """Return the table and the summary: a drawn table for a terminal, else one line per attack."""
    from discreet.audit import Verdict, result

    if markdown or not screen.out.is_terminal:
        lines = result.markdown(done) if markdown else result.text(done)
        return f"{lines}\n{result.summary(done)}\n"
    from rich import box
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    promises = dict.fromkeys(f"ε = {audit.epsilon:g}, δ = {audit.delta:g}" for audit in done)
    title = f"Promised: {next(iter(promises))}" if len(promises) == 1 else "Promised and certified"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("attacked")
    table.add_column("tables")
    if len(promises) > 1:
        table.add_column("promised")
    for heading in ("certified\nε ≥", "if\nGaussian", "\ntrials", "\nseconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict")
    styles: dict[Verdict, str] = {Verdict.REFUTED: "bold red", Verdict.TOO_WEAK: "yellow"}
    for audit in done:
        subject, pair, relation, epsilon, delta, *numbers, verdict = result.row(audit)
        promise = [f"ε = {epsilon}, δ = {delta}"] if len(promises) > 1 else []
        cells = (subject, f"{pair} ({relation})", *promise, *numbers, verdict)
        table.add_row(*map(escape, cells), style=styles.get(audit.verdict))
    return Group(table, *Text(result.summary(done)).wrap(screen.out, screen.out.width))


@dataclass(frozen=True)
class ChosenAttacks:
    """The attacks to carry out, in this order, and the guarantee that they try to refute.

    ``left_out`` has the subjects that cannot be attacked, with the reason; ``about`` is a note on
    how the attacks relate to what was named.
    """

    attacks: tuple[Attack, ...]
    epsilon: float
    delta: float
    left_out: dict[str, str] = field(default_factory=dict)
    about: str = ""

    @property
    def remarks(self) -> list[str]:
        """Remarks to show before the attacks."""
        left_out = [f"Left out: {name}. {why}" for name, why in self.left_out.items()]
        return [self.about, *left_out] if self.about else left_out


def attacks_on(
    target: str, epsilon: float | None, delta: float | None, relation: Relation | None, jobs: int
) -> ChosenAttacks:
    """Return the attacks on a target; raise for all mistakes in the request, before any work."""
    from discreet.audit import most_telling
    from discreet.audit.cases import attacks, subjects
    from discreet.solvers import names, resolve

    known = subjects()
    chosen: list[Any] = [name for name in known if name == target or name.startswith(f"{target}: ")]
    if target == "all":
        chosen = list(known)
    if not chosen and target in names() and resolve(target).private:
        chosen = [resolve(target)]  # of another package
    if not chosen:
        given = {"--epsilon": epsilon, "--delta": delta, "--relation": relation}
        extra = [name for name, value in given.items() if value is not None]
        return _attacks_on_model(target, extra, jobs)
    epsilon = EPSILON if epsilon is None else epsilon
    delta = DELTA if delta is None else delta
    Budget(epsilon, delta, relation or Relation.ADD_REMOVE)  # raises for numbers out of range
    found: list[Attack] = []
    left_out: dict[str, str] = {}
    for subject in chosen:
        try:
            found += attacks(subject, epsilon=epsilon, delta=delta, relation=relation, jobs=jobs)
        except PrivacyError as error:
            left_out[str(getattr(subject, "name", subject))] = str(error)
    if not found:
        raise CommandError(" ".join(left_out.values()), Exit.PRIVACY)
    if target == "all":  # all pairs of tables would take a day
        found = most_telling(found)
    return ChosenAttacks(tuple(found), epsilon, delta, left_out)


def _attacks_on_model(target: str, given: Sequence[str], jobs: int) -> ChosenAttacks:
    """Return attacks on the settings of a model file, at the guarantee that it states."""
    from discreet import load
    from discreet.audit.cases import attacks, subjects
    from discreet.audit.pairs import group_of_two
    from discreet.solvers import names
    from discreet.tables.columns import nearest

    path = Path(target)
    if not path.exists():
        if target in names():
            raise CommandError(
                f"{target} has no guarantee that could be refuted: it is not private."
            )
        if os.sep in target or path.suffix:
            raise CommandError(f"{target}: no such model file.")
        hint = nearest(target, [*subjects(), "all"])
        raise CommandError(f"{target!r} is neither a solver nor a model file to audit; {hint}")
    if given:
        raise CommandError(f"{target} states its own guarantee; leave out {', '.join(given)}.")
    estimator: Any = load(path)
    promise = estimator.guarantee_
    if not (promise.private and promise.secure):
        why = "it was fitted with a fixed seed" if promise.private else "it is not private"
        raise CommandError(f"{target} has no guarantee that could be refuted: {why}.")
    estimator.check_settings()  # raises if the solver is not installed
    small = _for_small_tables(estimator)
    found = attacks(small, epsilon=promise.epsilon, delta=promise.delta, jobs=jobs)
    note = (
        f"The audit of {target} uses its settings (solver, budget, relation, loss, penalty and "
        "bounds) on small worst-case tables. It uses neither the rows that the model was trained "
        "on nor its weights."
    )
    aimed = []  # at the guarantee that the model states, whose ε may exceed the requested one
    for attack in found:
        epsilon = promise.epsilon
        delta = promise.delta
        if attack.relation != promise.relation:  # one row removed and one added
            epsilon, delta = group_of_two(epsilon, delta)
        subject = attack.subject.replace(type(small).__name__, path.name, 1)
        aimed.append(replace(attack, subject=subject, epsilon=epsilon, delta=delta))
    if any(attack.relation != promise.relation for attack in found):
        note += (
            f" With these settings no row can represent a missing one, as {promise.relation} would "
            "require, so the tables are two rows apart: for them the guarantee is twice the ε."
        )
    return ChosenAttacks(tuple(aimed), promise.epsilon, promise.delta, about=note)


def _for_small_tables(estimator: Any) -> Any:
    """Return an estimator with the same settings for two columns and targets from −1 to 1."""
    import numpy as np
    from sklearn.base import clone

    from discreet.estimators.log_linear import LogLinearRegressor
    from discreet.preparation import Bounds

    small = clone(estimator)
    settings = small.get_params(deep=False)
    if small.schema is not None:  # its columns are not those of the small tables
        small.set_params(schema=None)
    if "classes" in settings:
        small.set_params(classes=[-1, 1, *range(2, len(estimator.classes_))])
    if settings.get("target_bounds") is not None:  # the model itself is fitted from −1 to 1
        low = 0.1 if isinstance(small, LogLinearRegressor) else -1.0
        small.set_params(target_bounds=(low, 1.0))
    if "periods" in settings:
        ends = np.linspace(-0.5, 1.5, len(estimator.levels_))
        small.set_params(periods=ends.tolist())
    if settings["preparation"] is not None:
        steps = list(settings["preparation"])
        for k, step in enumerate(steps):
            if isinstance(step, Bounds):
                few = range(min(2, len(step.columns)))
                steps[k] = replace(step, columns=few, whole=())
        small.set_params(preparation=steps)
    return small
