"""Transcripts of fits: questions, draws and charges, and the replay of answers.

While a `Transcript` is recorded (`watching`), the methods that every private answer of the library
passes through are wrapped: the curator's doors, the questions' releases, the noise, the bits, the
filters. Nothing else changes, and fits in other threads are not affected. A second fit can *replay
the answers* of a first one: each question still reads, charges and draws on its own table, but the
solver receives the answer of the first table. Whatever differs then did not come from a charged
answer.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import hashlib
import importlib
import pkgutil
import re
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.audit.internals import (
    Account,
    AdditiveMechanism,
    Curator,
    Noise,
    NoisySum,
    PrivacyFilter,
    Question,
    SeededBits,
    SystemBits,
    core,
    exact,
)

__all__ = ["Release", "Transcript", "WatchedState", "describe", "kinds", "watching"]

MOST_WORDS = 2**18
"""Largest number of random words that are kept of one fit."""

ANSWERLESS = {
    *("open", "open_first", "open_plan", "open_reserved"),
    *("sample", "on_sample", "columns", "with_rows"),
}
"""Methods of a curator that answer nothing."""

GATES = {"ask", "ask_all"}
"""Doors of a curator that take questions as data: these are recorded by their classes."""

SUMS = {"sampled_gradient", "release"}
"""Other doors whose answer is a noisy sum on a grid, as every `NoisySum` of a gate is."""

CHOICES = {
    *("LineLosses", "CornerGradient", "CandidateLosses"),
    *("MedianNorm", "MedianSlope", "ColumnBounds"),
    *("KindVote", "CellBounds", "TextCounts", "BestPairs"),
    *("generator", "permutation", "draw_index"),
}
"""Questions and doors with few possible answers, so that two fits may get the same."""


def kinds() -> list[type]:
    """Return every class of questions of core and exact that can be asked."""
    for package in (core, exact):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    found, classes = [], [Question]
    while classes:
        kind: Any = classes.pop()
        classes += kind.__subclasses__()
        ours = kind.__module__.startswith((f"{core.__name__}.", f"{exact.__name__}."))
        if ours and hasattr(kind, "protected") and not kind.__name__.startswith("_"):
            found.append(kind)
    return sorted(set(found), key=lambda kind: kind.__name__)


@dataclass(frozen=True)
class Release:
    """Released numbers, and the grid of their noise (None if no noise was drawn)."""

    question: str
    values: NDArray[np.float64]
    grid: int | None


@dataclass
class Transcript:
    """Steps of a fit in order; with ``replayed``, a fit that gets another fit's answers."""

    replayed: Transcript | None = None
    steps: list[str] = field(default_factory=list)
    answers: list[tuple[str, Any]] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)
    words: list[NDArray[np.uint64]] = field(default_factory=list)
    questions: set[str] = field(default_factory=set)
    grids: list[int] = field(default_factory=list)
    released: list[int | None] = field(default_factory=list)
    _kept: int = 0
    _depth: int = 0
    _apart: bool = False

    def note(self, *parts: str) -> None:
        """Record a step."""
        self.steps.append(" ".join(parts))

    def keep_words(self, words: NDArray[np.uint64]) -> None:
        """Record random words, to find repetitions."""
        if self._kept < MOST_WORDS:
            self.words.append(np.array(words, dtype=np.uint64))
            self._kept += words.size

    def keep_release(self, question: str, answer: Any, grid: int | None) -> None:
        """Record the numbers of a noisy sum."""
        values = np.asarray(getattr(answer, "values", answer), dtype=np.float64)
        self.releases.append(Release(question, values.copy(), grid))

    def answered(self, question: str, answer: Any) -> Any:
        """Record an answer and return the one that the solver is given."""
        if self.replayed is None:
            self.answers.append((question, copy.deepcopy(answer)))
            return answer
        at, first = len(self.answers), self.replayed.answers
        self._apart = self._apart or at >= len(first) or first[at][0] != question
        given = answer if self._apart else copy.deepcopy(first[at][1])
        self.answers.append((question, given))
        return given


