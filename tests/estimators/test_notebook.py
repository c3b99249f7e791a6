"""What notebooks and terminals show: representations, traces, bars and cards."""

import io
import re
import sys
import types
import warnings
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib.figure
import numpy as np
import pytest

from discreet import LinearRegression, LogisticRegression, PrivacyError
from discreet.audit.figure import draw
from discreet.audit.result import Audit
from discreet.estimators import trace
from discreet.estimators.trace import Bar, Trace
from discreet.page import note, table
from discreet.solvers import Progress, TraceEntry
from discreet.solvers.gd import GradientStep
from discreet.tables.columns import Categorical, Ignored, Numeric
from discreet.tables.declarations import Spent, Target
from discreet.tables.schema import Schema
from discreet.tuning import tune
from discreet.tuning.plan import Forecast, Planned


class Balanced(HTMLParser):
    """Check that all tags are closed; collect the text."""

    void = ("input", "br", "meta", "link")

    def __init__(self, html):
        super().__init__()
        self.open, self.text = [], ""
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def fitted(binary):
    return LogisticRegression(1.0, classes=["no", "yes"]).fit(*binary)


@pytest.fixture(scope="module")
def one_vs_rest(three_classes):
    return LogisticRegression(1.0, classes=[0, 1, 2], solver="agd").fit(*three_classes)


# ---- representations


def test_a_fitted_estimator_displays_without_warnings(fitted):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "LogisticRegression" in fitted._repr_html_()


def test_a_guarantee_displays_its_promise_and_details(fitted, binary):
    shown = Balanced(fitted.guarantee_._repr_html_())
    assert shown.text.startswith("ε = 1, δ = 1e-06This fit is (ε = 1, δ = 1e-06)")
    assert "Mechanisms:" in shown.text
    with pytest.warns(UserWarning, match="random_state"):
        seeded = LogisticRegression(1.0, classes=["no", "yes"], random_state=0).fit(*binary)
    html = seeded.guarantee_._repr_html_()
    assert Balanced(html).text.startswith("Not privateTEST MODE")
    assert "#c0392b" in html
    assert "#c0392b" not in fitted.guarantee_._repr_html_()


def test_a_schema_displays_its_columns_as_text():
    schema = Schema(
        {"age": Numeric(0, 120), "<b>": Categorical(["<i>x</i>", "y"]), "id": Ignored("an id")},
        target=Target("ill", classes={"no": ["0"], "yes": ["1"]}),
        spent=Spent(0.5, 1e-7, "add_remove"),
        unit="patient",
    )
    html = schema._repr_html_()
    shown = Balanced(html).text
    for part in ("patient", "ill", "0 to 120", "<i>x</i>", "an id", "cost ε = 0.5"):
        assert part in shown
    assert "<b>" not in html
    many = Schema({f"x{j}": Numeric(0, 1) for j in range(100)})
    assert "… and 40 more columns" in many._repr_html_()


AUDIT = {
    "subject": "<gd>", "pair": "p", "statistic": "s", "epsilon": 1.0, "delta": 1e-6,
    "relation": "add_remove", "epsilon_bound": 0.9, "mu_bound": 0.1, "confidence": 0.95,
    "epsilon_if_gaussian": 0.9, "trials": 10_000, "sharpness": 1.1, "trials_needed": None,
    "seconds": 2.0,
}  # fmt: skip


def test_an_audit_displays_its_verdict():
    html = Audit(**AUDIT)._repr_html_()
    assert "Audit of <gd>: consistent" in Balanced(html).text
    assert "ε ≥ 0.9" in html
    assert "#c0392b" not in html
    assert "#c0392b" in Audit(**AUDIT | {"epsilon_bound": 2.0})._repr_html_()


def test_tables_and_notes_escape_texts():
    html = table(["<a>"], [["<script>"]], caption="&") + note("<t>", "<p>")
    assert "<script>" not in html
    assert Balanced(html).text == "&<a><script><t><p>"


def test_a_card_of_a_model_is_that_of_the_function(fitted):
    made = fitted.card(title="Visits")
    assert "Visits" in made.title
    assert made._repr_html_().startswith("<iframe")
    with pytest.raises(Exception, match="not fitted"):
        LogisticRegression().card()


# ---- traces


def test_a_trace_is_a_tuple_and_a_table(fitted, one_vs_rest):
    assert isinstance(fitted.trace_, tuple)
    records = one_vs_rest.trace_.records()
    assert [r["iteration"] for r in records if r["model"] == 2][:3] == [1, 2, 3]
    shown = Balanced(fitted.trace_._repr_html_()).text
    assert f"Trace of a fit: {len(fitted.trace_)} iterations" in shown
    assert shown.count("…") == len(records[0]) - 3  # model, iteration, step, gradient_norm
    assert "no iteration" in Trace(())._repr_html_()


def test_a_trace_is_a_data_frame(fitted):
    pytest.importorskip("pandas")
    frame = fitted.trace_.to_frame()
    assert list(frame.columns) == ["model", "iteration", "step", "gradient_norm"]
    assert len(frame) == len(fitted.trace_)


def test_a_trace_is_a_figure(fitted, one_vs_rest, regression, binary):
    pytest.importorskip("matplotlib")
    titles = [panel.get_title() for panel in fitted.plot_trace().axes if panel.get_title()]
    assert titles == ["gradient norm"]  # the step does not change
    figure = one_vs_rest.plot_trace()
    assert len(figure.axes[0].lines) == 3
    assert "released numbers only" in figure.get_suptitle()
    model = LinearRegression(1.0, target_bounds=(0, 100)).fit(*regression)
    assert model.plot_trace().axes
    once = LogisticRegression(1.0, classes=["no", "yes"], solver="objpert", data_norm=3.0)
    assert once.fit(*binary).plot_trace().axes
    once.trace_ = Trace(())
    with pytest.raises(ValueError, match="nothing to draw"):
        once.plot_trace()


