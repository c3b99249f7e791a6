"""Figures: what is drawn, how it looks, and that files are whole."""

import itertools
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from discreet_bench import figures, points
from discreet_bench.experiment import Experiment, Panels
from discreet_bench.lines import METHODS
from discreet_bench.runs import COLUMNS, TEXTS

EPSILONS = (0.1, 0.5, 1.0, 10.0)
BASE = {
    "experiment": "trial", "n": 32_561, "d": 108, "classes": 2, "loss": "logistic", "alpha": 1e-4,
    "epsilon": 1.0, "delta": 1e-6, "relation": "replace_one", "repeat": 0, "variant": "private",
    "tuning": "default", "calibration": "tight", "data": "adult", "seed": 0,
}  # fmt: skip


def frame(rows: list[dict]) -> pd.DataFrame:
    """Runs with all columns; a setting may be given as a dict."""
    table = pd.DataFrame([BASE | row for row in rows]).reindex(columns=list(COLUMNS))
    table["setting"] = table["setting"].map(lambda s: json.dumps(s) if isinstance(s, dict) else "")
    for name in TEXTS:
        table[name] = table[name].astype(object).where(table[name].notna(), "")
    return table


def trial(**panels) -> Experiment:
    return Experiment("trial", "A trial", "", "", (), (), Panels(**panels))


def comparison(data=2, epsilons=EPSILONS, methods=("agd", "amp", "sgd"), repeats=5, **more):
    """Methods whose accuracy grows with ε, the first one best; and two baselines."""
    rng = np.random.default_rng(0)
    names = [f"set{place}" for place in range(data)]
    rows = []
    for name, epsilon, (place, method), repeat in itertools.product(
        names, epsilons, enumerate(methods), range(repeats)
    ):
        accuracy = 0.9 - 0.1 / (1 + epsilon) - 0.01 * place + rng.normal(0, 0.001)
        row = {"data": name, "epsilon": epsilon, "method": method, "repeat": repeat}
        rows.append(row | {"accuracy": accuracy, "excess_objective": 1 - accuracy} | more)
    for name, epsilon, (method, accuracy), repeat in itertools.product(
        names, epsilons, (("nonprivate", 0.95), ("majority", 0.6)), range(repeats)
    ):
        row = {"data": name, "epsilon": epsilon, "method": method, "repeat": repeat}
        row |= {"variant": "not private", "calibration": ""}
        rows.append(row | {"accuracy": accuracy, "excess_objective": 0.95 - accuracy} | more)
    return frame(rows)


def only(runs, experiment):
    """The one figure of some runs, with what it shows."""
    ((_, shown, figure),) = figures.figures(runs, experiment)
    return shown, figure


def caption_of(figure) -> str:
    return figure.legends[0].get_title().get_text().replace("\n", " ")


def artists(axes, kind: str) -> list:
    return [line for line in axes.lines if (line.get_gid() or "").startswith(kind)]


@pytest.fixture(autouse=True)
def no_published(monkeypatch):
    monkeypatch.setattr(points, "published", lambda *cell, **more: {})


