"""Writing down what a fit does: what it asks, draws and charges, and replaying its answers.

While a `Transcript` is being written (`watching`), the methods through which every private answer
of the library goes are wrapped: the curator's questions, the noise, the bits, the filters. Nothing
else changes, and fits in other threads are not touched. A second transcript can be written *against
the answers of* a first one: each question is still asked of its own table (so it reads, charges
and draws as it would), but what is handed to the solver is the answer that the first table gave.
Whatever differs after that was not learned from a paid answer.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.core.account import Account
from discreet.core.bits import SeededBits, SystemBits
from discreet.core.curator import Curator
from discreet.core.filters import PrivacyFilter
from discreet.core.mechanisms import AdditiveMechanism
from discreet.core.noise import Noise

__all__ = ["Release", "Transcript", "WatchedState", "describe", "watching"]

MOST_WORDS = 2**18
"""Random words that are kept of one fit."""

ANSWERLESS = {"open", "open_plan", "open_reserved", "sample", "columns"}
"""What a curator offers besides questions."""

SUMS = {
    *("gradient", "sampled_gradient", "release", "row_sum", "outer_sum", "square_sum"),
    *("target_sum", "xy_moment_sum"),
}
"""Questions whose answer is a sum on a grid, as it was released."""

CHOICES = {
    *("choose_step", "choose_corner", "choose_candidate", "median_norm", "column_bounds"),
    *("generator", "permutation", "draw_index"),
}
"""Questions whose answers are few, so that two fits may well get the same."""


@dataclass(frozen=True)
class Release:
    """Numbers that were released, and the grid of their noise (None if no noise was drawn)."""

    question: str
    values: NDArray[np.float64]
    grid: int | None


@dataclass
class Transcript:
    """What a fit did, in order; with ``replayed``, given the answers that another fit got."""

    replayed: Transcript | None = None
    steps: list[str] = field(default_factory=list)
    answers: list[tuple[str, Any]] = field(default_factory=list)
    releases: list[Release] = field(default_factory=list)
    words: list[NDArray[np.uint64]] = field(default_factory=list)
    questions: set[str] = field(default_factory=set)
    grids: list[int] = field(default_factory=list)
    _kept: int = 0
    _depth: int = 0
    _apart: bool = False

    def note(self, *parts: str) -> None:
        """Write a step down."""
        self.steps.append(" ".join(parts))

    def keep_words(self, words: NDArray[np.uint64]) -> None:
        """Keep random words, to see whether they ever come again."""
        if self._kept < MOST_WORDS:
            self.words.append(np.array(words, dtype=np.uint64))
            self._kept += words.size

    def answered(self, question: str, answer: Any) -> Any:
        """Keep an answer; returns what the solver is to be told."""
        if self.replayed is None:
            self.answers.append((question, copy.deepcopy(answer)))
            return answer
        at, first = len(self.answers), self.replayed.answers
        self._apart = self._apart or at >= len(first) or first[at][0] != question
        told = answer if self._apart else copy.deepcopy(first[at][1])
        self.answers.append((question, told))
        return told


_ACTIVE: ContextVar[Transcript | None] = ContextVar("transcript", default=None)
_LOCK = threading.Lock()
_WATCHERS = 0
_ORIGINALS: list[tuple[type, str, Any]] = []

Spy = Callable[[Transcript, Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any]


@contextlib.contextmanager
def watching(transcript: Transcript) -> Iterator[Transcript]:
    """Write down, within the block and in this thread, what fits do."""
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
    """A text that is the same for the same value and (but for hashing luck) for no other."""
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
    """A question to the curator; questions that it asks itself meanwhile are part of it."""
    if transcript._depth:
        return ask(curator, *args, **options)
    name = ask.__name__
    transcript.note("asks", name, describe(args), describe(options))
    transcript.questions.add(name)
    drawn = len(transcript.grids)
    transcript._depth += 1
    try:
        answer = ask(curator, *args, **options)
    except Exception as error:
        transcript.note("is refused:", type(error).__name__, str(error))
        raise
    finally:
        transcript._depth -= 1
    if name in SUMS:
        values = np.asarray(getattr(answer, "values", answer), dtype=np.float64)
        grid = transcript.grids[-1] if len(transcript.grids) > drawn else None
        transcript.releases.append(Release(name, values.copy(), grid))
    told = transcript.answered(name, answer)
    kept = getattr(curator, "_measured", None)
    if told is not answer and kept is not None and kept[0] is answer:
        curator._measured = (told, *kept[1:])  # so that it can be refined
    return told


def _draw(
    transcript: Transcript, draw: Callable[..., Any], noise: Any, args: Any, options: Any
) -> Any:
    """A draw of noise: its kind, number, scale and grid are noted, and not what it added to."""
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
    """A charge to a filter, or the opening of one."""
    transcript.note(charge.__name__.replace("_", " ") + "s", describe(args), describe(options))
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
    """A release inside a longer computation: its numbers must be on a grid as well."""
    drawn = len(transcript.grids)
    values, scale = release(mechanism, *args, **options)
    grid = transcript.grids[-1] if len(transcript.grids) > drawn else None
    transcript.releases.append(Release(f"{type(mechanism).__name__}.release", values.copy(), grid))
    return values, scale


def _spies() -> Iterator[tuple[type, str, Spy]]:
    for name in dir(Curator):
        public = not name.startswith("_") and name not in ANSWERLESS
        if public and callable(getattr(Curator, name)):
            yield Curator, name, _ask
    for name in ("gaussian", "laplace", "exponential", "gumbel", "l2_norm", "select"):
        yield Noise, name, _draw
    for owner, name in (
        (PrivacyFilter, "charge"),
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
        setattr(owner, name, _wrapped(getattr(owner, name), spy))


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
    """A seeded random state that writes draws down: for estimators that are not ours."""

    _LOCATED = frozenset({"normal", "laplace", "gumbel", "logistic"})
    _SILENT = frozenset({"get_state", "set_state", "seed"})

    def __getattribute__(self, name: str) -> Any:
        """Hand out methods that note how they are called."""
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
