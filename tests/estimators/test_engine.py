"""A fit in five records: frozen, and with one place that opens accounts and makes noise."""

import ast
import dataclasses
from pathlib import Path

import pytest

from discreet.estimators import engine, method
from discreet.preparation import pipeline

SOURCE = Path(engine.__file__).parents[1]
PACKAGES = ("estimators", "preparation", "inference", "solvers")


def calls(source):
    """Return the names that a module calls."""
    functions = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    names = {node.id for node in functions if isinstance(node, ast.Name)}
    return names | {node.attr for node in functions if isinstance(node, ast.Attribute)}


def makers(*made):
    """Return the modules of the packages that make any of these objects by themselves."""
    modules = [path for package in PACKAGES for path in (SOURCE / package).glob("*.py")]
    assert len(modules) > 40
    return {path.name for path in modules if calls(path.read_text("utf-8")) & set(made)}


def test_calls_are_found_by_name_and_by_attribute():
    assert calls("Account(budget); core.Noise(bits); session.curator(rows)") == {
        "Account",
        "Noise",
        "curator",
    }


def test_accounts_curators_and_noise_are_made_by_a_session():
    assert makers("Account", "Curator", "Noise") == set()


@pytest.mark.parametrize(
    "record",
    [method.Settings, method.Method, pipeline.Prepared, engine.Fitted, engine.Statement],
    ids=lambda record: record.__name__,
)
def test_the_records_of_a_fit_are_frozen(record):
    assert record.__dataclass_params__.frozen
    one = object.__new__(record)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.changed = 1