def test_files_are_written_and_no_figure_stays_open(tmp_path: Path):
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    written = figures.draw(comparison(data=1), trial(), tmp_path / "new")
    assert [path.name for path in written] == ["trial.svg", "trial.png", "trial.txt"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(
        path.name for path in written
    )
    assert plt.get_fignums() == before
    svg = written[0].read_text()
    assert "<text" in svg
    assert "Accuracy, %" in svg
    assert "32,561 × 108" in svg
    from PIL import Image

    with Image.open(written[1]) as picture:
        assert "A trial" in picture.info["Description"]
    assert written[1].stat().st_size < 300_000


def test_the_same_runs_give_the_same_svg(tmp_path: Path):
    runs = comparison(data=1)
    (one, _) = figures.draw(runs, trial(), tmp_path / "one", formats=["svg"])
    (two, _) = figures.draw(runs, trial(), tmp_path / "two", formats=["svg"])
    assert one.read_bytes() == two.read_bytes()


def test_one_figure_for_each_loss_and_relation(tmp_path: Path):
    runs = pd.concat(
        comparison(data=1, epsilons=(0.1, 1.0), loss=loss, relation=relation)
        for loss, relation in (("logistic", "add_remove"), ("hinge", "replace_one"))
    )
    written = figures.draw(runs, trial(), tmp_path, formats=["svg"])
    assert [path.name for path in written] == [
        "trial-hinge-replace_one.svg", "trial-hinge-replace_one.txt",
        "trial-logistic-add_remove.svg", "trial-logistic-add_remove.txt",
    ]  # fmt: skip


def test_panels_lines_and_references():
    shown, figure = only(comparison(), trial(measures=("accuracy", "excess_objective")))
    assert [axes.get_label() for axes in figure.axes] == [
        "accuracy: set0", "accuracy: set1", "excess_objective: set0", "excess_objective: set1",
    ]  # fmt: skip
    accuracy, _, excess, _ = figure.axes
    assert len(artists(accuracy, "line:")) == 3
    assert len(accuracy.collections) == 3  # a band each
    levels = sorted(line.get_ydata()[0] for line in artists(accuracy, "reference:"))
    assert levels == pytest.approx([60, 95])
    assert accuracy.get_xscale() == "log"
    assert accuracy.get_yscale() == "linear"
    assert excess.get_yscale() == "log"
    assert [label.get_text() for label in excess.get_xticklabels()] == ["0.1", "0.5", "1", "10"]
    (agd,) = artists(accuracy, "line:agd")
    assert agd.get_xdata().tolist() == list(EPSILONS)
    low, high = accuracy.get_ylim()
    assert low < 60
    assert high > 95
    titles = [text.get_text() for text in figure.legends[0].get_texts()]
    assert titles[:3] == ["DP-AGD", "AMP", "P-SGD"]  # the best first
    assert shown.keys["reference"].sum() == 2


def test_band_is_the_students_interval_and_none_for_one_repeat():
    runs = comparison(data=1)
    shown, _ = only(runs, trial())
    point = shown.points[shown.points["key"].str.startswith("agd") & (shown.points["x"] == 1)]
    values = runs.query("method == 'agd' and epsilon == 1")["accuracy"]
    half = student.ppf(0.975, 4) * values.std() / np.sqrt(5)
    assert point["mean"].item() == pytest.approx(values.mean())
    assert point["high"].item() - point["mean"].item() == pytest.approx(half)
    shown, figure = only(comparison(data=1, repeats=1), trial())
    assert len(figure.axes[0].collections) == 0
    assert "One run each." in caption_of(figure)


def test_few_repeats_are_shown_as_single_runs_without_a_band():
    runs = comparison(data=1, repeats=3)
    shown, figure = only(runs, trial())
    assert shown.points["low"].isna().all()
    dots = figure.axes[0].collections
    assert {one.get_gid() for one in dots} == {"runs"}
    drawn = np.concatenate([one.get_offsets()[:, 1] for one in dots])
    private = runs.loc[runs["variant"] == "private", "accuracy"]
    np.testing.assert_allclose(np.sort(drawn), np.sort(100 * private))
    assert "Small dots: single runs" in caption_of(figure)
    assert "bands" not in caption_of(figure)


def test_hollow_markers_are_what_is_not_private():
    runs = pd.concat([comparison(data=1), comparison(data=1, methods=("agd",), tuning="grid")])
    _, figure = only(runs, trial())
    faces = {
        line.get_gid(): line.get_markerfacecolor() for line in artists(figure.axes[0], "line:")
    }
    assert faces["line:agd||private|default|"] == METHODS["agd"].colour
    assert faces["line:agd||private|grid|"] == "white"


def test_the_best_of_a_grid_is_shown():
    rows = [
        {"method": "agd", "tuning": "grid", "setting": {"step": step}, "repeat": repeat,
         "epsilon": epsilon, "accuracy": 0.8 if (step == 1) == (epsilon == 1.0) else 0.7}
        for step in (1, 2) for epsilon in (0.1, 1.0) for repeat in range(3)
    ]  # fmt: skip
    shown, _ = only(frame(rows), trial())
    assert shown.points["mean"].tolist() == pytest.approx([0.8, 0.8])
    assert shown.points["count"].tolist() == [3, 3]


def test_a_parameter_on_the_x_axis_and_epsilons_as_lines():
    rows = [
        {"method": "agd", "setting": {"splits": splits}, "epsilon": epsilon, "repeat": repeat,
         "accuracy": 0.8 + 0.01 * epsilon, "objective": 0.5 - 0.01 * repeat}
        for splits in (20, 60, 100) for epsilon in EPSILONS for repeat in range(2)
    ]  # fmt: skip
    rows.append({"method": "nonprivate", "variant": "not private", "accuracy": 0.95})
    panels = {"x": "splits", "measures": ("accuracy", "objective"), "log_x": False}
    shown, figure = only(frame(rows), trial(**panels, lines=("epsilon",)))
    assert len(artists(figure.axes[0], "line:")) == 4
    assert len(artists(figure.axes[0], "reference:")) == 1
    assert figure.axes[1].get_xlabel() == "Splits"
    titles = [text.get_text() for text in figure.legends[0].get_texts()]
    assert titles[:4] == [f"DP-AGD, ε = {epsilon:g}" for epsilon in EPSILONS]
    colours = {line.get_color() for line in artists(figure.axes[0], "line:")}
    assert len(colours) == 4
    # what was not declared as a line is one all the same: a mean is over repeats only
    undeclared, _ = only(frame(rows), trial(**panels))
    assert list(undeclared.keys.index) == list(shown.keys.index)


def test_runs_on_their_way_have_deviations_and_log_x():
    rows = [
        {"method": method, "variant": variant, "setting": {"batch_size": size, "updates": at},
         "at": at, "repeat": repeat, "objective": 1 / at**0.5 + 0.1 * repeat}
        for method, variant in (("laplace-sgd", "private"), ("plain-sgd", "not private"))
        for size in (1, 10) for at in range(1, 41) for repeat in range(5)
    ]  # fmt: skip
    panels = {"x": "at", "measures": ("objective",), "lines": ("batch_size",)}
    shown, figure = only(frame(rows), trial(**panels))
    assert len(artists(figure.axes[0], "line:")) == 4
    assert not shown.keys["reference"].any()
    half = shown.points["high"] - shown.points["mean"]
    np.testing.assert_allclose(half, np.std([0, 0.1, 0.2, 0.3, 0.4], ddof=1))
    assert "± one standard deviation" in caption_of(figure)
    # against ε, a run's end counts
    ends, _ = only(frame(rows), trial(measures=("objective",), lines=("batch_size",)))
    np.testing.assert_allclose(ends.points["mean"], 1 / 40**0.5 + 0.2)


def test_published_numbers_are_marked_in_the_methods_colour(monkeypatch):
    asked = []

    def published(experiment, data, loss, epsilon, measure, *, alpha, at, relation):
        asked.append((experiment, data, loss, epsilon, measure, alpha, relation))
        return {"agd": 0.7, "nonprivate": 0.96, "opacus": 0.5} if data == "set0" else {}

    monkeypatch.setattr(points, "published", published)
    _, figure = only(comparison(), trial())
    assert ("trial", "set1", "logistic", 10.0, "accuracy", 1e-4, "replace_one") in asked
    marks = artists(figure.axes[0], "published")
    by_colour = {mark.get_markerfacecolor() for mark in marks}
    assert by_colour == {METHODS["agd"].colour, METHODS["nonprivate"].colour}
    assert sum(mark.get_ydata()[0] == pytest.approx(70) for mark in marks) == len(EPSILONS)
    assert sum(mark.get_ydata()[0] == pytest.approx(96) for mark in marks) == 1
    assert artists(figure.axes[1], "published") == []
    assert figure.legends[0].get_texts()[-1].get_text().startswith("published")


def test_published_numbers_stand_by_the_line_of_their_penalty(monkeypatch):
    monkeypatch.setattr(
        points, "published", lambda *cell, alpha, **more: {"agd": 0.7} if alpha == 0.1 else {}
    )
    runs = pd.concat([comparison(data=1, alpha=alpha) for alpha in (0.001, 0.1)])
    shown, figure = only(runs, trial(lines=("alpha",)))
    assert set(shown.published["key"]) == {"agd||private|default|alpha = 0.1"}
    colours = {mark.get_markerfacecolor() for mark in artists(figure.axes[0], "published")}
    (line,) = artists(figure.axes[0], "line:agd||private|default|alpha = 0.1")
    assert colours == {line.get_color()}


def test_published_numbers_stand_only_by_lines_that_are_there(monkeypatch):
    monkeypatch.setattr(points, "published", lambda *cell, **more: {"agd": 0.7, "amp": 0.71})
    runs = comparison(data=1)
    runs.loc[(runs["method"] == "amp") & (runs["epsilon"] < 1), "accuracy"] = np.nan
    shown, _ = only(runs, trial())
    places = shown.published.groupby("key")["x"].apply(sorted).to_dict()
    assert places == {
        "agd||private|default|": list(EPSILONS), "amp||private|default|": [1.0, 10.0],
    }  # fmt: skip


def crowd(**more):
    """Sixteen private methods, of which two are hopeless, and the baselines."""
    methods = [name for name in METHODS if METHODS[name].colour != METHODS["nonprivate"].colour]
    runs = comparison(data=1, methods=methods[:16], **more)
    runs.loc[runs["method"].isin(methods[14:16]), "accuracy"] -= 0.5
    return runs


def variants():
    """Four lines that are not a method's default form."""
    runs = [
        comparison(data=1, methods=("agd",), calibration="published"),
        comparison(data=1, methods=("amp",), tuning="grid"),
        comparison(data=1, methods=("sgd",), tuning="selected"),
        comparison(data=1, methods=("opacus",), variant="rival", calibration=""),
    ]
    return [part.query("method not in ('majority', 'nonprivate')") for part in runs]


def test_a_crowded_figure_is_cut_in_two():
    runs = pd.concat([crowd(), *variants()])
    made = {name: shown for name, shown, _ in figures.figures(runs, trial())}
    assert list(made) == ["trial", "trial-variants"]
    assert len(made["trial"].keys) == 18
    assert all(
        line.endswith(("||private|default", "||not private|default"))
        for line in made["trial"].keys["line"]
    )
    assert set(made["trial-variants"].keys["line"]) == {
        "auto||private|default", "nonprivate||not private|default", "agd|published|private|default",
        "amp||private|grid", "sgd||private|selected", "opacus||rival|default",
    }  # fmt: skip
    elsewhere = crowd().assign(data="set1")  # has no variants, and no panel among them
    wider = {n: s for n, s, _ in figures.figures(pd.concat([runs, elsewhere]), trial())}
    assert set(wider["trial"].data) == {"set0", "set1"}
    assert set(wider["trial-variants"].data) == {"set0"}
    few = pd.concat([comparison(data=1), *variants()])
    assert [name for name, *_ in figures.figures(few, trial())] == ["trial"]
    assert [name for name, *_ in figures.figures(crowd(), trial())] == ["trial"]  # no variants


def test_crowded_panels_show_what_matters():
    shown, figure = only(crowd(), trial())
    (axes,) = figure.axes
    low, high = axes.get_ylim()
    assert 57 < low < 60  # the majority's 60, not the hopeless 20
    assert 95 < high < 100
    caption = caption_of(figure).replace("\n", " ")
    assert "2 lines go below a panel and are cut there." in caption
    assert len(axes.collections) == 6  # bands
    assert ", of the first 6 lines of the legend only." in caption
    assert len(shown.keys) == 18
    # a line of low values that takes little room is shown whole
    mild = crowd()
    mild.loc[mild["accuracy"] < 0.5, "accuracy"] += 0.35
    _, figure = only(mild, trial())
    assert "below a panel" not in caption_of(figure)


def test_a_majority_far_below_does_not_press_the_lines_flat():
    runs = crowd()
    runs.loc[runs["method"] == "majority", "accuracy"] = 0.1
    _, figure = only(runs, trial())
    assert figure.axes[0].get_ylim()[0] > 60
    assert "4 lines go below" in caption_of(figure)


def test_no_axis_goes_beyond_all():
    runs = comparison(data=1)
    runs["accuracy"] = 0.9999 - 0.1 * (runs["accuracy"].max() - runs["accuracy"])
    runs.loc[runs["repeat"] == 0, "accuracy"] -= 0.01  # a band that reaches beyond 100 %
    shown, figure = only(runs, trial())
    assert shown.points["high"].max() > 1
    assert figure.axes[0].get_ylim()[1] == 100


def test_one_epsilon_makes_dots_by_method(monkeypatch):
    monkeypatch.setattr(points, "published", lambda *cell, **more: {"amp": 0.7})
    _, figure = only(comparison(epsilons=(1.0,)), trial())
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names[:3] == ["DP-AGD", "AMP", "P-SGD"]
    assert len(artists(figure.axes[0], "line:")) == 5
    assert len(artists(figure.axes[0], "published")) == 1
    assert figure.axes[0].get_xlabel() == "Accuracy, %"
    assert figure.axes[0].get_title() == "set0\n32,561 × 108\nε = 1"
    assert "bars: 95" in caption_of(figure)


def test_no_two_lines_look_the_same():
    kinds = [("private", "default", ""), ("private", "grid", ""), ("private", "selected", "")]
    kinds += [("private", "default", "published"), ("as released", "default", "published")]
    lines = [f"{m}|{c}|{v}|{t}" for m in METHODS for v, t, c in kinds]
    lines += [f"{m}-released||as released|default" for m in ("agd", "amp")]
    keys = pd.DataFrame({"line": lines, "extra": "", "reference": False}, index=lines)
    found = points.styles(keys).values()
    assert len({(look.colour, look.marker, look.dash) for look in found}) == len(lines)
    extras = pd.DataFrame(
        [(line, f"ε = {e}", False) for line in lines[:6] for e in range(5)],
        columns=["line", "extra", "reference"],
    )
    extras.index = extras["line"] + "|" + extras["extra"]
    found = points.styles(extras).values()
    assert len({(look.colour, look.marker, look.dash) for look in found}) == len(extras)


def test_many_methods_stay_on_the_page():
    methods = [name for name in METHODS if name not in ("nonprivate", "majority")][:18]
    measures = ("accuracy", "excess_objective")
    runs = comparison(data=5, methods=methods, repeats=2)
    _, figure = only(runs, trial(measures=measures))
    assert len(figure.axes) == 10
    width, height = figure.get_size_inches()
    assert width == 7
    assert height < 11
    figure.canvas.draw()
    legend = figure.legends[0].get_window_extent().transformed(figure.transFigure.inverted())
    assert 0 <= legend.x0 < legend.x1 <= 1
    lowest = min(axes.get_tightbbox().y0 for axes in figure.axes)
    assert legend.y1 * height * figure.dpi <= lowest
    assert legend.y0 >= 0


def test_failed_runs_and_missing_measures(tmp_path: Path):
    runs = comparison()
    failed = (runs["method"] == "amp") & (runs["data"] == "set1")
    runs.loc[failed, ["accuracy", "excess_objective"]] = np.nan
    runs.loc[failed, "problem"] = "did not converge"
    runs.loc[runs["method"] == "sgd", "accuracy"] = np.inf
    shown, figure = only(runs, trial(measures=("accuracy", "r2")))
    assert shown.measures == ("accuracy",)
    assert [len(artists(axes, "line:")) for axes in figure.axes] == [2, 1]
    assert f"{failed.sum()} of {len(runs)} runs gave no result" in caption_of(figure)
    runs.loc[runs["data"] == "set1", "accuracy"] = np.nan
    _, figure = only(runs, trial())
    assert figure.axes[1].texts[0].get_text() == "no result"
    assert figures.draw(runs.assign(accuracy=np.nan), trial(), tmp_path) == []
    assert figures.draw(runs.iloc[:0], trial(), tmp_path) == []
    assert figures.draw(runs.assign(experiment="another"), trial(), tmp_path) == []


def test_r2_that_is_hopeless_does_not_press_the_others_flat():
    rows = [
        {"method": method, "epsilon": epsilon, "r2": r2, "loss": "squared", "classes": 0}
        for method, r2 in (("agd", 0.6), ("amp", -300.0)) for epsilon in (0.1, 1.0)
    ]  # fmt: skip
    _, figure = only(frame(rows), trial(measures=("r2",)))
    assert -1 < figure.axes[0].get_ylim()[0] < 0
    assert "left out" in caption_of(figure)


def test_description_names_the_best_and_the_best_private(tmp_path: Path):
    tuned = comparison(data=1, methods=("auto",), tuning="grid")
    tuned["accuracy"] += 0.02
    runs = pd.concat([comparison(data=1), tuned[tuned["epsilon"] == 10.0]])
    (_, path) = figures.draw(runs, trial(), tmp_path, formats=["svg"])
    text = path.read_text()
    assert "against ε on a log scale" in text
    assert "at ε = 0.1 the best is DP-AGD (80.9)" in text
    assert "the best is discreet, tuned with hindsight, not private" in text
    assert "of the private ones DP-AGD" in text
    assert "Means of 5 repeats; bands: 95" in text


def test_what_is_not_known_is_refused(tmp_path: Path):
    runs = comparison(data=1, setting={"step": 1})
    with pytest.raises(ValueError, match="formats are svg, png, pdf"):
        figures.draw(runs, trial(), tmp_path, formats=["gif"])
    with pytest.raises(ValueError, match=r"'splits' is neither .* \(step\)"):
        figures.draw(runs, trial(x="splits"), tmp_path)
    with pytest.raises(ValueError, match="no measure 'speed'"):
        figures.draw(runs, trial(measures=("speed",)), tmp_path)