# ---- bars


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_verbose_writes_a_bar_to_a_terminal(binary, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(trace, "PAUSE", 0.0)
    model = LogisticRegression(1.0, classes=["no", "yes"], verbose=True).fit(*binary)
    states = screen.getvalue().split("\r")[1:]
    shares = [int(re.search(r"(\d+) %", state)[1]) for state in states]
    assert len(states) == len(model.trace_) + 1
    assert shares == sorted(shares)
    assert 0 < shares[0] < 50
    assert shares[-1] == 100
    assert states[-1].endswith("s\n")
    assert "LogisticRegression ████" in states[-1]
    assert f"{len(model.trace_)} iterations" in states[-1]


def test_verbose_writes_one_line_where_nobody_watches(three_classes, capsys):
    LogisticRegression(1.0, classes=[0, 1, 2], solver="agd", verbose=1).fit(*three_classes)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert "\r" not in shown.err


def test_a_bar_shows_public_and_paid_numbers_only(binary, capsys):
    """The same on other labels: shares and iterations are planned before a row is read."""
    X, y = binary
    lines = []
    for labels in (y, np.where(np.arange(len(y)) % 2, "no", "yes")):
        LogisticRegression(1.0, classes=["no", "yes"], verbose=True).fit(X, labels)
        lines.append(re.sub(r"[\d.]+ s$", "", capsys.readouterr().err.strip()))
    assert lines[0] == lines[1]


def test_a_failed_fit_leaves_the_bar_where_it_was(binary, capsys):
    def stop(at):
        raise RuntimeError("enough")

    model = LogisticRegression(1.0, classes=["no", "yes"], verbose=True, progress=stop)
    with pytest.raises(RuntimeError, match="enough"):
        model.fit(*binary)
    assert "100 %" not in capsys.readouterr().err


def test_verbose_is_a_switch(binary):
    with pytest.raises(ValueError, match="verbose"):
        LogisticRegression(1.0, verbose="yes").fit(*binary)


def test_a_notebook_gets_one_display_that_is_updated(binary, monkeypatch, capsys):
    shown = []

    class Handle:
        def update(self, bar):
            shown.append(("update", bar._repr_html_()))

    def display(bar, display_id):
        shown.append(("display", bar._repr_html_()))
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    package = types.ModuleType("IPython")
    package.get_ipython = lambda: shell
    package.display = types.ModuleType("IPython.display")
    package.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", package.display)
    monkeypatch.setattr(trace, "PAUSE", 0.0)
    LogisticRegression(1.0, classes=["no", "yes"], verbose=True).fit(*binary)
    assert [kind for kind, _ in shown].count("display") == 1
    assert 'value="100.0"' in shown[-1][1]
    Balanced(shown[-1][1])
    assert capsys.readouterr().err == ""


def test_a_bar_of_several_models_goes_from_the_preparation_to_the_end():
    bar = Bar("x", 2, 0.2, io.StringIO())
    entry = GradientStep(step=1.0, gradient_norm=1.0)
    assert isinstance(entry, TraceEntry)
    bar(Progress(entry, np.zeros(1), 0.5))
    assert bar.share == pytest.approx(0.2 + 0.8 * 0.25)
    early = Bar("x", 2, 0.2, io.StringIO())
    early(Progress(entry, np.zeros(1), 0.5))
    early.finish()  # what a fit left over cannot be spent again
    assert early.share == 1.0
    bar(Progress(GradientStep(step=1.0, gradient_norm=1.0, model=1), np.zeros(1), 1.0))
    assert bar.share == pytest.approx(1.0)


def test_tuning_refuses_a_bar(binary):
    model = LogisticRegression(1.0, classes=["no", "yes"], solver="gd", data_norm=3.0, verbose=True)
    with pytest.raises(PrivacyError, match="verbose=False"):
        tune(model, *binary, grid=[{"alpha": 1e-4}, {"alpha": 1e-3}])


# ---- figures


PLANNED = Planned(1.0, 0.3, 0.7, 0.8, 0.2, 0.1, 0.5, 0.0)
FIGURES = {
    "coefficients": lambda model: model.plot_coefficients(),
    "effects": lambda model: model.plot_effects(),
    "trace": lambda model: model.plot_trace(),
    "plan": lambda model: Forecast(
        1000, 3, "classification", 1e-6, "add_remove", (PLANNED, replace(PLANNED, epsilon=2.0))
    ).plot(),
    "audit": lambda model: draw([Audit(**AUDIT)]),
}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_displays_itself(name, fitted):
    """A notebook asks for `_repr_png_` where no backend of pyplot was activated."""
    pyplot = sys.modules.pop("matplotlib.pyplot", None)
    try:
        figure = FIGURES[name](fitted)
        image = figure._repr_png_()
        assert "matplotlib.pyplot" not in sys.modules
    finally:
        if pyplot is not None:
            sys.modules["matplotlib.pyplot"] = pyplot
    assert image.startswith(b"\x89PNG\r\n")
    width, height = np.frombuffer(image[16:24], dtype=">u4")
    assert (width, height) == tuple(np.floor(figure.get_size_inches() * figure.dpi))
    assert isinstance(figure, matplotlib.figure.Figure)
    assert figure.axes
    file = io.BytesIO()
    figure.savefig(file, format="svg")
    assert b"<svg" in file.getvalue()


def test_ipython_displays_a_figure_as_an_image(fitted):
    formatters = pytest.importorskip("IPython.core.formatters")
    data, _ = formatters.DisplayFormatter().format(fitted.plot_coefficients())
    assert "image/png" in data
