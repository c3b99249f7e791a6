"""The proof page of the curator has a row for everything that the curator offers."""

import re
from inspect import signature
from pathlib import Path

import numpy as np

from discreet.core import Account, Budget, Curator, Noise
from discreet.rows import as_rows

PAGE = Path(__file__).parents[2] / "docs" / "proofs" / "curator.md"


def documented():
    """Names in the first column of the page's tables, without that of questions."""
    text = PAGE.read_text("utf-8")
    text = text.split("<!-- questions")[0] + text.split("<!-- end of questions -->")[1]
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def test_every_public_method_of_the_curator_has_a_row():
    rows = as_rows(np.zeros((1, 1)), np.zeros(1))
    curator = Curator(rows, Account(Budget(1.0, 1e-6, "add_remove")), Noise())
    assert documented() == {name for name in dir(curator) if not name.startswith("_")}


def test_a_question_states_its_privacy():
    for name in dir(Curator):
        method = getattr(Curator, name)
        if name.startswith("_") or not callable(method):
            continue
        if {"mechanism", "compute"} & signature(method).parameters.keys():
            assert "Privacy\n" in method.__doc__, name
