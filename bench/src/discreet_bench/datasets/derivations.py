"""Columns that are not in the files as the schema has them: made here, row by row.

Each derivation is a public rule that looks at one row at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discreet.errors import TableError
from discreet.tables.schema import Schema

__all__ = ["Derivation", "derivation", "raw_fields"]

Batch = dict[str, Any]


@dataclass(frozen=True)
class Derivation:
    """How a batch of a file becomes a batch of the schema.

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


def derivation(name: str) -> Derivation:
    """The derivation of that name; one that changes nothing for ""."""
    return _DERIVATIONS[name]


def raw_fields(rule: Derivation, schema: Schema) -> list[str]:
    """Names of the columns of a file, in its order; the target is last."""
    own = [name for name in schema.file_names if name not in rule.derived]
    target = [] if schema.target is None else [schema.target.column]
    columns = [name for name in own if name not in target]
    return [*rule.before, *columns, *rule.after, *(name for name in target if name in own)]


def _wine(batch: Batch, split: str) -> Batch:
    """The colour, which only the name of the file tells."""
    import pyarrow as pa

    rows = len(batch["quality"])
    return {**batch, "colour": pa.array(np.full(rows, split), pa.string())}


def _time_of_day(batch: Batch, split: str) -> Batch:
    """The time of day of ``YYYY-MM-DD hh:mm:ss``, as a share of 24 hours."""
    import pyarrow as pa
    import pyarrow.compute as pc

    stamps = pc.strptime(batch.pop("date"), "%Y-%m-%d %H:%M:%S", "s", error_is_null=True)
    if stamps.null_count:
        raise TableError("column 'date': a cell is not a time like 2015-02-04 17:51:00.")
    seconds = pc.cast(stamps, pa.int64()).to_numpy(zero_copy_only=False)
    return {**batch, "time of day": pa.array((seconds % 86_400) / 86_400)}


_ONE_HOT = {"Wilderness_Area": 4, "Soil_Type": 40}


def _covertype(batch: Batch, split: str) -> Batch:
    """One category for each run of columns of 0 and 1."""
    import pyarrow as pa

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
        """Whether the income is above a limit; rows without one are left out."""
        import pyarrow as pa

        income = batch.pop("INCTOT").to_numpy(zero_copy_only=False)
        stated = income < _NO_INCOME  # not true of NaN either
        kept = {name: values.filter(pa.array(stated)) for name, values in batch.items()}
        return {**kept, "income": pa.array(np.where(income[stated] > limit, "high", "low"))}

    return derive


_DERIVATIONS = {
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
