"""``discreet ledger``: budgets of data sets, their history, and whether it can be believed."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from discreet.cli import options, state
from discreet.cli.exits import CommandError, Exit
from discreet.cli.screen import Screen, table
from discreet.core import Budget, Relation

app = typer.Typer(
    help="Count what all releases about a data set spend, and hold them to a limit.",
    no_args_is_help=True,
)

Name = Annotated[str, Argument(metavar="DATASET", help="Name of the data set.")]
SigningKey = Annotated[Path | None, Option(help="PEM file of an Ed25519 key that signs the entry.")]


@app.command()
def create(
    dataset: Name,
    epsilon: Annotated[float, Option(help="ε that all releases together may spend.")],
    delta: options.Delta,
    ledger: options.LedgerPlace = None,
    relation: options.RelationName = Relation.ADD_REMOVE,
    unit: Annotated[str, Option(help="Privacy unit of the limit, such as patient.")] = "row",
    rows_per_unit: Annotated[
        int | None,
        Option(help="You state: no unit has more rows. Row-level fits count for that many."),
    ] = None,
    unit_in_one_block: Annotated[
        bool,
        Option(
            "--unit-in-one-block",
            help="You state: the data set is divided into blocks, and each unit lies in one.",
        ),
    ] = False,
    gaussian_share: Annotated[float, Option(help="Share of δ for releases in Gaussian DP.")] = 0.5,
    signing_key: SigningKey = None,
    as_json: options.AsJson = False,
) -> None:
    """Create a data set with its limit, once; makes the ledger if there is none.

    Example: discreet ledger create visits --ledger visits.sqlite --epsilon 3 --delta 1e-6
    """
    made = state.open_ledger(ledger, signing_key).create(
        dataset,
        Budget(epsilon, delta, relation),
        unit=unit,
        rows_per_unit=rows_per_unit,
        unit_in_one_block=unit_in_one_block,
        gaussian_share=gaussian_share,
    )
    Screen(as_json=as_json).result(made.summary(), f"Created {made!r}.")


@app.command()
def block(
    dataset: Name,
    block: Annotated[str, Argument(help="Name of the new block, such as 2026-02.")],
    ledger: options.LedgerPlace = None,
    as_json: options.AsJson = False,
) -> None:
    """Add a block to a divided data set; it has the whole limit for itself.

    Example: discreet ledger block visits 2026-02 --ledger visits.sqlite
    """
    made = state.open_ledger(ledger).open(dataset).add_block(block)
    Screen(as_json=as_json).result(made.summary(), f"Added the block {block!r} to {dataset!r}.")


@app.command("list")
def list_(ledger: options.LedgerPlace = None, as_json: options.AsJson = False) -> None:
    """List the data sets of a ledger.

    Example: discreet ledger list --ledger visits.sqlite
    """
    found = [each.summary() for each in state.open_ledger(ledger).list()]
    _table(Screen(as_json=as_json), found, _SUMMARY, "Data sets")


@app.command()
def show(
    dataset: Name,
    ledger: options.LedgerPlace = None,
    epsilon: Annotated[float | None, Option(help="Show what a fit of this ε would leave.")] = None,
    delta: Annotated[float | None, Option(help="δ of that fit; the limit's.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what is spent and left of a data set's limit, in ε at the limit's δ.

    Example: discreet ledger show visits --ledger visits.sqlite --epsilon 0.5
    """
    found = state.open_ledger(ledger).open(dataset)
    known = found.summary()
    text = repr(found)
    if epsilon is not None and found.limit is not None:
        budget = Budget(
            epsilon,
            found.limit.delta if delta is None else delta,
            Relation.ADD_REMOVE if found.unit != "row" else found.limit.relation,
        )
        after = known["next"] = found.preview(budget)
        text += f".\nA fit of ε = {epsilon:g}, δ = {budget.delta:g} "
        if after["fits_left"]:
            text += (
                f"would leave ε = {after['spent']:.4g} spent and up to ε = {after['remaining']:g} "
                f"for another. Fits of that size that remain: {after['fits_left']:,}"
            )
        else:
            text += "does not fit"
    screen = Screen(as_json=as_json)
    screen.result(known, f"{text}.")
    if "blocks" in known and not as_json:
        rows = [{"block": name, **each} for name, each in known["blocks"].items()]
        _table(screen, rows, ("block", "entries", "spent"), "Blocks")


@app.command()
def history(
    dataset: Name, ledger: options.LedgerPlace = None, as_json: options.AsJson = False
) -> None:
    """Show all releases of a data set.

    Example: discreet ledger history visits --ledger visits.sqlite
    """
    found = state.open_ledger(ledger).open(dataset).records()
    _table(Screen(as_json=as_json), found, _HISTORY, f"History of {dataset!r}")


