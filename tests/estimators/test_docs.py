"""Docstrings and pages about pipelines: their examples run, and notebooks can display them."""

import doctest
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from discreet import HuberRegressor, LinearRegression, LinearSVC, LogisticRegression
from discreet.estimators import classifiers


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


DOCS = Path(__file__).parents[2] / "docs"


def blocks(page, kind):
    text = (DOCS / page).read_text("utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_schema_and_the_code_of_the_page_on_tables_run(tmp_path, monkeypatch):
    """Its first schema is read as it is, and each block of Python runs without a warning."""
    monkeypatch.chdir(tmp_path)
    rng, n = np.random.default_rng(3), 600
    frame = pd.DataFrame(
        {
            "patient_nbr": rng.integers(0, 300, n),
            "readmitted": rng.choice(["no", "yes"], n),
            "age": rng.uniform(17, 90, n),
            "balance": rng.lognormal(5, 1, n),
            "visits": rng.poisson(3, n),
            "job": rng.choice(["clerk", "nurse", "smith"], n),
            "diag_1": rng.choice(["250.83", "401", "786"], n),
            "diag_2": rng.choice(["a", "b", "c"], n),
            "id": np.arange(n),
            "admitted": pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 2000, n), "D"),
        }
    )
    (tmp_path / "visits.toml").write_text(blocks("tables.md", "toml")[0], "utf-8")
    (tmp_path / "icd9.txt").write_text("250\n401\n786\n", "utf-8")
    for folder in ("visits", "new"):
        (tmp_path / folder).mkdir()
        frame.to_parquet(tmp_path / folder / "part.parquet")
    written = []
    names = {"frame": frame, "write": lambda ids, labels: written.append((ids, labels))}
    found = blocks("tables.md", "python")
    assert len(found) == 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "All coefficients are 0")  # of few rows
        exec(compile(found[0], "tables.md", "exec"), names)
        assert names["model"][-1].guarantee_.unit == "person"
        names["model"] = names["model"][-1]
        for code in found[1:]:
            exec(compile(code, "tables.md", "exec"), names)
    assert sum(len(labels) for _, labels in written) == n


def test_the_pipeline_of_the_page_on_pipelines_runs(capsys):
    rng = np.random.default_rng(4)
    X = rng.uniform(0, 100, size=(20_000, 3))  # with fewer, scales are often far off
    X[rng.random(X.shape) < 0.1] = np.nan
    names = {"X": X, "y": (rng.random(20_000) < 0.5).astype(int)}
    (code,) = blocks("pipelines.md", "python")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "All coefficients are 0")  # the labels are random
        exec(compile(code, "pipelines.md", "exec"), names)
    assert "Together" in capsys.readouterr().out
