"""Output of commands: results on standard output, everything for people on standard error."""

from __future__ import annotations

import json
import logging
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.progress import Progress, TimeElapsedColumn
from rich.table import Table

from discreet.cli import state
from discreet.files import replacing

WIDEST = 78
"""Characters of a line of sentences: terminals have 80 or more."""

_LOG = logging.getLogger("discreet.command")

Bar: TypeAlias = Callable[..., None]
"""Shows that this share of the work is done; a second argument names the next work."""


def name_of(files: Sequence[str]) -> str:
    """Return the name of a table's files in a progress bar."""
    return Path(files[0]).name if len(files) == 1 else f"{len(files)} files"


def prose(text: str) -> str:
    """Return sentences in lines that fit a terminal; a word that is longer stays whole."""
    options: Any = {"break_long_words": False, "break_on_hyphens": False}
    return "\n".join(textwrap.fill(line, WIDEST, **options) for line in text.splitlines())


def table(
    title: str, header: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: bool = True
) -> Table:
    """Return a table for a terminal; its columns after the first hold ``numbers`` or texts."""
    made = Table(title=escape(title), title_justify="left")
    for place, heading in enumerate(header):
        right = numbers and place > 0
        made.add_column(escape(heading), justify="right" if right else "left")
    for row in rows:
        made.add_row(*(escape(str(cell)) for cell in row))
    return made


class Screen:
    """Output of a command: for a person, or with ``--json`` for a machine."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.out = Console(file=sys.stdout, soft_wrap=True, highlight=False)
        self.people = Console(file=sys.stderr, highlight=False)
        self._wrap = self.people.is_terminal  # a log file is searched line by line

    def result(self, data: Any, shown: Any, *, done: str = "") -> None:
        """Write a result: ``data`` as JSON for machines, else ``shown`` (text or a Rich object).

        If it stands for something that is ``done`` in any case, such as "The model was written", a
        failure of standard output is a remark and not an error, which would suggest otherwise.
        """
        try:
            if self.as_json:
                text = json.dumps(data, ensure_ascii=False, indent=2, allow_nan=False)
                sys.stdout.write(f"{text}\n")
            elif isinstance(shown, str):
                sys.stdout.write(shown if shown.endswith("\n") else f"{shown}\n")
            else:
                self.out.print(shown)
            if done:
                sys.stdout.flush()
        except OSError as error:
            if not done or isinstance(error, BrokenPipeError):
                raise
            self.note(f"{done}, but standard output failed: {error.strerror}.")

    def save(self, path: Path, text: str, key: str, name: str) -> None:
        """Write a file as a whole, and report it by a key for machines and a name for people."""
        with replacing(path) as stream:
            stream.write(text)
        self.result({key: str(path)}, f"{name}: {path}")

    def _json_line(self, data: dict[str, Any]) -> None:
        sys.stderr.write(json.dumps(data, ensure_ascii=False) + "\n")

    def note(self, text: str) -> None:
        """Write a remark for a person."""
        _LOG.info("%s", text)
        if not self.as_json and not state.current.quiet:
            self.people.print(escape(text), soft_wrap=not self._wrap)

    def warn(self, title: str, text: str, times: int = 1) -> None:
        """Write a warning in a panel that cannot be missed; machines get it as well."""
        counted = f" ({times:,} times)" if times > 1 else ""
        _LOG.warning("%s%s: %s", title, counted, text)
        if self.as_json:
            self._json_line({"warning": title, "text": text, "times": times})
        else:
            title += counted
            self.people.print(Panel(escape(text), title=escape(title), border_style="yellow"))

    def one_line_warning(self, text: str) -> None:
        """Write a warning that is not about privacy."""
        if self.as_json:
            self.warn("Warning", text)
        else:
            _LOG.warning("%s", text)
            self.people.print(escape(f"Warning: {text}"), soft_wrap=not self._wrap)

    def error(self, code: int, text: str) -> None:
        """Write the reason why the command failed."""
        _LOG.error("Exit code %d: %s", code, text)
        if self.as_json:
            self._json_line({"error": text, "exit": code})
        else:
            self.people.print(f"[bold red]Error:[/] {escape(text)}", soft_wrap=not self._wrap)

    def usage(self, error: Any) -> None:
        """Write what is wrong with the command line."""
        _LOG.error("Exit code 2: wrong usage.")
        if self.as_json:
            self.error(2, error.format_message())
        else:
            error.show()

    @contextmanager
    def bar(self, what: str) -> Iterator[Bar]:
        """Show a progress bar while the block runs, if a person is watching."""
        columns = (*Progress.get_default_columns()[:-1], TimeElapsedColumn())
        unseen = self.as_json or state.current.quiet or not self.people.is_terminal
        with Progress(*columns, console=self.people, disable=unseen, transient=True) as bars:
            task = bars.add_task(what, total=1.0)

            def show(share: float, now: str = what) -> None:
                if now != bars.tasks[0].description:
                    bars.reset(task, description=now)
                bars.update(task, completed=share)

            yield show

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Show what takes a while, if a person is watching."""
        unseen = self.as_json or state.current.quiet or not self.people.is_terminal
        with nullcontext() if unseen else self.people.status(escape(what)):
            yield
