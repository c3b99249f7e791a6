"""Evaluations as text, HTML, plain data, a DataFrame and a figure."""

import json

import numpy as np
import pandas as pd
import pytest

import discreet
from discreet.estimators.measures import Calibration
from discreet.evaluation import Evaluation
from discreet.figures import Figure

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(3000, 2)), columns=["x", "z"])
    y = np.where(X.x + rng.logistic(size=3000) > 0, EVIL, "no")
    model = discreet.LogisticRegression(epsilon=3.0, classes=sorted(["no", EVIL])).fit(X, y)
    X["sex"] = pd.Categorical(rng.choice(["F", "<b>M</b>"], 3000))
    return discreet.evaluate(model, X, y, epsilon=1.0, by="sex")


def test_text_has_a_column_per_subgroup_and_the_promise(found):
    text = str(found)
    lines = text.splitlines()
    assert lines[0] == "Evaluation on 3,000 rows (with noise, ε = 1)"
    assert lines[1].split() == ["sex", "all", "<b>M</b>", "F"]
    [accuracy] = [line for line in lines if line.startswith("accuracy")]
    value = found.subgroups["F"].measures["accuracy"]
    noise = found.subgroups["F"].deviations["accuracy"]
    assert accuracy.endswith(f"{value:.4f} ± {noise:.4f}")
    assert "Confusion matrix" in text
    assert f"Calibration: probability of {found.labels[1]}" in text
    assert " ".join(text.split()).endswith(" ".join(found.promise.split()))
    assert repr(found) == text


def test_text_without_subgroups_or_noise():
    plain = Evaluation(1200, "person", {"mean absolute error": 1 / 3})
    assert str(plain).splitlines() == [
        "Evaluation on 1,200 people, each with a total weight of 1 (EXACT, NOT PRIVATE)",
        "measure                 value",
        "-----------------------------",
        "mean absolute error  0.333333",
    ]
    noisy = Evaluation(9, "row", {"AUC": float("nan")}, ("a", "b"), np.eye(2), (), {"AUC": np.nan})
    assert str(noisy).splitlines()[3].split() == ["AUC", "nan", "–"]


def test_html_escapes_every_text(found):
    page = found._repr_html_()
    assert "<script" not in page
    assert "<b>" not in page
    assert "&lt;b&gt;M&lt;/b&gt;" in page
    assert page.count("<table>") == 3
    assert "1-differentially private" in page


def test_plain_data_has_subgroups(found):
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["rows"] == 3000
    assert data["by"] == "sex"
    part = data["subgroups"]["F"]
    assert part["AUC"] == found.subgroups["F"].measures["AUC"]
    assert part["noise"]["AUC"] > 0
    assert "guarantee" not in part
    assert data["guarantee"]["epsilon"] == 1.0
    undefined = Evaluation(9, "row", {"AUC": float("nan")}).to_dict()
    assert undefined["AUC"] is None
    assert "subgroups" not in undefined


def test_frame_has_a_row_per_measure_and_subgroup(found):
    frame = found.to_frame()
    assert list(frame.columns) == ["sex", "measure", "value", "noise"]
    assert len(frame) == 3 * len(found.measures)
    whole = frame[frame.sex.isna()].set_index("measure")
    assert whole.value["AUC"] == found.measures["AUC"]
    assert whole.noise["AUC"] == found.deviations["AUC"]
    women = frame[frame.sex == "F"].set_index("measure")
    assert women.value["AUC"] == found.subgroups["F"].measures["AUC"]
    assert list(Evaluation(9, "row", {"AUC": 0.5}).to_frame()) == ["measure", "value", "noise"]


def test_calibration_is_drawn_with_a_curve_per_subgroup(found):
    figure = found.plot_calibration()
    assert isinstance(figure, Figure)
    assert figure._repr_png_().startswith(b"\x89PNG")
    [axes] = figure.axes
    curves = axes.get_lines()[1:]  # after the diagonal
    assert [curve.get_label() for curve in curves] == ["all", "<b>M</b>", "F"]
    drawn = curves[2].get_ydata()
    assert list(drawn) == [group.observed for group in found.subgroups["F"].calibration]
    plain = Evaluation(9, "row", {}, ("a", "b"), np.eye(2), (Calibration(0.0, 1.0, 0.4, 0.5, 9.0),))
    assert plain.plot_calibration().axes[0].get_legend() is None
    with pytest.raises(ValueError, match="two classes"):
        Evaluation(9, "row", {}).plot_calibration()
