"""The command ``discreet``: its parts, and one place where errors become exit codes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Annotated

import typer

import discreet
from discreet.cli import audit, evaluate, explain, fit, lists, predict, schema
from discreet.cli.exits import Exit
from discreet.cli.exits import explain as explain_error
from discreet.cli.screen import Screen
from discreet.errors import PrivacyLeakWarning

__all__ = ["COMMANDS", "app", "run"]

COMMANDS = "discreet.commands"
"""Entry-point group in which packages register commands."""

app = typer.Typer(
    name="discreet",
    help="Linear models under differential privacy, from a table on disk to a private model.",
    epilog=(
        "Exit codes: 0 done · 2 wrong usage · 3 the data or schema does not fit · 4 the privacy "
        "promise could not be kept · 5 the model file cannot be trusted · 6 an audit refuted a "
        "promise · 130 interrupted · 1 anything else."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # they would print local variables, which hold rows
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(schema.app, name="schema")
app.command("fit")(fit.fit)
app.command("predict")(predict.predict)
app.command("evaluate")(evaluate.evaluate)
app.command("explain")(explain.explain)
app.command("audit")(audit.audit)
app.command("solvers")(lists.solvers)
app.command("datasets")(lists.datasets)
app.command("demo")(lists.demo)


def _add_installed_commands() -> None:
    """Add the commands of installed packages: entry points in the group ``discreet.commands``.

    Each names a `typer.Typer` (a group of commands) or a function (one command).
    """
    for entry in sorted(entry_points(group=COMMANDS), key=lambda entry: entry.name):
        command = entry.load()
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=entry.name)
        else:
            app.command(entry.name)(command)


_add_installed_commands()


_TITLES = {PrivacyLeakWarning: "Not private"}
"""What a warning's panel is called."""


def _version(show: bool) -> None:
    if show:
        typer.echo(f"discreet {discreet.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


def run(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code. No error text shows a value of a table."""
    screen = Screen(as_json="--json" in arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, category, *_args, **_rest: screen.warn(
                _TITLES.get(category, "Warning"), str(message)
            )
            outcome = app(list(arguments), standalone_mode=False)
        if outcome == Exit.INTERRUPTED:  # Typer turns Ctrl-C into this code, without a word
            raise KeyboardInterrupt
        return int(outcome) if isinstance(outcome, int) else int(Exit.OK)
    except typer.Exit as stop:
        return stop.exit_code
    except SystemExit as stop:  # Typer and Rich end like this when a pipe is closed
        return stop.code if isinstance(stop.code, int) else int(Exit.UNEXPECTED)
    except BrokenPipeError:
        return int(Exit.UNEXPECTED)
    except typer.Abort:
        screen.error(*explain_error(KeyboardInterrupt()))
        return int(Exit.INTERRUPTED)
    except BaseException as error:  # every failure has a code and a text without data
        if _is_usage(error):
            screen.usage(error)
            return int(Exit.USAGE)
        code, text = explain_error(error)
        screen.error(code, text)
        return int(code)


def _is_usage(error: BaseException) -> bool:
    """Whether the command line itself was wrong (Typer has such a class, but not a public one)."""
    return callable(getattr(error, "format_message", None))
