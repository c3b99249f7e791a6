"""Docstrings and pages about pipelines: their examples run, and notebooks can display them."""

import doctest
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from discreet import HuberRegressor, LinearRegression, LinearSVC, LogisticRegression
from discreet.estimators import classifiers
from discreet.tables import Schema


def test_examples_in_docstrings():
    result = doctest.testmod(classifiers)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("kind", [HuberRegressor, LinearRegression, LinearSVC, LogisticRegression])
def test_a_notebook_displays_an_estimator_without_warnings(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in (kind(), kind(epsilon=0.5, data_norm=1.0)):
            assert kind.__name__ in model._repr_html_()


def test_the_warning_about_target_bounds_is_true():
    """Without bounds no target is clipped: a fit finds a mean far above 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 2))
    y = 5.8 + 0.8 * (X @ [1.0, -0.5] + rng.normal(size=5000))
    with pytest.warns(UserWarning, match="target_bounds") as caught:
        model = LinearRegression(epsilon=10.0, random_state=0).fit(X, y)
    assert 5 < model.intercept_ < 6.5
    (warning,) = (str(each.message) for each in caught if "target_bounds" in str(each.message))
    assert "no target is clipped" in warning


TABLES = Path(__file__).parents[2] / "docs" / "tables.md"


def test_the_schema_of_the_page_on_tables_is_valid(tmp_path):
    """It is read as it is; what the page does in Python is run by tests/docs/test_outputs.py."""
    (text,) = re.findall(r"^```toml\n(version.*?)^```$", TABLES.read_text("utf-8"), re.M | re.S)
    (tmp_path / "visits.toml").write_text(text, "utf-8")
    (tmp_path / "icd9.txt").write_text("250\n401\n786\n", "utf-8")
    schema = Schema.read(tmp_path / "visits.toml")
    assert schema.unit == "patient_nbr"
    assert list(schema.columns)[:2] == ["age", "balance"]
