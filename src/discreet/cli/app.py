"""The command ``discreet``: its parts, and one place where errors become exit codes."""

from __future__ import annotations

import logging
import os
import re
import shlex
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any

import typer
from typer import Option

import discreet
from discreet.cli import audit, demo, describe, fit, ledger, predict, schema, session
from discreet.cli.exits import Exit, Problem, as_options, describe_error, reason
from discreet.cli.screen import Screen, be_quiet
from discreet.errors import PrivacyLeakWarning

GROUP = "discreet.commands"  # entry points with which other packages register commands

_COMMANDS: dict[str, typer.Typer | Callable[..., Any]] = {
    "schema": schema.app,
    "fit": fit.fit,
    "predict": predict.predict,
    "evaluate": predict.evaluate,
    "explain": describe.explain,
    "ledger": ledger.app,
    "plan": fit.plan,
    "audit": audit.audit,
    "solvers": describe.solvers,
    "demo": demo.demo,
}


def _version(show: bool) -> None:
    if show:
        typer.echo(f"discreet {discreet.__version__}")
        raise typer.Exit


def _main(
    version: Annotated[
        bool, Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    quiet: Annotated[
        bool,
        Option(
            "--quiet", help="Show results, warnings and errors only. Anywhere on the command line."
        ),
    ] = False,
    log: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Append what was asked, spent and written to this file, but no value of a table "
            "and no result. Anywhere on the command line.",
        ),
    ] = None,
) -> None:
    pass


def _application(arguments: Sequence[str], screen: Screen) -> typer.Typer:
    """Put the command together: our own commands, and those of other packages that are needed."""
    app = typer.Typer(
        name="discreet",
        help="Linear models under differential privacy, from a table on disk to a private model.",
        epilog="Exit codes: " + " · ".join(f"{int(code)} {code.meaning}" for code in Exit) + ".",
        no_args_is_help=True,
        pretty_exceptions_enable=False,  # they would print local variables, which hold rows
        rich_markup_mode=None,  # boxes leave 17 characters for a text at 80 columns
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_main)
    for name, command in _COMMANDS.items():
        _add(app, name, command)
    asked = next((word for word in arguments if not word.startswith("-")), None)
    if asked in _COMMANDS:
        return app
    entries = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    for entry in [each for each in entries if each.name == asked] or entries:
        problem = _add_entry(app, entry)
        if problem is not None and entry.name == asked:
            raise Problem(problem, Exit.UNEXPECTED)
        if problem is not None and "_DISCREET_COMPLETE" not in os.environ:
            screen.one_line_warning(problem)
    return app


def _add(app: typer.Typer, name: str, command: typer.Typer | Callable[..., Any]) -> None:
    if isinstance(command, typer.Typer):
        text = command.info.help if isinstance(command.info.help, str) else None
        app.add_typer(command, name=name, short_help=text)
    else:  # the first line as a whole; by default it would be cut
        app.command(name, short_help=(command.__doc__ or "").split("\n")[0])(command)


def _add_entry(app: typer.Typer, entry: EntryPoint) -> str | None:
    """Add the command of another package, or return the reason why it cannot be added."""
    package = entry.dist.name if entry.dist is not None else entry.value
    where = f"the command {entry.name!r} of the package {package}"
    if entry.name in _COMMANDS:
        return f"{where} is left out, because discreet has a command of that name."
    try:
        command = entry.load()
        if not callable(command):
            return f"{where} is neither a typer.Typer nor a function."
        trial = typer.Typer()
        _add(trial, entry.name, command)
        typer.main.get_command(trial)  # options of types that Typer does not know are found here
    except (Exception, SystemExit) as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        return f"{where} cannot be loaded ({said}). Repair or remove that package."
    _add(app, entry.name, command)
    return None


def _session(arguments: Sequence[str]) -> tuple[list[str], bool, str | None]:
    """Take ``--quiet`` and ``--log FILE`` out of a command line, wherever they are."""
    kept, quiet, file = list[str](), False, None
    words = iter(arguments)
    for word in words:
        if word == "--":
            return [*kept, word, *words], quiet, file
        if word == "--quiet":
            quiet = True
        elif word == "--log":
            file = next(words, "")
        elif word.startswith("--log="):
            file = word.removeprefix("--log=")
        else:
            kept.append(word)
    return kept, quiet, file


@contextmanager
def _logging(file: str, arguments: Sequence[str]) -> Iterator[None]:
    """Write the log of a session to a file."""
    try:
        handler = logging.FileHandler(file, encoding="utf-8")
    except OSError as error:
        raise Problem(f"--log {file}: {reason(error)}. Name a file to write to.") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log, before = logging.getLogger("discreet"), logging.getLogger("discreet").level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    hidden = (re.sub(r"://[^/@]*@", "://…@", word) for word in arguments)  # passwords of ledgers
    log.info("Asked: discreet %s", shlex.join(hidden))
    try:
        yield
    finally:
        log.setLevel(before)
        log.removeHandler(handler)
        handler.close()


@contextmanager
def _counted_warnings(screen: Screen) -> Iterator[None]:
    """Show each warning of a command once, at its end, with the number of times that it came."""
    counts: Counter[tuple[str, str]] = Counter()

    def count(message: Warning | str, category: type[Warning], *_args: Any, **_rest: Any) -> None:
        title = "Not private" if category is PrivacyLeakWarning else "Warning"
        counts[title, as_options(str(message))] += 1

    with warnings.catch_warnings():
        warnings.showwarning = count
        try:
            yield
        finally:
            for (title, text), times in counts.items():
                screen.warn(title, text, times)


def run(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code. No error text shows a value of a table."""
    arguments, quiet, file = _session(arguments)
    screen = Screen(as_json="--json" in arguments)
    be_quiet(quiet)
    session.begin()
    with ExitStack() as scope:
        scope.callback(be_quiet, False)
        try:
            if file is not None:
                scope.enter_context(_logging(file, arguments))
            with _counted_warnings(screen):
                outcome = _application(arguments, screen)(list(arguments), standalone_mode=False)
            if outcome == Exit.INTERRUPTED:  # Typer turns Ctrl-C into this code, without a word
                raise KeyboardInterrupt
            return int(outcome) if isinstance(outcome, int) else int(Exit.OK)
        except typer.Exit as stop:
            return stop.exit_code
        except SystemExit as stop:  # Typer and Rich end like this when a pipe is closed
            return stop.code if isinstance(stop.code, int) else int(Exit.UNEXPECTED)
        except BrokenPipeError:
            return int(Exit.UNEXPECTED)
        except BaseException as error:  # every failure has a code and a text without data
            if hasattr(error, "format_message"):  # wrong usage; the class of Typer is not public
                screen.usage(error)
                return int(Exit.USAGE)
            code, text = describe_error(error)
            if code is Exit.OK:
                screen.one_line_warning(text)
            else:
                screen.error(code, text)
            return int(code)