_ACTIVE: ContextVar[Transcript | None] = ContextVar("transcript", default=None)
_LOCK = threading.Lock()
_WATCHERS = 0
_ORIGINALS: list[tuple[type, str, Any]] = []

Spy = Callable[[Transcript, Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]


@contextlib.contextmanager
def watching(transcript: Transcript) -> Iterator[Transcript]:
    """Record fits within the block, in this thread."""
    global _WATCHERS
    with _LOCK:
        if _WATCHERS == 0:
            _install()
        _WATCHERS += 1
    token = _ACTIVE.set(transcript)
    try:
        yield transcript
    finally:
        _ACTIVE.reset(token)
        with _LOCK:
            _WATCHERS -= 1
            if _WATCHERS == 0:
                _remove()


def describe(value: Any) -> str:
    """Return a text that identifies a value, up to collisions of a hash."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return f"[{', '.join(describe(part) for part in value.ravel())}]"
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
        return f"array{value.shape} of {value.dtype} #{digest}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        parts.pop("earlier_fits", None)  # it counts the fits of this process
        inside = ", ".join(f"{name}={describe(part)}" for name, part in parts.items())
        return f"{type(value).__name__}({inside})"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(describe(part) for part in value)})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {describe(part)}' for key, part in value.items())}}}"
    if callable(value) and hasattr(value, "__qualname__"):
        return str(value.__qualname__)
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _ask(
    transcript: Transcript, ask: Callable[..., Any], curator: Any, args: Any, options: Any
) -> Any:
    """Record a call of a door of the curator; calls of other doors within it are part of it."""
    if transcript._depth:
        return ask(curator, *args, **options)
    door = ask.__name__
    asked = _asked(door, args, options)
    name = " ".join([door, *(type(question).__name__ for question in asked)])
    transcript.note("asks", name, describe(args), describe(options))
    transcript.questions.update(type(question).__name__ for question in asked)
    if door not in GATES:
        transcript.questions.add(door)
    drawn = len(transcript.grids)
    released = len(transcript.released)
    transcript._depth += 1
    try:
        answer = ask(curator, *args, **options)
    except Exception as error:
        transcript.note("is refused:", type(error).__name__, str(error))
        raise
    finally:
        transcript._depth -= 1
    answers = answer if door == "ask_all" else [answer]
    if door in GATES:
        # a gate that adds noise by other means than its questions' releases has no grid
        grids = [*transcript.released[released:], *(None for _ in asked)]
        for question, one, grid in zip(asked, answers, grids, strict=False):
            if isinstance(one, NoisySum):
                transcript.keep_release(type(question).__name__, one, grid)
    elif door in SUMS:
        grid = transcript.grids[-1] if len(transcript.grids) > drawn else None
        transcript.keep_release(door, answer, grid)
    given = transcript.answered(name, answer)
    kept = getattr(curator, "_measured", None)
    if given is not answer and kept is not None:
        for one, other in zip(answers, given if door == "ask_all" else [given], strict=True):
            if kept[0] is one:
                curator._measured = (other, *kept[1:])  # so that it can be refined
    return given


def _asked(door: str, args: Any, options: Any) -> list[Any]:
    """Return the questions of a call of a gate; none if it is another door."""
    if door == "ask":
        return [args[0] if args else options["question"]]
    if door == "ask_all":
        return [question for question, _ in (args[0] if args else options["asked"])]
    return []


def _answer(
    transcript: Transcript, release: Callable[..., Any], question: Any, args: Any, options: Any
) -> Any:
    """Record the grid of the noise that a question's release drew, or None if it drew none."""
    drawn = len(transcript.grids)
    released = len(transcript.released)
    answer = release(question, *args, **options)
    del transcript.released[released:]  # releases of base classes within this one
    transcript.released.append(transcript.grids[-1] if len(transcript.grids) > drawn else None)
    return answer


def _draw(
    transcript: Transcript, draw: Callable[..., Any], noise: Any, args: Any, options: Any
) -> Any:
    """Record a draw of noise: kind, number, scale and grid, but not the value it is added to."""
    if draw.__name__ == "select":
        scores, *rest = args if args else (options["scores"],)
        others = {name: value for name, value in options.items() if name != "scores"}
        count = np.size(scores)
        transcript.note("draws select of", str(count), describe(tuple(rest)), describe(others))
    else:
        transcript.note("draws", draw.__name__, describe(args), describe(options))
        transcript.grids.append(int(options["grid"] if "grid" in options else args[2]))
    return draw(noise, *args, **options)


def _charge(
    transcript: Transcript, charge: Callable[..., Any], owner: Any, args: Any, options: Any
) -> Any:
    """Record a charge to a filter, or the opening of one."""
    name = charge.__name__.removesuffix("_all").replace("_", " ")
    transcript.note(f"{name}s", describe(args), describe(options))
    return charge(owner, *args, **options)


def _words(
    transcript: Transcript, words: Callable[..., Any], bits: Any, args: Any, options: Any
) -> Any:
    drawn = words(bits, *args, **options)
    transcript.keep_words(drawn)
    return drawn


def _release(
    transcript: Transcript, release: Callable[..., Any], mechanism: Any, args: Any, options: Any
) -> Any:
    """Record a release inside a longer computation, which must be on a grid as well."""
    drawn = len(transcript.grids)
    values, scale = release(mechanism, *args, **options)
    grid = transcript.grids[-1] if len(transcript.grids) > drawn else None
    transcript.keep_release(f"{type(mechanism).__name__}.release", values, grid)
    return values, scale


def _spies() -> Iterator[tuple[type, str, Spy]]:
    for name in dir(Curator):
        public = not name.startswith("_") and name not in ANSWERLESS
        if public and callable(getattr(Curator, name)):
            yield Curator, name, _ask
    for owner in {one for kind in kinds() for one in kind.__mro__ if "release" in vars(one)}:
        yield owner, "release", _answer
    for name in ("gaussian", "laplace", "exponential", "gumbel", "l2_norm", "select"):
        yield Noise, name, _draw
    for owner, name in (
        (PrivacyFilter, "charge_all"),
        (Account, "open"),
        (Account, "open_plan"),
        (Account, "open_reserved"),
        (Account, "forfeit"),
    ):
        yield owner, name, _charge
    yield SystemBits, "words", _words
    yield SeededBits, "words", _words
    yield AdditiveMechanism, "release", _release


def _install() -> None:
    for owner, name, spy in _spies():
        _ORIGINALS.append((owner, name, vars(owner).get(name)))
        found = getattr(owner, name)
        found.__name__ = name  # that of a partial method is not its own
        setattr(owner, name, _wrapped(found, spy))


def _remove() -> None:
    while _ORIGINALS:
        owner, name, original = _ORIGINALS.pop()
        if original is None:  # it was inherited
            delattr(owner, name)
        else:
            setattr(owner, name, original)


def _wrapped(original: Callable[..., Any], spy: Spy) -> Callable[..., Any]:
    @functools.wraps(original)
    def spied(self: Any, *args: Any, **options: Any) -> Any:
        transcript = _ACTIVE.get()
        if transcript is None:
            return original(self, *args, **options)
        return spy(transcript, original, self, args, options)

    return spied


class WatchedState(np.random.RandomState):
    """A seeded random state that records draws, for estimators of other packages."""

    _LOCATED = frozenset({"normal", "laplace", "gumbel", "logistic"})
    _SILENT = frozenset({"get_state", "set_state", "seed"})

    def __getattribute__(self, name: str) -> Any:
        """Return methods that record their calls."""
        found = super().__getattribute__(name)
        transcript = _ACTIVE.get()
        if name.startswith("_") or name in WatchedState._SILENT or transcript is None:
            return found
        if not callable(found):
            return found

        def noted(*args: Any, **options: Any) -> Any:
            drawn = found(*args, **options)
            how = dict(enumerate(args)) | options
            if name in WatchedState._LOCATED:  # where noise is put may depend on rows
                how.pop(0, None)
                how.pop("loc", None)
            transcript.note("draws", name, f"of size {np.size(drawn)}", describe(how))
            return drawn

        return noted
