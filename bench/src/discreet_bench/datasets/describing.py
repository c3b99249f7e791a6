"""Descriptions of data sets, for a person who chooses one."""

from __future__ import annotations

import os
from dataclasses import dataclass

from discreet_bench.datasets.entries import entry
from discreet_bench.datasets.entries import schema as schema_of
from discreet_bench.datasets.sources import where

__all__ = ["Description", "describe"]


@dataclass(frozen=True)
class Description:
    """What is publicly known about a data set; printed, it is a page for a person.

    Attributes
    ----------
    name, title, about, task
        What it is and what is to be predicted.
    rows, features
        Its size once encoded. Where the publisher hands out what is asked for, the rows are those
        of the paper.
    papers, source, licence, citation, differs
        Who used it, where it comes from, and how the encoding here differs from the papers'.
    available
        Whether it can be loaded without a download.
    place
        The folder that holds its files, "generated", "download" or "by hand".
    """

    name: str
    title: str
    about: str
    task: str
    rows: int
    features: int
    papers: tuple[str, ...]
    source: str
    licence: str
    citation: str
    differs: str
    available: bool
    place: str

    def __str__(self) -> str:
        used = ", ".join(self.papers) or "no paper"
        return (
            f"{self.name}: {self.title}\n"
            f"  {self.about}\n"
            f"  {self.rows:,} rows × {self.features:,} columns, {self.task}; used by {used}\n"
            f"  source: {self.source}\n"
            f"  licence: {self.licence}\n"
            f"  cite: {self.citation}\n"
            f"  {self.differs}\n"
            f"  {'here' if self.available else 'to be had'}: {self.place}"
        )


def describe(name: str, *, data_dir: str | os.PathLike[str] | None = None) -> Description:
    """Describe a data set without reading it.

    Parameters
    ----------
    name : str
        One of `names`.
    data_dir : path, optional
        A folder to look in, as for `load`.
    """
    known, schema = entry(name), schema_of(name)
    width = schema.width if schema else known.features.count if known.features else 0
    place = where(known, data_dir)
    return Description(
        name=name,
        title=known.title,
        about=known.about,
        task=known.task,
        rows=sum(known.rows.values()) or known.rows_in_paper,
        features=width,
        papers=known.papers,
        source=known.source,
        licence=known.licence,
        citation=known.citation,
        differs=known.differs,
        available=place not in ("download", "by hand"),
        place=place,
    )
