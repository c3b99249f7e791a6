"""The command ``discreet``: its parts, and one place where errors become exit codes."""

from __future__ import annotations

import errno
import logging
import os
import re
import shlex
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

import discreet
from discreet.cli import (
    audit,
    demo,
    describe,
    example,
    fit,
    ledger,
    predict,
    schema_commands,
    site,
    state,
    table_one,
)
from discreet.cli.exits import (
    CommandError,
    Exit,
    as_options,
    interrupted,
    is_of_system,
    reason,
)
from discreet.cli.screen import Screen
from discreet.errors import (
    EngineError,
    ModelFileError,
    PrivacyError,
    PrivacyLeakWarning,
    TableError,
)

GROUP = "discreet.commands"  # entry points with which other packages register commands

# Texts by which a library that has its own error says that memory ran out; they are not shown.
_NO_MEMORY = re.compile(
    r"cannot allocate|allocate memory|out of memory|failed to map segment", re.I
)

_COMMANDS: dict[str, typer.Typer | Callable[..., Any]] = {
    "schema": schema_commands.app,
    "fit": fit.fit,
    "predict": predict.predict,
    "evaluate": predict.evaluate,
    "describe": table_one.describe,
    "explain": describe.explain,
    "ledger": ledger.app,
    "plan": fit.plan,
    "site": site.app,
    "federate": site.federate,
    "audit": audit.audit,
    "solvers": describe.solvers,
    "demo": demo.demo,
    "example": example.example,
}


def _main(
    version: Annotated[bool, Option("--version", help="Show the version.")] = False,
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
            raise CommandError(problem, Exit.UNEXPECTED)
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


def _global_options(arguments: Sequence[str]) -> tuple[list[str], bool, str | None]:
    """Take ``--quiet`` and ``--log FILE`` out of a command line, wherever they are."""
    kept: list[str] = []
    quiet = False
    file = None
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
    """Write the log of a command to a file."""
    try:
        handler = logging.FileHandler(file, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"--log {file}: {reason(error)}. Name a file to write to.") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log = logging.getLogger("discreet")
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    shown = (re.sub(r"://[^/@]*@", "://…@", word) for word in arguments)  # no ledger's password
    log.info("Asked: discreet %s", shlex.join(shown))
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
    arguments, quiet, file = _global_options(arguments)
    if arguments[:1] == ["--version"]:
        sys.stdout.write(f"discreet {discreet.__version__}\n")
        return int(Exit.OK)
    screen = Screen(as_json="--json" in arguments)
    state.begin(quiet=quiet)
    with ExitStack() as scope:
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


def describe_error(error: BaseException) -> tuple[Exit, str]:
    """Return the exit code of an error, and a text that shows no cell of any table.

    Errors of our own are written so that they quote no data. The text of any other could, so it
    is withheld unless ``DISCREET_DEBUG=1`` asks for it. An interrupt after the last output was
    written is no failure: whoever repeats the command would spend its budget twice.
    """
    if isinstance(error, CommandError):
        return error.code, str(error)
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        how = "Ended by SIGTERM" if interrupted() is Exit.TERMINATED else "Interrupted"
        if written := state.current.written():
            return Exit.OK, f"{how}, but {' and '.join(written)} had been written in full."
        return interrupted(), _with_spent(f"{how}. No file was written.")
    if _memory_ran_out(error):
        traceback.clear_frames(error.__traceback__)  # what follows needs some
        return Exit.UNEXPECTED, _with_spent(
            "Memory ran out. A smaller --memory (of fit and evaluate), such as --memory 500MB, "
            "keeps the encoded table in a temporary file."
        )
    if isinstance(error, PrivacyError | TableError | ModelFileError | EngineError):
        return Exit(error.exit_code), as_options(str(error))
    raised = _is_ours(error)
    if isinstance(error, FileNotFoundError | IsADirectoryError | PermissionError):
        return Exit.DATA, f"{error.filename}: {reason(error)}."
    if isinstance(error, OSError) and error.strerror and (raised or is_of_system(error)):
        text = f"{error.filename or 'the system'}: {as_options(reason(error))}."
        return Exit.UNEXPECTED, _with_spent(text)
    if raised and isinstance(error, ValueError | ImportError):
        return Exit.USAGE, as_options(str(error))
    if os.environ.get("DISCREET_DEBUG") == "1":
        return Exit.UNEXPECTED, _with_spent("".join(traceback.format_exception(error)))
    last = traceback.extract_tb(error.__traceback__)[-1]
    return Exit.UNEXPECTED, _with_spent(
        f"Unexpected {type(error).__name__} in {os.path.basename(last.filename)}, line "
        f"{last.lineno}. Its text is withheld because it could quote the data; run again with "
        "DISCREET_DEBUG=1 to see it."
    )


def _with_spent(text: str) -> str:
    """Return a report of a failure with what was spent."""
    return f"{text} {state.current.spent()}".rstrip()


def _is_ours(error: BaseException) -> bool:
    """Return True for an error that a ``raise`` of ours made, so that its text is ours.

    A line of ours that calls compiled code is not enough: ``float(cell)`` would quote the cell.
    """
    last = traceback.extract_tb(error.__traceback__)[-1:]
    if not last:
        return False
    ours = Path(last[0].filename).resolve().is_relative_to(Path(discreet.__file__).resolve().parent)
    return ours and (last[0].line or "").startswith("raise ")


def _memory_ran_out(error: BaseException) -> bool:
    """Return True if an error, or one that led to it, says that no memory was left."""
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        if isinstance(at, MemoryError) or getattr(at, "errno", None) == errno.ENOMEM:
            return True
        if isinstance(at, OSError | ImportError | RuntimeError) and _NO_MEMORY.search(str(at)):
            return True
        seen.append(at)
        at = at.__cause__ or at.__context__
    return False