@app.command()
def report(
    dataset: Name,
    ledger: options.LedgerPlace = None,
    html: Annotated[
        Path | None, Option("--html", help="Write a page with the budget over time to this file.")
    ] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Report what the releases of a data set have spent over time, and what is left.

    Example: discreet ledger report visits --ledger visits.sqlite --html budget.html
    """
    from discreet.ledger import report as writer

    state.check_output(html, force, option="--html")
    found = state.open_ledger(ledger).open(dataset)
    if found.limit is None:
        raise CommandError(f"{dataset!r} has no limit, so there is no budget to report on.")
    screen = Screen(as_json=as_json)
    if html is not None:
        screen.save(html, writer.html(found), "report", "Report")
        return
    steps = [asdict(step) for step in writer.timeline(found)]
    screen.result(found.summary() | {"over_time": steps}, writer.text(found))


@app.command()
def verify(
    ledger: options.LedgerPlace = None,
    key: Annotated[
        list[str] | None,
        Option(help="Public Ed25519 key (hexadecimal) that must have signed every event."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Check that no event was altered or moved, and none but the latest removed; add up anew.

    Removed latest events are noticed where this user saw them before, and by whoever kept the
    latest hash that this command prints.

    Example: discreet ledger verify --ledger visits.sqlite
    """
    found = state.open_ledger(ledger).verify(key or ())
    if not found.ok:
        raise CommandError(str(found), Exit.LEDGER)
    data = {"ok": True, "events": found.events, "signed": found.signed, "head": found.head}
    Screen(as_json=as_json).result(data | {"notes": list(found.notes)}, str(found))


@app.command()
def add(
    dataset: Name,
    ledger: options.LedgerPlace = None,
    gaussian: Annotated[float | None, Option(help="Standard deviation of Gaussian noise.")] = None,
    laplace: Annotated[float | None, Option(help="Scale of Laplace noise.")] = None,
    sensitivity: Annotated[
        float, Option(help="Largest change by one unit (L2 for Gaussian, L1 for Laplace).")
    ] = 1.0,
    rho: Annotated[float | None, Option(help="ρ of a zCDP release.")] = None,
    epsilon: Annotated[float | None, Option(help="ε of a release known by (ε, δ).")] = None,
    delta: Annotated[float, Option(help="δ of a release known by (ε, δ).")] = 0.0,
    times: Annotated[int, Option(help="Number of such releases.")] = 1,
    planned: Annotated[
        bool, Option("--planned", help="It was not made yet: refuse it if it exceeds the limit.")
    ] = False,
    relation: Annotated[Relation | None, Option(help="By default the data set's.")] = None,
    unit: Annotated[str | None, Option(help="Unit of the release; the data set's.")] = None,
    block: options.Blocks = None,
    purpose: options.Purpose = "",
    signing_key: SigningKey = None,
    as_json: options.AsJson = False,
) -> None:
    """Enter a release that was made elsewhere, for example in SQL.

    Example: discreet ledger add visits --ledger visits.sqlite --gaussian 20 --sensitivity 1
    """
    found = state.open_ledger(ledger, signing_key).open(dataset)
    found = (found.in_blocks(*block) if block else found).noting(purpose=purpose)
    entry = found.add(
        planned=planned,
        relation=relation,
        unit=unit,
        gaussian=gaussian,
        laplace=laplace,
        sensitivity=sensitivity,
        rho=rho,
        epsilon=epsilon,
        delta=delta,
        times=times,
    )
    known = {"entry": entry, **found.summary()}
    Screen(as_json=as_json).result(known, f"Entry {entry}. Now {found!r}.")


@app.command()
def export(
    ledger: options.LedgerPlace = None,
    output: options.OutputFile = None,
    to: Annotated[
        str | None, Option(help="Move the ledger to this file or server; the old one is closed.")
    ] = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Write all events as lines of JSON, or move the ledger elsewhere.

    Example: discreet ledger export --ledger visits.sqlite --to postgresql://server/budgets
    """
    state.check_output(output, force)
    screen = Screen(as_json=as_json)
    found = state.open_ledger(ledger)
    if to is not None:
        moved = found.move_to(to)
        screen.result({"moved": repr(moved)}, f"Moved to {moved!r}; the old ledger is closed.")
        return
    lines = "".join(json.dumps(event, ensure_ascii=True) + "\n" for event in found.events())
    if output is None:
        sys.stdout.write(lines)
    else:
        screen.save(output, lines, "events", "Events")


_SUMMARY = ("dataset", "unit", "relation", "limit", "entries", "spent", "remaining")
_HISTORY = (
    "entry", "when", "who", "status", "epsilon", "delta", "solver", "purpose", "blocks",
)  # fmt: skip


def _table(
    screen: Screen, rows: list[dict[str, Any]], columns: tuple[str, ...], title: str
) -> None:
    used = [c for c in columns if c != "blocks" or any(row.get(c) for row in rows)]
    header = [{"epsilon": "ε", "delta": "δ"}.get(column, column) for column in used]
    cells = [[_cell(column, row.get(column)) for column in used] for row in rows]
    screen.result(rows, table(title, header, cells, numbers=False))


def _cell(column: str, value: Any) -> str:
    if value is None:
        return "–"
    if column == "limit":
        return f"ε = {value['epsilon']:g}, δ = {value['delta']:g}"
    if column == "when":
        return str(value)[:19].replace("T", " ")
    if isinstance(value, float):
        return f"{value:.4g}"
    return ", ".join(value) if isinstance(value, list) else str(value)
