"""Tables: schemas of public knowledge, and reading and encoding rows by them.

    from discreet.tables import Schema, read

    schema = Schema.read("visits.toml")
    X, y = read("visits.csv", schema)

A `Schema` says what everybody may know: bounds, categories, the target. `schema.transformer()` and
`read` encode rows by it alone. `draft` writes a skeleton of one, `draft_private` estimates it
within a budget.

pyarrow is imported when a table is read, not before.
"""

from discreet.tables.columns import Boolean, Categorical, Column, Ignored, Numeric, Ordinal
from discreet.tables.draft import draft, draft_private
from discreet.tables.reading import batches, read
from discreet.tables.schema import FileFormat, Schema, Spent, Target
from discreet.tables.transformer import TableTransformer

__all__ = [
    "Boolean",
    "Categorical",
    "Column",
    "FileFormat",
    "Ignored",
    "Numeric",
    "Ordinal",
    "Schema",
    "Spent",
    "TableTransformer",
    "Target",
    "batches",
    "draft",
    "draft_private",
    "read",
]
