"""The page of winners: the best method of each problem, with the interval of its lead."""

import pytest

from discreet_bench import which
from discreet_bench.runs import write

from .frames import repeated, together

MOST = {"method": "majority", "calibration": "", "variant": "not private"}


def rows():
    found = together(
        repeated([0.80, 0.81, 0.80, 0.82], method="amp"),
        repeated([0.70, 0.70, 0.71, 0.70], method="sgd"),
        repeated([0.99, 0.99, 0.99, 0.99], method="amp", calibration="published"),
        repeated([0.99, 0.99, 0.99, 0.99], method="amp", difference="with intercept"),
        repeated([0.99, 0.99, 0.99, 0.99], method="sgd", tuning="grid"),
        repeated([0.83, 0.83, 0.83, 0.83], method="auto", calibration=""),
        repeated([0.50, 0.50, 0.50, 0.50], **MOST),
        repeated([0.501, 0.502, 0.5, 0.5], method="amp", epsilon=0.01),
        repeated([0.500, 0.502, 0.501, 0.5], method="sgd", epsilon=0.01),
        repeated([0.50, 0.50, 0.50, 0.50], epsilon=0.01, **MOST),
    ).assign(experiment="auto-table")
    trained = repeated([0.99, 0.99, 0.99, 0.99], method="sgd", experiment="outpert-table3")
    fewer = repeated([0.99, 0.99, 0.99, 0.99], method="sgd", experiment="amp-fig2")
    return together(found, trained, fewer)


def test_the_winner_is_private_with_defaults_and_the_least_noise():
    found = which.winners(rows()).set_index("epsilon")
    best = found.loc[1.0]
    assert best["winner"].startswith("amp||private|default")
    assert best["lead"] == pytest.approx(0.105)
    assert best["low"] < best["lead"] < best["high"]
    assert best["default"] == 0.83
    assert best["learned"]
    assert not found.loc[0.01, "learned"]


def test_the_page_is_made_from_runs_alone(tmp_path):
    write(rows(), tmp_path / "runs.parquet")
    page = tmp_path / "page.md"
    which.main([str(tmp_path), "--write", str(page)])
    text = page.read_text()
    assert "## Loss logistic, add or remove a row" in text
    assert "| adult | 1,000 | 10 | 1 | AMP | 80.8 ± 1.5 | 10.5 ± " in text
    assert "nothing is learned" in text
    assert "| AMP | 1 |" in text
    assert "| up to 150 | above 0.2, up to 1 | 1 | 0 | AMP 1 (1 clear) | 1 of 1 |" in text
    assert "| 83.0 ± 0.0 |" in text  # the default
    which.main([str(tmp_path)])
