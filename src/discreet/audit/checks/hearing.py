"""Listening to a fit: all that a bystander hears of it, besides the model."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from discreet.audit.checks.fits import Table, attributes, fresh
from discreet.audit.checks.transcript import Transcript, WatchedState, describe, watching

__all__ = ["Heard", "fit_both", "listen", "listen_to_both"]

SILENT_LOGGERS = ("numba", "discreet.compile")
"""A compiler's lines are about code, and it is run once."""


@dataclass
class Heard:
    """One fit: what it said, what it did, and what it left.

    Attributes
    ----------
    lines
        Exceptions, warnings, log lines, progress and what was printed, each in its own order.
    transcript
        What it asked, drew and charged.
    left
        The fitted attributes, as texts.
    error
        What the fit raised, if anything.
    """

    lines: list[str] = field(default_factory=list)
    transcript: Transcript = field(default_factory=Transcript)
    left: dict[str, str] = field(default_factory=dict)
    error: Exception | None = None


class _Ear(logging.Handler):
    def __init__(self) -> None:
        super().__init__(level=0)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith(SILENT_LOGGERS):
            self.lines.append(f"log {record.name} {record.levelname}: {record.getMessage()}")


@contextlib.contextmanager
def _logs() -> Iterator[_Ear]:
    """Hear every logger, those that keep to themselves included."""
    ear = _Ear()
    known = [one for one in logging.root.manager.loggerDict.values() if type(one) is logging.Logger]
    apart = [one for one in known if not one.propagate]
    silent = [logging.getLogger(name) for name in SILENT_LOGGERS]
    levels = [(one, one.level) for one in (logging.root, *silent)]
    try:
        for one in (logging.root, *apart):
            one.addHandler(ear)
        for one in silent:
            one.setLevel(logging.WARNING)
        logging.root.setLevel(1)
        yield ear
    finally:
        for one in (logging.root, *apart):
            one.removeHandler(ear)
        for one, level in levels:
            one.setLevel(level)


def listen(
    estimator: Any, table: Table, *, seed: int = 0, answers_of: Transcript | None = None
) -> Heard:
    """Fit with a fixed seed and write down all that can be heard.

    With ``answers_of``, questions are answered as they were in that fit.
    """
    heard = Heard(transcript=Transcript(answers_of))
    progress: list[str] = []
    model = fresh(
        estimator,
        random_state=WatchedState(seed),
        progress=lambda at: progress.append(f"progress {describe(at)}"),
    )
    printed, errors = io.StringIO(), io.StringIO()
    with (
        _logs() as ear,
        warnings.catch_warnings(record=True) as warned,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(errors),
        watching(heard.transcript),
    ):
        warnings.simplefilter("always")
        try:
            model.fit(*table)
        except Exception as error:
            heard.error = error
            for one in (error, error.__cause__):
                if one is not None:
                    heard.lines.append(f"raised {type(one).__name__}: {one}")
    heard.lines += [f"warned {one.category.__name__}: {one.message}" for one in warned]
    heard.lines += ear.lines
    heard.lines += progress
    heard.lines += [f"printed {line}" for line in printed.getvalue().splitlines()]
    heard.lines += [f"printed {line}" for line in errors.getvalue().splitlines()]
    heard.left = attributes(model)
    return heard


def listen_to_both(estimator: Any, neighbours: tuple[Table, Table]) -> tuple[Heard, Heard]:
    """Fit on both tables with the same seed, the second given the answers of the first."""
    first = listen(estimator, neighbours[0])
    return first, listen(estimator, neighbours[1], answers_of=first.transcript)


def fit_both(estimator: Any, neighbours: tuple[Table, Table]) -> tuple[Heard, Heard]:
    """The same, for a question that makes sense only if there is a fit; else its error is raised.

    An error on one table alone is for the caller to see.
    """
    first, second = listen_to_both(estimator, neighbours)
    if first.error is not None and second.error is not None:
        raise first.error
    return first, second
