"""The catalogue: every entry is complete, and its numbers agree with the schemas."""

import pytest

from discreet_bench import datasets
from discreet_bench.datasets import catalogue

WIDTHS = {
    "adult": 105,
    "bank": 42,
    "credit-default": 33,
    "wine-quality": 12,
    "bike-sharing": 61,
    "banknote": 4,
    "occupancy": 6,
    "covertype": 54,
    "kddcup99": 122,
    "kddcup99-full": 122,
    "kddcup99-continuous": 34,
    "mnist": 784,
    "gisette": 5000,
}


@pytest.mark.parametrize("name", datasets.names())
def test_every_entry_is_complete(name):
    known = catalogue.entry(name)
    about = datasets.describe(name)
    for text in (about.title, about.about, about.licence, about.source, about.citation):
        assert text
        assert "\n" not in text
    assert about.place in ("generated", "download", "by hand")
    assert about.available is (about.place == "generated")
    assert about.rows > 0
    assert about.licence in str(about)
    assert f"{about.rows:,} rows × {about.features:,} columns" in str(about)
    assert known.derivation == "" or known.format == "text"
    for file in known.files:
        assert file.url == "" or file.url.startswith("https://")
        assert file.sha256 == "" or len(file.sha256) == 64
        assert file.split in (*known.splits, "all")
    for split, counts in known.counts.items():
        total = sum(known.rows.values()) if split == "all" else known.rows[split]
        assert sum(counts.values()) == total
        schema = datasets.schema(name)
        assert set(counts) == set(schema.target.labels if schema else known.labels)


@pytest.mark.parametrize(("name", "width"), WIDTHS.items())
def test_widths(name, width):
    schema = datasets.schema(name)
    assert schema.width == width
    assert not schema.unbounded
    assert datasets.describe(name).features == width


def test_every_set_of_the_papers_has_a_name():
    assert set(datasets.names()) >= {*WIDTHS, "ipums-us", "ipums-br", "real-sim", "rcv1"} | {
        "reuters",
        "synthetic-l",
        "synthetic-h",
        "sphere",
    }
