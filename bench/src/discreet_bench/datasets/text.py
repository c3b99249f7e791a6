"""Text files of data sets as streams of columns, and columns that are derived from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from discreet.errors import TableError
from discreet.tables import Numeric, Schema
from discreet_bench.datasets.catalogue import Entry
from discreet_bench.datasets.sources import Found, open_found

__all__ = ["DERIVATIONS", "Derivation", "batches"]

_BLOCK = 4 << 20

Batch: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Derivation:
    """Public rule that turns a batch of a file into one of the schema, row by row.

    Attributes
    ----------
    derive
        Takes the columns of the file and the name of the part; returns those of the schema.
    before, after
        Columns of the file that the schema does not have, with their Arrow types, before and after
        those that both have.
    derived
        Columns of the schema that the file does not have.
    """

    derive: Callable[[Batch, str], Batch] = lambda batch, split: batch
    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    derived: tuple[str, ...] = ()


def raw_fields(rule: Derivation, schema: Schema) -> list[str]:
    """Return the names of a file's columns, in its order; the target is last."""
    own = [name for name in schema.file_names if name not in rule.derived]
    target = [] if schema.target is None else [schema.target.column]
    columns = [name for name in own if name not in target]
    return [*rule.before, *columns, *rule.after, *(name for name in target if name in own)]


def _wine(batch: Batch, split: str) -> Batch:
    """Add the colour, which is in the name of the file only."""
    rows = len(batch["quality"])
    return {**batch, "colour": pa.array(np.full(rows, split), pa.string())}


def _time_of_day(batch: Batch, split: str) -> Batch:
    """Turn ``YYYY-MM-DD hh:mm:ss`` into the time of day, as a share of 24 hours."""
    stamps = pc.strptime(batch.pop("date"), "%Y-%m-%d %H:%M:%S", "s", error_is_null=True)
    if stamps.null_count:
        raise TableError("column 'date': a cell is not a time like 2015-02-04 17:51:00.")
    seconds = pc.cast(stamps, pa.int64()).to_numpy(zero_copy_only=False)
    return {**batch, "time of day": pa.array((seconds % 86_400) / 86_400)}


_ONE_HOT = {"Wilderness_Area": 4, "Soil_Type": 40}


def _covertype(batch: Batch, split: str) -> Batch:
    """Turn each run of columns of 0 and 1 into one category."""
    for name, count in _ONE_HOT.items():
        flags = np.column_stack([batch.pop(f"{name}_{i}") for i in range(1, count + 1)])
        if not (np.isin(flags, (0, 1)).all() and (flags.sum(axis=1) == 1).all()):
            raise TableError(f"columns {name}_1 to {name}_{count}: one of them must be 1 in a row.")
        places = np.array([str(i) for i in range(1, count + 1)])
        batch[name] = pa.array(places[flags.argmax(axis=1)])
    return batch


_NO_INCOME = 9_999_998
"""IPUMS: this code and the next mean that the income is unknown or was not asked for."""


def _income_above(limit: float) -> Callable[[Batch, str], Batch]:
    def derive(batch: Batch, split: str) -> Batch:
        """Tell whether the income is above a limit; rows without one are left out."""
        income = batch.pop("INCTOT").to_numpy(zero_copy_only=False)
        stated = income < _NO_INCOME  # not true of NaN either
        kept = {name: values.filter(pa.array(stated)) for name, values in batch.items()}
        return {**kept, "income": pa.array(np.where(income[stated] > limit, "high", "low"))}

    return derive


DERIVATIONS: dict[str, Derivation] = {
    "": Derivation(),
    "wine": Derivation(_wine, derived=("colour",)),
    "occupancy": Derivation(
        _time_of_day, before={"row": "string", "date": "string"}, derived=("time of day",)
    ),
    "covertype": Derivation(
        _covertype,
        after={f"{name}_{i}": "int8" for name, k in _ONE_HOT.items() for i in range(1, k + 1)},
        derived=tuple(_ONE_HOT),
    ),
    "income_us": Derivation(_income_above(25_000), after={"INCTOT": "double"}, derived=("income",)),
    "income_br": Derivation(_income_above(300), after={"INCTOT": "double"}, derived=("income",)),
}
"""Derivations by name; "" changes nothing."""


