"""Data sets by name: those of the papers, encoded by public bounds and lists.

    from discreet_bench import datasets
    adult = datasets.load("adult")

`names` lists them. `describe` states source, licence and how the encoding differs from the
papers'. `schema` is that encoding, `load` returns the encoded rows and `table` the cells.
"""

from discreet_bench.datasets.catalogue import names, schema
from discreet_bench.datasets.loading import DataSet, Description, describe, load, table

__all__ = ["DataSet", "Description", "describe", "load", "names", "schema", "table"]
