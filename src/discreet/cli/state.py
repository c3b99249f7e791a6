"""State of the running command: its output files, the ledger that it charges, what it has spent.

Whoever repeats a command that was told to have failed spends its budget twice, so every report of
a failure says what was written and what is spent. The state is that of the process: a process
runs one command at a time.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.cli.exits import CommandError, Exit, reason
from discreet.core import Budget
from discreet.files import reserved
from discreet.ledger.dataset import Dataset, Reservation

if TYPE_CHECKING:
    from discreet import Ledger


@dataclass
class CommandState:
    """State of one run of the command.

    Attributes
    ----------
    quiet : bool
        Show no remarks and progress bars.
    outputs : dict
        Output files, each with its identity before it was written.
    budget : Budget or None
        Budget of what the command releases about rows.
    charges : list
        Pairs of a data set of a ledger and the entry that was reserved in it.
    ledger : bool
        A ledger counts what the command spends.
    released : bool
        The result was computed, so its budget is spent.
    """

    quiet: bool = False
    outputs: dict[Path, tuple[int, ...] | None] = field(default_factory=dict)
    budget: Budget | None = None
    charges: list[tuple[Dataset, int]] = field(default_factory=list)
    ledger: bool = False
    released: bool = False

    def written(self) -> list[str]:
        """Return the output files that were written since `check_output`."""
        return [str(path) for path, before in self.outputs.items() if _identity(path) != before]

    def spent(self) -> str:
        """Return a sentence on what the command has spent, to end the report of a failure."""
        if self.budget is None:
            return ""
        budget = f"ε = {self.budget.epsilon:g}, δ = {self.budget.delta:g}"
        if self.charges:
            return " ".join(_settled(dataset, entry, budget) for dataset, entry in self.charges)
        if self.ledger:
            return "Nothing was charged to the ledger."
        if self.released:
            return f"{budget} is spent."
        return "Nothing was released, so nothing is spent."


current = CommandState()


def begin(*, quiet: bool = False) -> None:
    """Forget the command that ran before."""
    global current
    current = CommandState(quiet)


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _settled(dataset: Dataset, entry: int, budget: str) -> str:
    """Return what the ledger says about an entry."""
    where = f"Entry {entry} of the ledger, data set {dataset.name!r},"
    try:
        status = {row["entry"]: row["status"] for row in dataset.records()}.get(entry)
    except Exception:  # without memory or disk, what is certain is that it was reserved
        status = None
    if status == "returned":
        return f"{where} was returned: nothing is spent."
    return f"{where} counts {budget}, which is spent."


# ---- output files


def check_output(
    output: Path | None, force: bool, *inputs: str | Path, option: str = "--output"
) -> None:
    """Refuse an output that cannot or should not be written, before any work is done."""
    if output is None:
        return
    current.outputs[output] = _identity(output)
    problem = None
    if output.is_dir():
        problem = f"{option} {output} is a folder; name a file in it."
    elif not output.parent.is_dir():
        problem = f"{option} {output}: there is no folder {output.parent}."
    elif not os.access(output.parent, os.W_OK):
        problem = f"{option} {output}: the folder may not be written to."
    elif output.exists() and not output.is_file():
        problem = f"{option} {output} is not a regular file."
    elif output.exists() and any(
        Path(given).exists() and output.samefile(given) for given in inputs
    ):
        problem = f"{option} {output} is also an input; name another file."
    elif output.exists() and not force:
        problem = f"{output} exists; pass --force to replace it."
    if problem is not None:
        raise CommandError(problem)


def check_figure(
    figure: Path | None,
    force: bool,
    *inputs: Path,
    option: str = "--figure",
    endings: Sequence[str] = (".png", ".svg", ".pdf"),
) -> None:
    """Refuse a figure that cannot be drawn or written, before any work is done."""
    if figure is None:
        return
    if figure.suffix.lower() not in endings:
        raise CommandError(f"{option} {figure}: the name must end with {', '.join(endings)}.")
    if importlib.util.find_spec("matplotlib") is None:
        raise CommandError(f'{option} needs matplotlib: pip install "discreet[report]".')
    check_output(figure, force, *inputs, option=option)


@contextmanager
def room_for(output: Path | None, size: int) -> Iterator[None]:
    """Hold ``size`` bytes, a public number, for an output while the result is computed."""
    with ExitStack() as held:
        if output is not None:
            try:
                held.enter_context(reserved(output, size))
            except OSError as error:
                raise CommandError(
                    f"--output {output}: {reason(error)}. It needs {size / 1e6:.2g} MB on the "
                    "disk: free some space, or name a file on another disk. Nothing was read, "
                    "and nothing is spent.",
                    Exit.UNEXPECTED,
                ) from None
        yield


def keep(write: Callable[[Any], None], output: Path, what: str) -> None:
    """Write a result that was paid for. If that fails, it is kept elsewhere, and an error says so.

    Parameters
    ----------
    write : callable
        Writes the result to a path, or to a text stream.
    output : Path
        The file that was asked for. The others are a new file in the system's temporary folder,
        which only this user can read, and standard output.
    what : str
        The result, as in "the model".
    """
    current.released = True
    try:
        write(output)
        return
    except OSError as error:
        failed = f"{output}: {reason(error)}."
    place = _kept(write, output.suffix)
    if place is None:
        kept = f"Nor could {what} be written to {tempfile.gettempdir()} or to standard output."
    else:
        kept = f"{what.capitalize()} was kept {place}. Do not repeat the command: it would spend "
        kept += "its budget again."
    raise CommandError(f"{failed} {kept} {current.spent()}", Exit.UNEXPECTED)


def _kept(write: Callable[[Any], None], suffix: str) -> str | None:
    """Write a result to a second place; returns where it is, or None if that failed, too."""
    name = None
    try:
        handle, name = tempfile.mkstemp(prefix="discreet-", suffix=suffix)  # with mode 0600
        os.close(handle)
        write(Path(name))
        return f"in {name}, which only you can read: move it to where it belongs"
    except OSError:
        if name is not None:
            Path(name).unlink(missing_ok=True)
    try:
        write(sys.stdout)
        sys.stdout.flush()
        return "on standard output, which has nothing else"
    except OSError:
        return None


# ---- the ledger


def open_ledger(place: str | None, signing_key: Path | None = None) -> Ledger:
    """Open the ledger that is named, or that of a discreet.toml."""
    from discreet import Ledger

    place = place or _configured(Path()).get("path")
    if place is None:
        raise CommandError(
            "name a ledger: --ledger FILE, DISCREET_LEDGER, or a discreet.toml with [ledger] and "
            'path = "…".'
        )
    return Ledger(place, signing_key=signing_key)


def find_dataset(
    place: str | None,
    name: str | None,
    files: list[str],
    blocks: list[str] | None = None,
    purpose: str = "",
    budget: Budget | None = None,
) -> Dataset | None:
    """Return the data set that a command has to charge, or None if nothing names a ledger.

    A discreet.toml is searched from the folder of the table upwards. With a ``budget``, which the
    command is about to spend, the data set notes its entries for the report of a failure.
    """
    from discreet import Ledger

    current.budget = budget
    settings = {} if place else _configured(Path(files[0]).absolute().parent)
    place = place or settings.get("path")
    name = name or settings.get("dataset")
    if place is None:
        if name or blocks or purpose:
            raise CommandError("--dataset, --block and --purpose need --ledger FILE.")
        return None
    ledger = Ledger(place)
    if name is None:
        found = ledger.list()
        if len(found) != 1:
            known = ", ".join(repr(each.name) for each in found) or "none"
            raise CommandError(f"name the data set with --dataset. {place} has: {known}.")
        name = found[0].name
    dataset = ledger.open(name)
    dataset = dataset.in_blocks(*blocks) if blocks else dataset
    dataset = dataset.noting(purpose=purpose) if purpose else dataset
    if budget is None:
        return dataset
    current.ledger = True
    return NotedDataset(**{each.name: getattr(dataset, each.name) for each in fields(dataset)})


def _configured(start: Path) -> dict[str, str]:
    """Return the table [ledger] of the nearest discreet.toml in a folder or above it."""
    folder = start.absolute()
    for parent in (folder, *folder.parents):
        file = parent / "discreet.toml"
        if not file.is_file():
            continue
        try:
            found = tomllib.loads(file.read_text("utf-8")).get("ledger", {})
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise CommandError(f"{file} is not TOML: {error}.") from None
        if not all(isinstance(found.get(name, ""), str) for name in ("path", "dataset")):
            raise CommandError(f"{file}: path and dataset of [ledger] must be texts.")
        if "path" in found and "://" not in found["path"]:
            found["path"] = os.fspath(parent / found["path"])
        return dict(found)
    return {}


class NotedDataset(Dataset):
    """A data set whose charges are noted in the state, for the report of a failure."""

    def charge(self, *cost: Any, **more: Any) -> Reservation:
        """Reserve an entry, and note it."""
        made = super().charge(*cost, **more)
        current.charges.append((self, made.entry))
        return made
