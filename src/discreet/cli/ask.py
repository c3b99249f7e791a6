"""``discreet schema draft --ask``: a schema from answers in the terminal, one column at a time."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from typing import Any, TypeAlias

from discreet.tables import Categorical, Date, Hashed, Ignored, Numeric, Schema, Target
from discreet.tables.columns import Boolean, Column, may_be_unit
from discreet.tables.declarations import FileFormat, from_plain

Prompt: TypeAlias = Callable[[str, str], str]
"""Asks a question that has an answer by default, and returns the answer."""

KINDS = ("numeric", "categorical", "hashed", "boolean", "date", "ignored")
"""Kinds that a column may be said to have."""

_SHORT = {kind[0]: kind for kind in KINDS}  # the first letter is enough
_INTRODUCTION = """\
Answer from a codebook or a form, not from the rows: what you state becomes public. Enter takes the
proposal in brackets."""


class Questions:
    """Questions about a drafted schema; ``tell`` shows a remark, ``prompt`` asks."""

    def __init__(self, drafted: str, prompt: Prompt, tell: Callable[[str], None]) -> None:
        self._plain = tomllib.loads(drafted)
        self._prompt = prompt
        self._tell = tell

    def schema(self) -> Schema:
        """Ask about the unit, the target and each column, and return the schema."""
        self._tell(_INTRODUCTION)
        known: dict[str, Any] = self._plain["columns"]
        unit = self._plain.get("unit") or self._unit(list(known))
        target = self._plain.get("target", {}).get("column") or self._name(
            "Column to predict", [name for name in known if name != unit]
        )
        own = self._target(target)
        asked = [name for name in known if name not in (unit, target)]
        columns = {
            name: self._column(name, known[name], f"{place} of {len(asked)}")
            for place, name in enumerate(asked, start=1)
        }
        file = from_plain(FileFormat, self._plain.get("file", {}))
        return Schema(columns, own, file, None, unit)

    def _unit(self, names: list[str]) -> str | None:
        likely = next(filter(may_be_unit, names), "")
        text = "Column with the id of a person, if people can have several rows (- if none)"
        found = self._name(text, names, likely or "-", none="-")
        return None if found == "-" else found

    def _name(self, text: str, names: list[str], proposed: str = "", none: str = "") -> str:
        """Ask for one of the columns until there is one of that name."""
        while True:
            found = self._prompt(text, proposed).strip()
            if found in names or (none and found == none):
                return found
            self._tell(f"There is no column {found!r}; the columns are {', '.join(names)}.")

    def _target(self, name: str) -> Target:
        text = f"{name}, to predict: its classes, with commas between them, or LOW:HIGH of a number"
        while True:
            answer = self._prompt(text, "").strip()
            try:
                if ":" in answer and "," not in answer:
                    low, high = map(float, answer.split(":"))
                    return Target(name, low=low, high=high)
                return Target(name, _listed(answer))
            except ValueError as problem:
                self._tell(f"That cannot be: {problem}")

    def _column(self, name: str, plain: dict[str, Any], place: str) -> Column:
        """Ask for the kind of a column, then for what that kind needs."""
        proposed = plain.get("kind", "numeric")
        about = f" It seems to hold {'whole ' * plain.get('integer', False)}numbers."
        if proposed != "numeric":
            about = f" {plain['reason']}." if "reason" in plain else ""
        self._tell(f"\nColumn {place}: {name}.{about}")
        while True:
            answer = self._prompt(f"Kind ({', '.join(KINDS)})", proposed).strip()
            kind = _SHORT.get(answer, answer)
            if kind not in KINDS:
                self._tell(f"{answer!r} is no kind of a column.")
                continue
            try:
                return self._of_kind(kind, plain)
            except ValueError as problem:
                self._tell(f"That cannot be: {problem}")

    def _of_kind(self, kind: str, plain: dict[str, Any]) -> Column:
        if kind == "numeric":
            return self._numeric(bool(plain.get("integer", False)))
        if kind == "categorical":
            answer = self._prompt("All its levels, with commas between them", "")
            return Categorical(tuple(_listed(answer)), unseen="average")
        if kind == "date":
            low = self._prompt("Earliest date that can occur (- if not known)", "-").strip()
            high = "-" if low == "-" else self._prompt("Latest", "").strip()
            bounds = {} if low == "-" else {"low": low, "high": high}
            settings: Any = {"gaps": "average", "format": plain.get("format"), **bounds}
            return Date(**settings)
        if kind == "ignored":
            return Ignored(plain.get("reason", ""))
        return Hashed(gaps="average") if kind == "hashed" else Boolean(gaps="average")

    def _numeric(self, whole: bool) -> Column:
        low = self._prompt("Lowest number that can occur (- if not known)", "-").strip()
        if low == "-":
            return Numeric(gaps="average", integer=whole)  # the fit finds the bounds
        high = self._prompt("Highest", "").strip()
        return Numeric(float(low), float(high), gaps="average", integer=whole)


def _listed(answer: str) -> list[str]:
    return [text.strip() for text in answer.split(",") if text.strip()]
