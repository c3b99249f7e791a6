"""Recordings of fits: messages, transcript and fitted attributes."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .fits import Table, attributes, fresh
from .transcript import Transcript, WatchedState, describe, watching

__all__ = ["Recording", "fit_both", "record", "record_both"]

SILENT_LOGGERS = ("numba", "discreet.compile")
"""A compiler's lines are about code, and it is run once."""


@dataclass
class Recording:
    """Everything that can be observed of one fit.

    Attributes
    ----------
    lines
        Exceptions, warnings, log lines, progress and printed lines, each kind in its own order.
    transcript
        Questions, draws and charges.
    left
        The fitted attributes, as texts.
    error
        The exception that the fit raised, if any.
    """

    lines: list[str] = field(default_factory=list)
    transcript: Transcript = field(default_factory=Transcript)
    left: dict[str, str] = field(default_factory=dict)
    error: Exception | None = None


class _LogHandler(logging.Handler):
    def __init__(self) -> None:
        super().__init__(level=0)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith(SILENT_LOGGERS):
            self.lines.append(f"log {record.name} {record.levelname}: {record.getMessage()}")


@contextlib.contextmanager
def _logs() -> Iterator[_LogHandler]:
    """Record every logger, including those that do not propagate."""
    handler = _LogHandler()
    known = [one for one in logging.root.manager.loggerDict.values() if type(one) is logging.Logger]
    apart = [one for one in known if not one.propagate]
    silent = [logging.getLogger(name) for name in SILENT_LOGGERS]
    levels = [(one, one.level) for one in (logging.root, *silent)]
    try:
        for one in (logging.root, *apart):
            one.addHandler(handler)
        for one in silent:
            one.setLevel(logging.WARNING)
        logging.root.setLevel(1)
        yield handler
    finally:
        for one in (logging.root, *apart):
            one.removeHandler(handler)
        for one, level in levels:
            one.setLevel(level)


def record(
    estimator: Any, table: Table, *, seed: int = 0, replayed: Transcript | None = None
) -> Recording:
    """Fit with a fixed seed and record everything that can be observed.

    With ``replayed``, questions get the answers of that fit.
    """
    recording = Recording(transcript=Transcript(replayed))
    progress: list[str] = []
    model = fresh(
        estimator,
        random_state=WatchedState(seed),
        progress=lambda at: progress.append(f"progress {describe(at)}"),
    )
    printed, errors = io.StringIO(), io.StringIO()
    with (
        _logs() as handler,
        warnings.catch_warnings(record=True) as warned,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(errors),
        watching(recording.transcript),
    ):
        warnings.simplefilter("always")
        try:
            model.fit(*table)
        except Exception as error:
            recording.error = error
            for one in (error, error.__cause__):
                if one is not None:
                    recording.lines.append(f"raised {type(one).__name__}: {one}")
    recording.lines += [f"warned {one.category.__name__}: {one.message}" for one in warned]
    recording.lines += handler.lines
    recording.lines += progress
    recording.lines += [f"printed {line}" for line in printed.getvalue().splitlines()]
    recording.lines += [f"printed {line}" for line in errors.getvalue().splitlines()]
    recording.left = attributes(model)
    return recording


def record_both(estimator: Any, neighbours: tuple[Table, Table]) -> tuple[Recording, Recording]:
    """Fit on both tables with the same seed, the second with the answers of the first."""
    first = record(estimator, neighbours[0])
    return first, record(estimator, neighbours[1], replayed=first.transcript)


def fit_both(estimator: Any, neighbours: tuple[Table, Table]) -> tuple[Recording, Recording]:
    """Record both fits, and raise their error if both fail.

    An error on one table alone is left in the recording.
    """
    first, second = record_both(estimator, neighbours)
    if first.error is not None and second.error is not None:
        raise first.error
    return first, second
