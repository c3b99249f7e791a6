"""The figure of audits: its curves, labels and alternative text."""

import math
from xml.etree import ElementTree

import numpy as np
import pytest

from discreet.audit import Audit, CurvePoint, figure
from discreet.audit.figure import CERTIFIED, EVENT, LEGEND, MEASURED, OTHER, PROMISED

pytest.importorskip("matplotlib")


def made(subject="gd", *, bound=0.5, epsilon=1.0, delta=1e-3, trials=100_000, curve=None, **more):
    rates = (0.001, 0.01, 0.1, 0.5)
    given = {
        "pair": "an extreme row",
        "statistic": "the projection",
        "relation": "add_remove",
        "mu_bound": 0.2,
        "epsilon_if_gaussian": 0.6,
        "confidence": 0.999,
        "sharpness": 1.5 * epsilon,
        "trials_needed": None,
        "seconds": 1.0,
        "event": CurvePoint(0.01, 0.02),
    }
    points = curve or [(0.0, 0.0), *((r, min(1.0, 1.7 * r)) for r in rates), (1.0, 1.0)]
    return Audit(
        subject=subject,
        epsilon=epsilon,
        delta=delta,
        epsilon_bound=bound,
        trials=trials,
        curve=tuple(CurvePoint(*point) for point in points),
        **{**given, **more},
    )


def lines(axes, name):
    """The curves of a panel in the style of a legend entry."""
    style = LEGEND[name]
    return [
        line.get_xydata()
        for line in axes.get_lines()
        if line.get_color() == style["color"]
        and line.get_linestyle()
        == style.get("ls", "-").replace("", "None" if style.get("ls") == "" else "")
    ]


def panels(audits):
    return figure.draw(audits).axes


def test_one_panel_per_guarantee_with_its_strongest_attack():
    weaker, stronger = made(bound=0.2, pair="a flipped label"), made(bound=0.6)
    ragged = made(bound=0.1, sharpness=math.inf)
    drawn = panels([weaker, made("agd"), stronger, made(relation="replace_one"), ragged])
    assert [axes.texts[0].get_text() for axes in drawn] == ["gd", "agd", "gd"]
    assert [len(lines(axes, MEASURED)) for axes in drawn] == [1, 1, 1]
    assert [len(lines(axes, OTHER)) for axes in drawn] == [1, 0, 0]  # the ragged one is left out
    assert "an extreme row" in drawn[0].get_title("left")
    assert "a flipped label" not in drawn[0].get_title("left")


def test_axes_and_legend_are_labelled():
    drawn = figure.draw([made(), made("agd")])
    for axes in drawn.axes:
        assert (axes.get_xlabel(), axes.get_ylabel()) == (
            "false-positive rate",
            "true-positive rate",
        )
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    (legend,) = drawn.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        name for name in LEGEND if name != OTHER
    ]


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1.0, 1e-3), (0.01, 0.0), (20.0, 0.0), (800.0, 0.0)]
)
def test_the_promised_curve_bounds_both_errors(epsilon, delta):
    """TPR ≤ e^ε·FPR + δ, and 1 − FPR ≤ e^ε·(1 − TPR) + δ; one of them is attained."""
    (axes,) = panels([made(epsilon=epsilon, delta=delta, bound=0.7 * epsilon)])
    fpr, tpr = lines(axes, PROMISED)[0].T
    with np.errstate(over="ignore"):
        rise = np.minimum(np.exp(epsilon) * fpr + delta, 1.0)
    drop = 1 - np.exp(-epsilon) * (1 - fpr - delta)
    np.testing.assert_allclose(tpr, np.maximum(np.minimum(rise, drop), fpr), rtol=1e-9)
    for name in (PROMISED, MEASURED, CERTIFIED):
        points = lines(axes, name)[0]
        assert np.isfinite(points).all()
        assert (points <= 1).all()


@pytest.mark.parametrize(("bound", "above"), [(0.5, False), (1.5, True)])
def test_a_guarantee_is_refuted_where_the_certified_curve_is_above(bound, above):
    (axes,) = panels([made(bound=bound)])
    certified, promised = lines(axes, CERTIFIED)[0], lines(axes, PROMISED)[0]
    assert bool(certified[0, 1] > promised[0, 1]) is above
    assert (
        axes.spines["left"].get_edgecolor()[:3] == pytest.approx((0.64, 0, 0), abs=0.01)
    ) is above
    assert ("refuted" in axes.get_title("left")) is above
    assert [tuple(point) for point in lines(axes, EVENT)[0]] == [(0.01, 0.02)]


def test_nothing_certified_draws_no_curve():
    (axes,) = panels([made(bound=0.0)])
    assert lines(axes, CERTIFIED) == lines(axes, EVENT) == []


def test_rates_of_a_few_hits_are_not_drawn():
    curve = [(0.0, 0.0), (0.0, 2e-5), (0.1, 0.2), (1.0, 1.0)]
    (axes,) = panels([made(curve=curve)])
    assert len(lines(axes, MEASURED)[0]) == 2
    # all positives, though there was no false positive: drawn at the rarest known rate
    curve = [(0.0, 0.0), (0.0, 0.9), (1.0, 1.0)]
    (axes,) = panels([made(curve=curve, epsilon=8.0)])
    first, last = lines(axes, MEASURED)[0]
    assert axes.get_xlim()[0] < first[0] < last[0]


def parsed(audits):
    return ElementTree.fromstring(figure.svg(audits))


def test_the_description_states_the_results():
    root = parsed([made(bound=1.5), made("agd")])
    assert root.get("role") == "img"
    ids = {element.get("id") for element in root.iter()}
    assert set(root.get("aria-labelledby").split()) <= ids
    text = root.find("{http://www.w3.org/2000/svg}desc").text
    assert "gd, add_remove, an extreme row: refuted" in text
    assert "true-positive rate was 1.7 %; the guarantee allows 2.82 %" in text  # 0.1 + 2.718


def test_names_cannot_break_the_figure_or_the_page():
    odd = made("<script>&\x1b[31m$x", pair='"\ud7ff$\\frac' + "x" * 200)
    page = figure.page([odd], title="<script>\x1b")
    assert "<script" not in page
    assert "\x1b" not in page
    ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + len("</svg>")])


def test_panels_do_not_overlap():
    drawn = figure.draw([made(f"solver {k}") for k in range(5)])
    drawn.draw_without_rendering()
    boxes = [axes.get_tightbbox() for axes in drawn.axes]
    assert len(boxes) == 5
    for k, box in enumerate(boxes):
        assert box.x0 >= 0
        assert box.x1 <= drawn.bbox.x1
        assert not any(box.overlaps(other) for other in boxes[:k])


def test_the_page_has_figure_table_and_summary():
    page = figure.page([made(bound=1.5), made("agd")], title="Audit of all")
    assert page.startswith("<!doctype html>")
    assert page.count("<tr>") == 3
    assert "REFUTED: gd" in page
    assert "<svg" in page
    assert "<figcaption>" in page
    assert "<script" not in page


@pytest.mark.parametrize(
    ("ending", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<svg")]
)
def test_figures_are_saved_by_their_ending(tmp_path, ending, start):
    path = tmp_path / f"a.{ending}"
    figure.save([made()], path)
    assert path.read_bytes().startswith(start)


def test_nothing_cannot_be_drawn():
    with pytest.raises(ValueError, match="at least one"):
        figure.draw([])
