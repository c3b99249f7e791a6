"""``discreet audit``: attack the guarantee of a solver or a model, and report the outcome."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.exits import Exit, Problem
from discreet.cli.options import AsJson, Force, check_output
from discreet.cli.screen import Bar, Screen
from discreet.cli.targets import DELTA, EPSILON, plan_for
from discreet.core import Relation

if TYPE_CHECKING:
    from discreet.audit import Attack, Audit

__all__ = ["audit"]

# Trials per attack: the least in any case; by default between the other two.
FEWEST, USUAL, MOST = 100, 10_000, 1_000_000
MINUTES_FOR_ALL = 15.0  # by default
LEAST_SECONDS = 4.0  # of an attack, most of it for choosing the event
_SHARE_OF_TIME = 0.85  # for trials; the rest is for choosing the event and for counting
_LEAST_BATCH_SECONDS = 0.05
_ENDINGS = (".svg", ".html", ".htm")


def _complete(incomplete: str) -> list[str]:
    """Complete the name of a target."""
    from discreet.audit.cases import subjects

    return [name for name in (*subjects(), "all") if name.startswith(incomplete)]


def audit(
    target: Annotated[
        str,
        typer.Argument(
            metavar="SOLVER|MODEL|all",
            help="A solver (see: discreet solvers), a model file that `discreet fit` wrote, or "
            "all: every private solver, the default, and their parts, each on the data sets that "
            "are hardest for it.",
            autocompletion=_complete,
        ),
    ],
    epsilon: Annotated[
        float | None,
        typer.Option(help=f"The ε to refute; {EPSILON:g} by default. A model has its own."),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            help=f"The δ of the guarantee; {DELTA:g} by default. A model has its own. A larger "
            "one needs far fewer trials."
        ),
    ] = None,
    relation: Annotated[
        Relation | None,
        typer.Option(help="Relation of neighbouring data sets; by default each that is supported."),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(help="Time for all attacks together, divided by need.")
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            min=FEWEST,
            help="Trials per attack (with --minutes: at most). By default as many as a verdict "
            f"needs, up to {MOST:,}.",
        ),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(help="Probability that no lower bound on ε is too high, over all attacks."),
    ] = 0.999,
    jobs: Annotated[int, typer.Option(min=1, help="Processes that run trials.")] = 1,
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw the guarantee and the lower bounds: .svg, or a page (.html)."),
    ] = None,
    force: Force = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Write Markdown.")] = False,
    as_json: AsJson = False,
) -> None:
    """Try to refute a guarantee: attack a solver, or a model's settings, on worst-case data sets.

    Each attack runs the real method many times on two neighbouring data sets, and guesses which of
    them it saw. Its success rate gives a lower bound on the true ε. A bound above the guarantee
    refutes it, and the exit code is then 6. No audit proves a guarantee; one with too few trials
    says so, and how many are needed.

    Example: discreet audit gd --minutes 5 --figure gd.svg
    """
    from discreet.audit import figure as drawing
    from discreet.audit import report
    from discreet.audit.result import Verdict
    from discreet.files import replacing

    screen = Screen(as_json=as_json)
    if as_json and markdown:
        raise Problem(Exit.USAGE, "pass --json or --markdown, not both.")
    if not 0.5 <= confidence < 1:
        raise Problem(Exit.USAGE, f"--confidence must be in [0.5, 1); got {confidence:g}.")
    if minutes is not None and not (math.isfinite(minutes) and minutes > 0):
        raise Problem(Exit.USAGE, f"--minutes must be a number > 0; got {minutes:g}.")
    if figure is not None and figure.suffix.lower() not in _ENDINGS:
        raise Problem(Exit.USAGE, f"--figure {figure}: name it {', '.join(_ENDINGS)}.")
    check_output(figure, force, option="--figure")
    plan = plan_for(target, epsilon, delta, relation, jobs)
    if plan.note is not None:
        screen.note(plan.note)
    for name, reason in plan.left_out.items():
        screen.note(f"Left out: {name}. {reason}")
    n_attacks = len(plan.attacks)
    each = 1 - (1 - confidence) / n_attacks
    if target == "all" and minutes is None and trials is None:
        minutes = MINUTES_FOR_ALL
        screen.note(f"{n_attacks} attacks in {minutes:g} minutes; --minutes gives more.")
    if minutes is not None and 60 * minutes < LEAST_SECONDS * n_attacks:
        enough = math.ceil(LEAST_SECONDS * n_attacks / 60)
        screen.note(
            f"{n_attacks} attacks do not fit in {minutes:g} minutes: it will take longer, and most "
            f"will be too weak for a verdict. Allow {enough} minutes at least."
        )
    if trials is None and minutes is None:
        most = max(_trials_that_tell(attack, each) for attack in plan.attacks)
        if most > 10 * USUAL:
            screen.note(
                f"{n_attacks} attacks of up to {most:,} trials each; --minutes sets a limit, and "
                "--delta 1e-3 needs far fewer."
            )
    done: list[Audit] = []
    stopped: BaseException | None = None
    try:
        with screen.bar(f"auditing {target}") as bar:
            _attack_all(plan.attacks, done, each, trials, minutes, bar)
    except BaseException as error:  # finished attacks took long: show them, then raise the error
        if not done:
            raise
        stopped = error
    data = report.document(
        done,
        settings={
            "target": target,
            "epsilon": plan.epsilon,
            "delta": plan.delta,
            "relation": None if relation is None else str(relation),
            "confidence": confidence,
            "confidence_of_each": each,
            "minutes": minutes,
            "trials": trials,
            "jobs": jobs,
        },
        left_out=plan.left_out,
        complete=stopped is None,
    )
    if figure is not None:
        title, is_svg = f"Audit of {Path(target).name}", figure.suffix.lower() == ".svg"
        with replacing(figure) as stream:
            stream.write(drawing.figure(done) if is_svg else drawing.page(done, title=title))
        data["figure"] = os.fspath(figure)
    screen.result(data, _shown(screen, done, markdown))
    if figure is not None:
        screen.note(f"Figure: {figure}")
    if isinstance(stopped, KeyboardInterrupt):
        raise Problem(
            Exit.INTERRUPTED,
            f"Interrupted after {len(done)} of {n_attacks} attacks; the others were not carried "
            "out.",
        )
    if stopped is not None:
        raise stopped
    if any(found.verdict is Verdict.REFUTED for found in done):
        raise typer.Exit(Exit.REFUTED)


def _attack_all(
    attacks: Sequence[Attack],
    done: list[Audit],
    confidence: float,
    trials: int | None,
    minutes: float | None,
    bar: Bar,
) -> None:
    """Carry out attacks one after the other, and add each result to ``done`` at once."""
    import sklearn.linear_model  # noqa: F401  # for the attackers; not in the first one's time

    from discreet.audit import run

    wanted = [trials or _trials_that_tell(attack, confidence) for attack in attacks]
    if minutes is None:
        counts, lasting = wanted, [0.0] * len(attacks)
    else:
        end = time.perf_counter() + 60 * minutes
        rates = [_seconds_a_run(each, 6 * minutes / len(attacks)) for each in attacks]
        left = _SHARE_OF_TIME * (end - time.perf_counter())
        counts = _allot(wanted, rates, left, more=trials is None)
        lasting = [rate * count for rate, count in zip(rates, counts, strict=True)]
    for k, attack in enumerate(attacks):
        count = counts[k]
        if minutes is not None:  # an attack that took longer leaves less for the others
            left = _SHARE_OF_TIME * (end - time.perf_counter())
            count = max(FEWEST, int(count * min(1.0, max(0.0, left) / sum(lasting[k:]))))

        def show(runs: int, of: int, before: int = k) -> None:
            bar((before + runs / of) / len(attacks))

        done.append(run(attack, trials=count, confidence=confidence, progress=show))


def _trials_that_tell(attack: Attack, confidence: float) -> int:
    """Return the number of trials that a verdict needs, but at most `MOST`."""
    from discreet.audit.report import trials_that_tell

    needed = trials_that_tell(attack.epsilon, attack.delta, confidence)
    return MOST if needed is None else min(MOST, max(USUAL, needed))


def _allot(wanted: Sequence[int], rates: Sequence[float], seconds: float, more: bool) -> list[int]:
    """Divide time evenly; spare time goes to attacks that need more, or to all if ``more``."""
    costs = [count * rate for count, rate in zip(wanted, rates, strict=True)]
    counts = list(wanted)
    if sum(costs) <= seconds:
        return [int(count * seconds / sum(costs)) for count in counts] if more else counts
    cheapest_first = sorted(range(len(costs)), key=costs.__getitem__)
    for k, at in enumerate(cheapest_first):
        given = min(costs[at], max(0.0, seconds) / (len(costs) - k))
        counts[at] = max(FEWEST, int(given / rates[at]))
        seconds -= given
    return counts


def _seconds_a_run(attack: Attack, most: float) -> float:
    """Measure the seconds per trial in about ``most`` seconds, by trials that are thrown away.

    The first trial may compile something, so the last batch is timed twice; the faster time counts.
    """
    start = time.perf_counter()
    batch, before = 1, 0.0
    while True:
        begun = time.perf_counter()
        attack.draw(0, batch)
        now = time.perf_counter()
        lasted = max(now - begun, 1e-9)
        if lasted < 0.5 * before:  # the batch before compiled something
            start, before = now, 0.0
        if lasted < _LEAST_BATCH_SECONDS and now - start < most:
            batch, before = 4 * batch, 0.0
        elif before:
            return min(lasted, before) / batch
        else:
            before = lasted


def _shown(screen: Screen, done: Sequence[Audit], markdown: bool) -> Any:
    """Return the results and the conclusion: a table for a terminal, else one line per attack."""
    from rich import box
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    from discreet.audit import report
    from discreet.audit.result import Verdict

    words = report.in_words(done)
    if markdown or not screen.out.is_terminal:
        return f"{report.markdown(done) if markdown else report.text(done)}\n{words}\n"
    # What all rows share is in the title.
    promises = dict.fromkeys(f"ε = {found.epsilon:g}, δ = {found.delta:g}" for found in done)
    title = f"Promised: {next(iter(promises))}" if len(promises) == 1 else "Promised and certified"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("attacked", "tables", "promised")[: 3 if len(promises) > 1 else 2]:
        table.add_column(heading)
    for heading in ("certified\nε ≥", "if\nGaussian", "\ntrials", "\nseconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict")
    styles = {Verdict.REFUTED: "bold red", Verdict.TOO_WEAK: "yellow"}
    for found in done:
        subject, pair, relation, epsilon, delta, *numbers, verdict = report.row(found)
        promise = [f"ε = {epsilon}, δ = {delta}"] if len(promises) > 1 else []
        cells = (subject, f"{pair} ({relation})", *promise, *numbers, verdict)
        table.add_row(*map(escape, cells), style=styles.get(found.verdict))
    return Group(table, *Text(words).wrap(screen.out, screen.out.width))
