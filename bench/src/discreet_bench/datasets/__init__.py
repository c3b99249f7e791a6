"""Data sets by name: what the papers used, from where, and encoded by public bounds and lists.

    from discreet_bench import datasets
    adult = datasets.load("adult")

`names` lists them. `describe` tells where each comes from, under which licence, and how its
encoding differs from the papers'. `schema` is that encoding, `load` gives the encoded rows and
`table` the cells. The facts stand in ``catalogue.toml``, the schemas in ``schemas/``.
"""

from discreet_bench.datasets.describing import Description, describe
from discreet_bench.datasets.entries import names, schema
from discreet_bench.datasets.loading import DataSet, load, table

__all__ = ["DataSet", "Description", "describe", "load", "names", "schema", "table"]