def batches(
    known: Entry, found: Found, schema: Schema, rule: Derivation
) -> Iterator[dict[str, Any]]:
    """Yield the records of a file, block by block, as columns of the schema.

    Numbers come as float64 and everything else as text without the spaces around it.
    """
    with open_found(found) as stream:
        records = _records(known, found, schema, rule, stream)
        while True:
            batch, problem = _next(records, raw_fields(rule, schema))
            if problem is None and batch is not None:
                batch, problem = _derived(rule, batch, found.file.split)
            if problem is not None:  # raised here, so that it keeps nothing of Arrow's errors
                named = problem.startswith(str(found.path))
                raise TableError(problem if named else f"{found.path}: {problem}")
            if batch is None:
                return
            yield batch


def _next(records: Iterator[Batch], fields: list[str]) -> tuple[Batch | None, str | None]:
    """Return the next batch (None at the end), or what is wrong with the file."""
    try:
        return next(records, None), None
    except TableError as error:
        return None, str(error)
    except pa.ArrowKeyError:
        return None, f"the columns must be, among others, {_quoted(fields)}."
    except pa.ArrowInvalid as error:  # its text quotes cells
        return None, _explained(str(error), fields)


def _derived(rule: Derivation, batch: Batch, split: str) -> tuple[Batch | None, str | None]:
    """Return the columns of the schema, or what is wrong with those of the file."""
    try:
        return rule.derive(batch, split), None
    except TableError as error:
        return None, str(error)


def _records(
    known: Entry, found: Found, schema: Schema, rule: Derivation, stream: Any
) -> Iterator[Batch]:
    """Yield the columns as the file has them; errors are Arrow's own, which quote cells."""
    fields = raw_fields(rule, schema)
    types = {name: _type(name, schema, rule) for name in fields}
    reader = csv.open_csv(
        pa.PythonFile(stream, "r"),
        csv.ReadOptions(
            use_threads=False,
            block_size=_BLOCK,
            skip_rows=found.file.skip,
            column_names=None if known.header else fields,
        ),
        csv.ParseOptions(delimiter=schema.file.delimiter, quote_char=schema.file.quote or False),
        csv.ConvertOptions(
            check_utf8=False,
            column_types={name: pa.type_for_alias(kind) for name, kind in types.items()},
            null_values=["", "NA", "nan"],
            strings_can_be_null=False,
            include_columns=fields if known.extra else [],
            include_missing_columns=False,
        ),
    )
    names = reader.schema.names
    if set(names) != set(fields) or len(names) != len(fields):
        raise TableError(f"the columns must be {_quoted(fields)}.")
    for batch in reader:
        yield {
            name: pc.utf8_trim_whitespace(batch.column(name))
            if types[name] == "string"
            else batch.column(name)
            for name in fields
        }


def _type(name: str, schema: Schema, rule: Derivation) -> str:
    """Return the Arrow type of a column of a file."""
    extra = {**rule.before, **rule.after}
    if name in extra:
        return extra[name]
    numeric = isinstance(schema.columns.get(name), Numeric)
    if schema.target is not None and name == schema.target.column:
        numeric = not schema.target.is_classification
    return "double" if numeric else "string"


def _explained(message: str, fields: list[str]) -> str:
    """Say what went wrong, without the cells that Arrow quotes."""
    place = re.search(r"CSV column #(\d+)", message)
    if place and int(place.group(1)) < len(fields):
        return f"column {fields[int(place.group(1))]!r}: a cell is not a number."
    if "Empty CSV" in message:
        return "the file is empty."
    return f"every record must have {len(fields)} cells."


def _quoted(names: list[str]) -> str:
    return ", ".join(map(repr, names))
