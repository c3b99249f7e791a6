"""Rules of a schema: the entry of the encoded table that a cell of each column becomes.

A rule is made of the schema alone. For texts it is a function of one cell, which `Encoder` calls
for each distinct cell, and a public table of entries; for numbers it is the declaration itself.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.tables.columns import SPACES, Boolean, Categorical, Hashed, Numeric, Ordinal
from discreet.tables.messages import Refusal
from discreet.tables.schema import Schema
from discreet.validate import FloatArray

MISSING = -1
"""Code of a missing cell."""

UNLISTED = -2
"""Code of a text that is not listed."""

NUMBER = r"(?i)^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)$"
"""Texts that are numbers."""

OTHER_TYPE = "column {name}: its cells are neither texts nor numbers; convert it to either."
"""Refusal of a column whose cells have no text."""

Problem: TypeAlias = Literal["missing", "not a number", "not a date", "unlisted", "unordered"]
"""Reasons to refuse a cell."""

_OF_CELLS: dict[Problem, str] = {
    "missing": "column {name}: a cell is missing; fill such cells in or leave those rows out, or "
    "allow it in the schema with missing = true, which adds a column that marks them.",
    "not a number": 'column {name}: a cell is not a number (kind = "numeric"). Correct such cells, '
    "or change the schema: if they stand for missing cells, add their text to missing in [file]; "
    'if texts are mistakes, write missing = true and invalid = "missing"; else declare the column '
    "as another kind.",
    "not a date": 'column {name}: a cell is not a date (kind = "date"), nor a text in ISO form '
    "such as 2015-01-31. Correct such cells, or change the schema: declare the "
    'form of the texts, such as format = "%d.%m.%Y"; if texts are mistakes, write missing = true '
    'and invalid = "missing".',
    "unlisted": "column {name}: a cell is not one of the listed values; correct such cells, or in "
    'the schema list every value that can occur, or leave out unseen = "refuse".',
    "unordered": "column {name}: a cell is not one of the listed texts; correct such cells, or "
    "list every text that can occur in the schema.",
}

_OF_TARGET: dict[Problem, str] = {
    "missing": "column {name}: a cell of the target is missing; leave such rows out.",
    "not a number": "column {name}: a cell of the target is not a number; correct such rows or "
    "leave them out, or give the target classes in place of low and high in the schema.",
    "unlisted": "column {name}: a cell of the target is not in any class; correct such rows or "
    'leave them out, or in the schema add their text to classes, or write other = "…", the label '
    "for all other texts.",
}

CodeOf: TypeAlias = Callable[[str, float | None], int]
"""Function from the text of a cell, and its number if it has a type of numbers, to a code."""


@dataclass(frozen=True, eq=False)
class Rule:
    """Rule for the cells of a column, or of the target if ``is_target``.

    Parameters
    ----------
    name, column
        Name and declaration of the column.
    markers
        Texts that mean a missing cell.
    listed
        Codes of the listed texts, and of the markers among them. Of two texts that are the same
        number, the first decides.
    places, values
        For each code the encoded column of the group (or the class), and the number in it. The
        last two entries are those of the negative codes.
    refused
        Codes that are refused.
    of_numbers
        True if cells are numbers, and not texts from a list.
    lenient
        True if a text that is not a number counts as missing.
    """

    name: str
    column: Any
    markers: tuple[str, ...]
    listed: dict[str, int] = field(default_factory=dict)
    places: NDArray[Any] = field(default_factory=lambda: np.zeros(2, dtype=np.int32))
    values: FloatArray = field(default_factory=lambda: np.ones(2))
    refused: frozenset[int] = frozenset()
    is_target: bool = False
    of_numbers: bool = False
    lenient: bool = False

    def refusal(self, problem: Problem) -> Refusal:
        """Return the refusal of a cell: it says what to do, and shows nothing of the cell."""
        texts = _OF_TARGET if self.is_target else _OF_CELLS
        if problem == "unlisted" and isinstance(self.column, Boolean | Ordinal):
            problem = "unordered"
        return Refusal(texts[problem], name=self.name)

    def reader(self, kind: str) -> CodeOf:
        """Return the code of a cell, for cells of a type of Arrow: by text, else by value.

        Numbers and truth values are compared by their text (3 and 3.0 with "3"), so that a table
        means the same whether it was stored with types or without. 3 finds "3.0" unless "3" is
        listed. 0.1 in single precision is the number nearest to it.
        """
        column = self.column
        if isinstance(column, Hashed) or (isinstance(column, Categorical) and column.prefix):
            is_float = kind in ("float", "double")
            return lambda text, value: self._code_of_part(text, value if is_float else None)
        meaning: Callable[[str], Any] = str
        if kind == "bool" or isinstance(column, Boolean):
            meaning = str.lower
        if kind.startswith(("int", "uint")):
            meaning = _whole_text
        elif kind.startswith(("float", "double", "decimal")):  # those of Arrow
            meaning = _single if kind == "float" else _finite
        by_value: dict[Any, int] = {}
        for key, code in self.listed.items():
            by_value.setdefault(meaning(key), code)
        by_value.pop(None, None)
        is_case = meaning is str.lower

        def code_of(text: str, value: float | None) -> int:
            if value is not None and math.isnan(value):
                return MISSING
            found = self.listed.get(text)
            if found is not None:
                return found
            if value is not None:
                return by_value.get(value, UNLISTED)
            return by_value.get(text.lower() if is_case else text, UNLISTED)

        return code_of

    def _code_of_part(self, text: str, value: float | None) -> int:
        """Return the code of the first letters of a text, or their hash."""
        whole = whole_text(text, value)
        if whole is None or self.listed.get(whole) == MISSING:
            return MISSING
        prefix = self.column.prefix
        part = whole if prefix is None else whole[:prefix].strip(SPACES)
        if isinstance(self.column, Hashed):
            return bucket(part, self.column.buckets)
        return self.listed.get(part, UNLISTED)


def column_rule(name: str, column: Any, markers: tuple[str, ...]) -> Rule:
    """Return the rule of a column that is encoded; ``markers`` mean a missing cell."""
    averaged = not column.missing and getattr(column, "gaps", "refuse") == "average"
    absent = frozenset() if column.missing or averaged else frozenset({MISSING})
    if isinstance(column, Numeric):
        lenient = column.invalid == "missing"
        return Rule(name, column, markers, refused=absent, of_numbers=True, lenient=lenient)
    if isinstance(column, Boolean | Ordinal):
        if isinstance(column, Boolean):
            texts = (*column.false, *column.true)
            values = np.repeat([0.0, 1.0], [len(column.false), len(column.true)])
        else:
            texts = column.values
            values = np.arange(len(texts)) / (len(texts) - 1)
        listed = dict.fromkeys(markers, MISSING)
        listed |= {text: code for code, text in enumerate(texts) if text not in markers}
        places = np.zeros(len(texts) + 2, dtype=np.int32)
        places[MISSING] = column.width - 1
        refused = absent | {UNLISTED}
        absent_as = math.nan if averaged else 1.0
        values = np.append(values, [0.0, absent_as])
        return Rule(name, column, markers, listed, places, values, refused)
    texts = column.values if isinstance(column, Categorical) else ()
    size = column.buckets if isinstance(column, Hashed) else len(texts)
    listed = {text: code for code, text in enumerate(texts)}
    listed |= {text: MISSING for text in markers if text not in listed}
    unseen = getattr(column, "unseen", "other")
    places = np.arange(size + 2, dtype=np.int32)
    places[UNLISTED] = size if unseen == "other" else 0
    places[MISSING] = column.width - 1
    values = np.ones(size + 2)
    values[UNLISTED] = unseen == "other"
    values[MISSING] = column.missing
    if unseen == "average":
        absent = frozenset()
    refused = absent | {UNLISTED} if unseen == "refuse" else absent
    return Rule(name, column, markers, listed, places, values, refused)


def target_rule(schema: Schema) -> Rule | None:
    """Return the rule of the target; its places are classes, by their index in the labels."""
    target = schema.target
    markers = schema.file.missing
    if target is None:
        return None
    tolerant = target.other is not None or target.invalid == "middle"
    refused = frozenset() if tolerant else frozenset({MISSING, UNLISTED})
    if not target.is_classification:
        lenient = target.invalid == "middle"
        of_cells = Rule(target.column, target, markers, refused=refused, is_target=True)
        return replace(of_cells, of_numbers=True, lenient=lenient)
    labels = {label: code for code, label in enumerate(target.labels)}
    texts = [text for listed in target.texts.values() for text in listed]
    classes = [labels[name] for name, listed in target.texts.items() for _ in listed]
    other = 0 if target.other is None else labels[target.other]
    places = np.array([*classes, other, other], dtype=np.min_scalar_type(-len(labels) - 2))
    listed = {text: code for code, text in enumerate(texts)}
    listed |= {text: MISSING for text in markers if text not in listed}
    values = np.ones(places.size)
    return Rule(target.column, target, markers, listed, places, values, refused, is_target=True)


def bucket(text: str, count: int) -> int:
    """Return the bucket of a text: the first 8 bytes of its BLAKE2b hash, modulo ``count``."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") % count


def whole_text(text: str, value: float | None) -> str | None:
    """Return the text of a cell; 3.0 is "3", and None stands for a number that is not finite."""
    if value is None:
        return text
    return text.removesuffix(".0") if math.isfinite(value) else None


def as_number(text: str) -> float | None:
    """Return the number that a text is, or None."""
    return float(text) if re.fullmatch(NUMBER, text, re.ASCII) else None


def _finite(text: str) -> float | None:
    number = as_number(text)
    return None if number is None or not math.isfinite(number) else number


def _single(text: str) -> float | None:
    """Return the number nearest to the one that a text is in single precision, or None."""
    with np.errstate(over="ignore"):
        number = _finite(text)
        rounded = math.inf if number is None else float(np.float32(number))
    return rounded if math.isfinite(rounded) else None


def _whole_text(text: str) -> str | None:
    """Return the typical text of a whole number ("3" for "3.0" or "03"), or None."""
    number = as_number(text)
    if number is None or not number.is_integer():
        return None
    # Large numbers lose digits as floats.
    return str(int(text)) if re.fullmatch(r"[+-]?\d+", text) else str(int(number))
