"""Errors behind a door: nothing leaves but texts of the package with public names."""

import errno
import pickle
from pathlib import Path

import numpy as np
import pytest

from discreet.errors import TableError
from discreet.tables.messages import Refusal, door, instead, joined

pytest.importorskip("pyarrow")

SECRET = "SECRET-7391"
NAMES = ("age", "city")


def refused(action, names=NAMES, words=(), place=None):
    """Run an action behind a door, and return the error."""
    with pytest.raises(TableError) as caught, door(names, words, place):
        action()
    error = caught.value
    assert SECRET not in f"{error!s} {error!r} {error.args}"
    assert error.__cause__ is None
    assert error.__context__ is None
    return error


def fail(error):
    raise error


@pytest.mark.parametrize(
    "error",
    [
        ValueError(SECRET),
        KeyError(SECRET),
        TableError(SECRET),
        UnicodeDecodeError("utf-8", SECRET.encode(), 0, 1, SECRET),
        type("Odd", (Exception,), {"__str__": lambda _: SECRET})(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_every_other_error_is_replaced(error):
    found = refused(lambda: fail(error))
    assert type(found) is TableError
    assert "withheld" in str(found)
    assert type(error).__name__ in str(found)


def test_an_error_of_the_system_keeps_its_number_and_loses_its_text():
    with pytest.raises(OSError, match="No space") as caught, door(NAMES):
        raise OSError(errno.ENOSPC, SECRET, SECRET)
    assert caught.value.errno == errno.ENOSPC
    assert SECRET not in str(caught.value)
    with pytest.raises(MemoryError) as memory, door(NAMES):
        raise MemoryError(SECRET)
    assert SECRET not in str(memory.value)
    with pytest.raises(KeyboardInterrupt), door(NAMES):
        raise KeyboardInterrupt


def test_a_refusal_shows_names_of_the_schema():
    error = refused(lambda: fail(Refusal("column {name}: a cell is missing.", name="age")))
    assert str(error) == "column 'age': a cell is missing."
    at = Path("visits.csv")
    error = refused(lambda: fail(Refusal("lacks {names}.", names=["age", "city"])), place=at)
    assert str(error) == "visits.csv: lacks 'age', 'city'."


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal("column {name}: no.", name=SECRET),
        Refusal("lacks {names}.", names=["age", SECRET]),
        Refusal("is {name:plain}.", name=SECRET),
        joined([Refusal("column {name}", name="age"), Refusal("{name}.", name=SECRET)], ": "),
        Refusal("has {names}.", names=[SECRET], header=(SECRET, "other")),
    ],
    ids=str,
)
def test_a_refusal_with_another_name_is_withheld(refusal):
    assert "withheld" in str(refused(lambda: fail(refusal)))


def test_names_of_a_header_are_shown_if_most_of_the_schema_is_in_it():
    refusal = Refusal("has {names}.", names=["extra"], header=("age", "city", "extra"))
    assert str(refused(lambda: fail(refusal))) == "has 'extra'."
    record = Refusal("has {names}.", names=["extra"], header=("age", "x", "extra"))
    assert "withheld" in str(refused(lambda: fail(record)))


def test_words_that_were_asked_for_are_shown():
    refusal = Refusal("lacks {name}.", name="key")
    assert str(refused(lambda: fail(refusal), words=("key",))) == "lacks 'key'."


def test_an_outer_door_lets_out_what_an_inner_door_made():
    def inner():
        with door(("key",), place=Path("a.csv")):
            raise Refusal("column {name}: no.", name="key")

    error = refused(inner)
    assert str(error) == "a.csv: column 'key': no."
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_gaps_take_nothing_that_could_be_a_cell():
    for value in (3.5, {"age": 1}, b"age", object()):
        with pytest.raises(TypeError, match="a gap holds names"):
            Refusal("{value}", value=value)
    assert str(Refusal("{rows:row} in {path}", rows=1, path=Path("a"))) == "1 row in a"
    error = OSError(errno.ENOENT, SECRET)
    assert str(Refusal("({error})", error=error)) == "(No such file or directory)"


def test_a_library_is_replaced_by_what_the_caller_says():
    def read():
        with instead(Refusal("is damaged."), place=Path("b.csv")):
            raise ValueError(SECRET)

    assert str(refused(read)) == "b.csv: is damaged."


def test_numpy_does_not_warn_behind_a_door(recwarn):
    with door(NAMES):
        np.float64(1e308) * np.array([10.0])
    assert not recwarn.list


def test_ten_names_are_listed_and_the_others_counted():
    names = [f"c{number}" for number in range(12)]
    listed = ", ".join(repr(name) for name in names[:10])
    assert str(Refusal("{names}", header=names, names=names)) == f"{listed} and 2 more"
