"""The page in a real browser: it loads alone, and what can be clicked does something."""

import re

import pytest

from discreet_bench.report import report

from . import chromium
from .frames import repeated, together
from .made_runs import NASTY, nasty


def test_a_browser_is_needed_only_where_it_must_be(monkeypatch):
    monkeypatch.setattr(chromium.shutil, "which", lambda name: None)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception):
        chromium.binary()
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception):
        chromium.binary()


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with chromium.browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture(scope="module")
def path(page, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


def picture(tab):
    return tab.run("document.querySelector('#chart-picture svg').outerHTML")


def test_it_loads_alone_and_without_complaint(tab, path, tmp_path):
    tab.open(path)
    assert tab.complaints() == []
    assert tab.requests() == [path.as_uri()]
    assert tab.run("document.querySelectorAll('#chart .line').length") == 16
    assert tab.run("document.querySelectorAll('#board tbody tr').length") == 8
    assert tab.run("document.querySelectorAll('#numbers tbody tr').length") > 40
    shot = tab.screenshot(tmp_path / "report.png")
    assert (tmp_path / "report.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    tab.run("document.body.replaceChildren()")
    assert len(shot) > 5 * len(tab.screenshot(tmp_path / "blank.png"))


def test_the_legend_switches_lines(tab, path):
    tab.open(path)
    button = "#legend button"
    line = "document.querySelectorAll('#chart .line[data-key=\"0|\"]').length"
    pressed = f"document.querySelector('{button}').getAttribute('aria-pressed')"
    assert (tab.run(line), tab.run(pressed)) == (1, "true")
    tab.click(button)
    assert (tab.run(line), tab.run(pressed)) == (0, "false")
    tab.click(button)
    assert (tab.run(line), tab.run(pressed)) == (1, "true")
    count = "document.querySelectorAll('#chart .line').length"
    tab.click("#none")
    assert tab.run(count) == 0
    assert "switch on a method" in picture(tab)
    tab.click("#all")
    everything = tab.run(count)
    tab.click("#only-private")
    assert 0 < tab.run(count) < everything
    assert tab.complaints() == []


def test_choices_and_scales_change_the_picture(tab, path):
    tab.open(path)
    seen = {picture(tab)}
    for step, act in enumerate(
        (
            lambda: tab.choose("#relation", "replace_one"),
            lambda: tab.choose("#data-set", "covertype"),
            lambda: tab.click("#log-x"),
            lambda: tab.click("#log-y"),
            lambda: tab.choose("#measure", "seconds"),
        ),
        start=2,
    ):
        act()
        seen.add(picture(tab))
        assert len(seen) == step
    assert tab.run("document.getElementById('log-x').getAttribute('aria-pressed')") == "false"
    assert "seconds of the fit over ε: covertype" in picture(tab)
    assert "replace a row" in tab.run("document.querySelector('#numbers caption').textContent")
    assert tab.complaints() == []


def test_the_legend_has_default_forms_first_and_scrolls(tab, path):
    tab.open(path, width=360, height=800)
    groups = tab.run("[...document.querySelectorAll('#legend .kind p')].map(p => p.textContent)")
    assert groups[:2] == ["Private, default form", "Private, published constants or tuned"]
    box = "document.getElementById('legend')"
    assert tab.run(f"{box}.scrollHeight") > tab.run(f"{box}.clientHeight")
    assert tab.run(f"{box}.clientHeight") <= 22 * 16
    variant = "#legend button[aria-pressed='false']"
    assert tab.run(f'document.querySelector("{variant}").textContent').startswith("DP-AGD, publ")


def test_of_many_lines_the_best_have_bands_and_hopeless_ones_are_cut(tab, runs, tmp_path):
    bad = (runs["method"] == "privgene") & (runs["variant"] == "private")
    spoilt = runs.assign(accuracy=runs["accuracy"].where(~bad, 0.1))
    path = tmp_path / "crowded.html"
    path.write_text(report(spoilt, title="t", commands={}), encoding="utf-8")
    tab.open(path)
    assert tab.run("document.querySelectorAll('#chart .band:not(.hidden)').length") == 6
    told = tab.run("document.getElementById('lost').textContent")
    below = int(re.search(r"(\d+) lines? goe?s? below the chart", told)[1])
    assert 1 <= below <= 4  # of 15, a quarter at most
    lowest = tab.run("document.querySelector('#chart .frame').getBoundingClientRect().bottom")
    marks = "[...document.querySelectorAll('#chart .mark')].map(m => m.getBoundingClientRect().y)"
    assert max(tab.run(marks)) < lowest
    hidden = "document.querySelector('#legend button[data-series=\"{}\"]')"
    key = tab.run("document.querySelector('#chart .band.hidden').dataset.key")
    tab.run(f"{hidden.format(key)}.dispatchEvent(new Event('mouseenter'))")
    near = "getComputedStyle(document.querySelector('#chart .band.near')).opacity"
    assert tab.run(near) == "0.12"
    tab.click("#none")
    tab.click("#legend button")
    assert tab.run("document.getElementById('lost').textContent") == ""


def test_accuracy_never_goes_beyond_all(tab, tmp_path):
    parts = [repeated([0.98, 1.0], epsilon=e) for e in (1.0, 2.0)]
    path = tmp_path / "full.html"
    path.write_text(report(together(*parts), title="t", commands={}), encoding="utf-8")
    tab.open(path)
    ticks = tab.run("[...document.querySelectorAll('#chart text')].map(t => Number(t.textContent))")
    assert max(tick for tick in ticks if tick) <= 100


def test_the_leaderboard_is_filtered(tab, path):
    tab.open(path)
    tab.choose("#board-data", "adult")
    tab.choose("#board-relation", "add_remove")
    assert tab.run("document.querySelectorAll('#board tbody tr').length") == 2
    assert tab.run("document.getElementById('board-count').textContent") == "2 of 8 comparisons"
    words = tab.run("document.getElementById('board').textContent")
    assert "significant" in words or "within chance" in words


def test_a_mark_tells_its_numbers_to_mouse_and_keys(tab, path):
    tab.open(path)
    tip = "document.getElementById('tip')"
    assert tab.run(f"{tip}.hidden") is True
    tab.run("document.getElementById('chart').scrollIntoView({behavior: 'instant'})")
    where = "document.querySelector('#chart .line .mark').getBoundingClientRect()"
    x, y = tab.run(f"(r => [r.left + r.width / 2, r.top + r.height / 2])({where})")
    tab.move(x, y)
    words = tab.run(f"{tip}.textContent")
    assert tab.run(f"{tip}.hidden") is False
    for part in ("ε = 0.05", "accuracy: ", "± ", "95 % interval", "5 repeats", "ε spent: "):
        assert part in words
    tab.move(2, 2)
    assert tab.run(f"{tip}.hidden") is True

    tab.run("document.getElementById('none').focus()")
    tab.press("Tab")
    assert tab.run("document.activeElement.id") == "chart"
    first = tab.run(f"{tip}.textContent")
    assert first.startswith("discreet")
    tab.press("ArrowRight")
    second = tab.run(f"{tip}.textContent")
    assert second.startswith("discreet")
    assert "ε = 0.1" in second
    tab.press("ArrowUp")
    assert tab.run(f"{tip}.textContent") != second
    tab.press("Escape")
    assert tab.run(f"{tip}.hidden") is True
    assert tab.run(f"{tip}.getAttribute('aria-live')") == "polite"


def test_wide_bands_do_not_squeeze_the_lines(tab, tmp_path):
    def height(spread):
        near = [repeated([0.8, 0.9], method="agd", epsilon=epsilon) for epsilon in (1.0, 2.0)]
        low = repeated([0.7 - spread, 0.7 + spread], method="gd", epsilon=1.0)
        path = tmp_path / f"{spread}.html"
        path.write_text(report(together(*near, low), title="t", commands={}), encoding="utf-8")
        tab.open(path)
        marks = "[...document.querySelectorAll('#chart .mark')]"
        places = tab.run(f"{marks}.map(mark => mark.getBoundingClientRect().y)")
        return max(places) - min(places)

    assert height(0.3) > 150  # two repeats: an interval of the mean from -3.1 to 4.5
    assert height(0.3) == pytest.approx(height(0.2), abs=1)


@pytest.mark.parametrize("width", [360, 800, 1280])
def test_the_page_never_scrolls_sideways(tab, path, width):
    tab.open(path, width=width, height=800)
    tab.run("document.querySelectorAll('details').forEach(d => { d.open = true })")
    tab.settle()
    assert tab.run("document.documentElement.scrollWidth") <= width


CONTRAST = """(() => {
  const parse = (c) => c.match(/[\\d.]+/g).map(Number);
  const light = (c) => parse(c).slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (parse(colour)[3] !== 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const poor = [];
  document.querySelectorAll("details").forEach((d) => { d.open = true; });
  for (const node of document.querySelectorAll("body *:not(script, noscript, title, desc)")) {
    if (![...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const style = getComputedStyle(node);
    const [a, b] = [light(node.closest("svg") ? style.fill : style.color), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push([node.tagName, node.className, node.textContent, ratio]);
  }
  return poor;
})()"""


@pytest.mark.parametrize("dark", [False, True])
def test_all_text_stands_out(tab, path, dark):
    tab.open(path, dark=dark)
    back = tab.run("getComputedStyle(document.body).backgroundColor")
    assert back == ("rgb(21, 24, 27)" if dark else "rgb(255, 255, 255)")
    assert tab.run(CONTRAST) == []


def test_nasty_names_do_nothing_in_a_browser(tab, runs, tmp_path):
    path = tmp_path / "nasty.html"
    runs = nasty(runs[runs["epsilon"] == 0.05])
    path.write_text(report(runs, title=NASTY, commands={"amp-fig1": NASTY}), encoding="utf-8")
    tab.open(path)
    assert tab.complaints() == []
    assert tab.requests() == [path.as_uri()]
    assert tab.run("document.querySelectorAll('img').length") == 0
    assert "<img src=x" in tab.run("document.getElementById('legend').textContent")
    assert "<img src=x" in tab.run("document.getElementById('board').textContent")
    assert "<img src=x" in tab.run("document.title")
