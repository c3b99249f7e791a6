"""Tables: schemas of public knowledge, and reading and encoding rows by them.

    from discreet.tables import Schema

    schema = Schema.read("visits.toml")
    X, y, groups = schema.open("visits.csv")  # or a folder, a pandas table, a DuckDB relation, …

A `Schema` says what everybody may know: bounds, categories, the target. `schema.open`,
`schema.batches` and `schema.transformer()` encode rows by it alone. `draft` writes a skeleton of
one, `draft_private` estimates it within a budget.

pyarrow is imported when a table is read, not before.
"""

from discreet.tables.alignment import EncodedBlock, LevelCodes
from discreet.tables.columns import (
    Boolean,
    Categorical,
    Column,
    Date,
    Discovered,
    Hashed,
    Ignored,
    Numeric,
    Ordinal,
)
from discreet.tables.draft import draft, draft_private
from discreet.tables.queries import query
from discreet.tables.reader import Encoded, TableTransformer, batches, read
from discreet.tables.schema import About, FileFormat, Schema, Spent, Target
from discreet.tables.source import Source, source

__all__ = [
    "About", "Boolean", "Categorical", "Column", "Date", "Discovered", "Encoded", "EncodedBlock",
    "FileFormat", "Hashed", "Ignored", "LevelCodes", "Numeric", "Ordinal", "Schema", "Source",
    "Spent", "TableTransformer", "Target", "batches", "draft", "draft_private", "query", "read",
    "source",
]  # fmt: skip
