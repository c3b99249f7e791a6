"""Catalogue of the named data sets: facts from ``catalogue.toml``, schemas from ``schemas/``."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from discreet.tables import Numeric, Schema, Target

__all__ = ["WHOLE", "Entry", "Features", "SourceFile", "entry", "names", "nearest", "schema"]

WHOLE = "all"
"""The name of the only part of a data set that has no parts, and of all parts together."""


@dataclass(frozen=True)
class SourceFile:
    """One file of a data set.

    Attributes
    ----------
    name
        Name of the unpacked file; ``name``.gz, .xz and .bz2 are found as well.
    split
        The part of the data set that it belongs to ("train", …).
    archive
        The publisher's zip file that holds it, if there is one.
    url
        Address of the file or archive; "" if it must be fetched by hand.
    packed
        Compression of the download (".gz", …) where the address does not end with it.
    sha256
        Checksum of the unpacked content; "" if it is not known.
    skip
        Lines before the first record that are neither names nor records.
    """

    name: str
    split: str = WHOLE
    archive: str = ""
    url: str = ""
    packed: str = ""
    sha256: str = ""
    skip: int = 0


@dataclass(frozen=True)
class Features:
    """Columns that need no names of their own: how many, and the bounds they share."""

    count: int
    low: float | None = None
    high: float | None = None
    prefix: str = ""


@dataclass(frozen=True)
class Entry:
    """What is publicly known about a data set; see ``catalogue.toml``.

    Attributes
    ----------
    folder, schema_name
        Folder of its files below a data folder, and the file of its schema ("" if none).
    format
        Format of its files: "text", "idx", "gisette", "numbers", "svmlight", "rcv1" or
        "generated".
    derivation
        A name in `discreet_bench.datasets.text.DERIVATIONS`, "" if there is none.
    header, extra
        For text: whether a line of names comes first, and whether it may name more than needed.
    columns
        Number of columns in the files, the target among them; 0 if it is not fixed.
    rows, counts
        Rows of each part, and how often each label occurs in it.
    rows_in_paper
        Rows that a paper has, of a data set whose size is not fixed.
    highs
        Public upper bounds of columns without names, whose lower bounds are 0.
    """

    name: str
    title: str
    about: str
    task: str
    papers: tuple[str, ...]
    source: str
    licence: str
    citation: str
    differs: str
    format: str
    folder: str
    schema_name: str = ""
    by_hand: str = ""
    derivation: str = ""
    header: bool = False
    extra: bool = False
    columns: int = 0
    features: Features | None = None
    labels: tuple[str, ...] = ()
    max_norm: float | None = None
    files: tuple[SourceFile, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    rows_in_paper: int = 0
    highs: tuple[float, ...] = ()

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of its parts, in the order of the rows."""
        return tuple(self.rows) or (WHOLE,)

    def files_of(self, split: str | None) -> tuple[SourceFile, ...]:
        """Return the files that one part needs, or all of them."""
        if split is None:
            return self.files
        return tuple(file for file in self.files if file.split in (split, WHOLE))


def names() -> tuple[str, ...]:
    """Return the names of all data sets."""
    return tuple(_catalogue())


def entry(name: str) -> Entry:
    """Return the catalogue's entry of one data set."""
    if name not in _catalogue():
        raise ValueError(f"unknown data set {name!r}; {nearest(str(name), names())}")
    return _entry(name)


def nearest(given: str, known: Iterable[str]) -> str:
    """Suggest the most similar of some names."""
    known = list(known)
    (best,) = difflib.get_close_matches(given, known, n=1, cutoff=0.0)
    return f"did you mean {best!r}? Known: {', '.join(known)}."


@cache
def _catalogue() -> dict[str, dict[str, Any]]:
    text = resources.files(__package__).joinpath("catalogue.toml").read_text("utf-8")
    return tomllib.loads(text)


@cache
def _entry(name: str) -> Entry:
    facts = {"folder": name, "schema": name, **_catalogue()[name]}
    if "like" in facts:
        base = facts.pop("like")
        facts = {**_catalogue()[base], **facts, "folder": base}
    files = tuple(SourceFile(**file) for file in facts.pop("files", ()))
    schema_name, features = facts.pop("schema"), facts.pop("features", None)
    for key in ("papers", "labels", "highs"):
        facts[key] = tuple(facts.get(key, ()))
    return Entry(
        **{key: _one_line(value) for key, value in facts.items()},
        name=name,
        files=files,
        features=None if features is None else Features(**features),
        schema_name=schema_name if facts["format"] == "text" else "",
    )


def _one_line(value: Any) -> Any:
    return " ".join(value.split()) if isinstance(value, str) else value


@cache
def schema(name: str) -> Schema | None:
    """Return the public schema of a data set; None for words and generated columns."""
    known = entry(name)
    if known.schema_name:
        path = resources.files(__package__).joinpath("schemas", f"{known.schema_name}.toml")
        return Schema.from_toml(path.read_text("utf-8"), name=path.name)
    features = known.features
    if features is None or features.low is None:
        return None
    column = Numeric(features.low, features.high)
    columns = {f"{features.prefix}{i}": column for i in range(1, features.count + 1)}
    return Schema(columns, Target("label", known.labels))
