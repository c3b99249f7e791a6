import math
from xml.etree import ElementTree

import pytest

from discreet.audit.figure import figure, page
from discreet.audit.result import Audit, CurvePoint
from discreet.card.risk import approximate_bound

SVG = "{http://www.w3.org/2000/svg}"


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


def parsed(audits):
    return ElementTree.fromstring(figure(audits))


def lines(root, name):
    """The points of all lines of that class that stand in panels (not in the legend)."""
    found = [
        line.get("points")
        for panel in root.findall(f"{SVG}g")
        for line in panel.findall(f"{SVG}polyline")
        if line.get("class") == name
    ]
    return [[tuple(map(float, at.split(","))) for at in points.split()] for points in found]


def test_each_promise_has_one_panel_and_its_strongest_attack_has_the_dots():
    weaker, stronger = made(bound=0.2, pair="a flipped label"), made(bound=0.6)
    other = made("agd")
    replaced = made(relation="replace_one")
    ragged = made(bound=0.1, sharpness=math.inf)
    root = parsed([weaker, other, stronger, replaced, ragged])
    subjects = [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "subject"]
    assert subjects == ["gd", "agd", "gd"]
    assert len(lines(root, "measured")) == 3
    assert len(lines(root, "other")) == 1
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert "an extreme row" in texts
    assert "a flipped label" not in texts


def test_the_promised_line_is_the_bound_on_log_axes():
    root = parsed([made(epsilon=1.0, delta=1e-3)])
    ticks = [line for line in root.iter(f"{SVG}line") if line.get("y1") == "0"]
    left, right = (float(ticks[k].get("x1")) for k in (0, -1))
    decades = len(ticks) - 1
    bottom = max(float(line.get("y2")) for line in root.iter(f"{SVG}line"))
    for x, y in lines(root, "promise")[0]:
        fpr = 10 ** (decades * ((x - left) / (right - left) - 1))
        tpr = 10 ** (-decades * y / bottom)
        assert tpr == pytest.approx(approximate_bound(1.0, 1e-3, min(fpr, 1.0)), rel=0.01)


@pytest.mark.parametrize(("bound", "above"), [(0.5, False), (1.5, True)])
def test_a_promise_is_refuted_where_the_certified_line_is_above_it(bound, above):
    root = parsed([made(bound=bound)])
    certified, promised = lines(root, "certified")[0], lines(root, "promise")[0]
    assert certified[0][0] == promised[0][0]
    assert (certified[0][1] < promised[0][1]) == above  # up is small in SVG
    assert ("frame alarm" in figure([made(bound=bound)])) == above


def test_nothing_certified_draws_no_line():
    assert lines(parsed([made(bound=0.0)]), "certified") == []


def test_rates_of_a_few_hits_are_not_drawn():
    curve = [(0.0, 0.0), (0.0, 2e-5), (0.1, 0.2), (1.0, 1.0)]
    assert len(lines(parsed([made(curve=curve)]), "measured")[0]) == 2
    # caught for sure, though nobody was wrongly accused: drawn at the rarest rate that is known
    curve = [(0.0, 0.0), (0.0, 0.9), (1.0, 1.0)]
    first, last = lines(parsed([made(curve=curve, epsilon=8.0)]), "measured")[0]
    promised = lines(parsed([made(curve=curve, epsilon=8.0)]), "promise")[0]
    assert promised[0][0] < first[0] < last[0]


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0, 800.0])
def test_everything_stays_inside_its_panel(epsilon):
    root = parsed([made(epsilon=epsilon, bound=0.7 * epsilon, delta=0.0)])
    right, bottom = 226.05, 200.05
    for name in ("promise", "measured", "certified", "guess"):
        for x, y in lines(root, name)[0]:
            assert 0 <= x <= right
            assert 0 <= y <= bottom
            assert math.isfinite(x + y)


def test_the_description_tells_the_picture():
    root = parsed([made(bound=1.5), made("agd")])
    assert root.get("role") == "img"
    ids = {element.get("id") for element in root.iter()}
    assert set(root.get("aria-labelledby").split()) <= ids
    words = root.find(f"{SVG}desc").text
    assert "gd, add_remove, on an extreme row: refuted" in words
    assert "the attacker caught 1.7 %; the promise allows 2.82 %" in words  # 0.1 + 2.718


def test_names_cannot_break_the_picture_or_the_page():
    odd = made("<script>&\x1b[31m", pair='"\ud7ff' + "x" * 200)
    root = parsed([odd])
    assert "<script" not in figure([odd])
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert max(map(len, texts)) < 50
    assert "<script" not in page([odd], title="<script>")


def test_many_panels_fit_on_the_paper():
    for count in (1, 2, 3, 4, 7, 20):
        root = parsed([made(f"solver {k}") for k in range(count)])
        width, height = map(float, root.get("viewBox").split()[2:])
        places = set()
        for panel in root.findall(f"{SVG}g"):
            x, y = map(float, panel.get("transform")[len("translate(") : -1].split())
            assert x + 226 < width
            assert y + 200 < height
            places.add((x, y))
        assert len(places) == count


def test_the_page_has_picture_table_and_words():
    told = page([made(bound=1.5), made("agd")], title="Audit of all")
    assert told.startswith("<!doctype html>")
    assert told.count("<tr>") == 3
    assert "REFUTED: gd" in told
    assert "<svg" in told
    assert "<script" not in told


def test_nothing_cannot_be_drawn():
    with pytest.raises(ValueError, match="at least one"):
        figure([])
