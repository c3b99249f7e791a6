"""The page in a real browser: it loads alone, and what can be clicked does something."""

import pytest

from discreet_bench.report import report

from . import chromium
from .made_runs import NASTY, nasty

browser = pytest.mark.browser


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


LINES = "Number(document.getElementById('chart').dataset.lines)"
LABEL = "document.getElementById('chart').getAttribute('aria-label')"


@browser
def test_it_loads_alone_and_without_complaint(tab, path, tmp_path):
    tab.open(path)
    assert tab.complaints() == []
    assert tab.requests() == [path.as_uri()]
    assert 2 <= tab.run(LINES) <= 9
    assert tab.run("document.querySelectorAll('#chart .scatterlayer .trace').length") >= 2
    assert tab.run("document.querySelectorAll('#comparisons tbody tr').length") == 8
    shot = tab.screenshot(tmp_path / "report.png")
    assert shot[:8] == b"\x89PNG\r\n\x1a\n"
    tab.run("document.body.replaceChildren()")
    assert len(shot) > 5 * len(tab.screenshot(tmp_path / "blank.png"))


@browser
def test_the_answer_and_the_chart_are_on_the_first_screen(tab, path):
    tab.open(path)
    top = tab.run("document.getElementById('chart').getBoundingClientRect().top")
    assert top < 600
    assert "discreet's default" in tab.run("document.querySelector('h1').textContent")


@browser
def test_choices_change_the_chart(tab, path):
    tab.open(path)
    seen = {tab.run(LABEL)}
    for name, value in (
        ("problem", "logistic loss, replace a row"),
        ("data", "covertype"),
        ("measure", "Seconds per fit"),
    ):
        tab.choose(f"#{name}", value)
        seen.add(tab.run(LABEL))
    assert len(seen) == 4
    assert tab.run(LABEL) == "Seconds per fit: covertype, logistic loss, replace a row"
    assert tab.complaints() == []


@browser
def test_a_click_on_the_legend_shows_a_line(tab, path):
    tab.open(path)
    name = "DP-AGD, published constants"
    find = f"document.getElementById('chart').data.find(t => t.name === '{name}')"
    assert tab.run(f"{find}.visible") == "legendonly"
    legend = "[...document.querySelectorAll('#chart .legend .traces')]"
    item = f"{legend}.find(n => n.textContent === '{name}').querySelector('.legendtoggle')"
    for event in ("mousedown", "mouseup"):
        tab.run(f"{item}.dispatchEvent(new MouseEvent('{event}', {{bubbles: true}}))")
    tab.run("new Promise(f => setTimeout(f, 600))")
    assert tab.run(f"{find}.visible") is True
    struck = "[...document.querySelectorAll('#chart .legendtext')]"
    struck += ".filter(n => getComputedStyle(n).textDecorationLine !== 'none').length"
    assert tab.run(struck) == 0


@browser
def test_hidden_lines_have_a_pale_symbol_and_a_name_that_can_be_read(tab, path):
    tab.open(path)
    script = """[...document.querySelectorAll('#chart .legend .traces')].map(n => [
        getComputedStyle(n).opacity, getComputedStyle(n.querySelector('.layers')).opacity])"""
    found = tab.run(script)
    assert {text for text, _ in found} == {"1"}
    assert {symbol for _, symbol in found} == {"1", "0.25"}


@browser
def test_the_chart_ends_on_the_first_screen(tab, path):
    tab.open(path, width=1280, height=900)
    assert tab.run("document.getElementById('chart').getBoundingClientRect().bottom") <= 900


@browser
def test_a_phone_shows_that_tables_scroll(tab, path):
    hint = "getComputedStyle(document.querySelector('#comparisons .hint')).display"
    tab.open(path, width=390, height=844)
    assert tab.run(hint) == "block"
    shadow = "getComputedStyle(document.querySelector('#comparisons .wide')).backgroundAttachment"
    assert tab.run(shadow) == "local, local, scroll, scroll"
    wide = "(n => n.scrollWidth > n.clientWidth)(document.querySelector('#comparisons .wide'))"
    assert tab.run(wide) is True
    tab.open(path, width=1280, height=900)
    assert tab.run(hint) == "none"


@pytest.mark.parametrize("width", [360, 800, 1280])
@browser
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
  for (const node of document.querySelectorAll("body *:not(script, noscript, svg, svg *)")) {
    if (![...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const style = getComputedStyle(node);
    const [a, b] = [light(style.color), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push([node.tagName, node.className, node.textContent, ratio]);
  }
  return poor;
})()"""


@pytest.mark.parametrize("dark", [False, True])
@browser
def test_all_text_stands_out(tab, path, dark):
    tab.open(path, dark=dark)
    back = tab.run("getComputedStyle(document.body).backgroundColor")
    assert back == ("rgb(21, 24, 27)" if dark else "rgb(255, 255, 255)")
    assert tab.run(CONTRAST) == []


@browser
def test_nasty_names_do_nothing_in_a_browser(tab, runs, tmp_path):
    path = tmp_path / "nasty.html"
    runs = nasty(runs[runs["epsilon"] == 0.05])
    path.write_text(report(runs, title=NASTY, commands={"amp-fig1": NASTY}), encoding="utf-8")
    tab.open(path)
    assert tab.complaints() == []
    assert tab.requests() == [path.as_uri()]
    assert tab.run("document.querySelectorAll('img').length") == 0
    assert "<img src=x" in tab.run("document.getElementById('comparisons').textContent")
    assert "<img src=x" in tab.run("document.title")
