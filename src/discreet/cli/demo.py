"""``discreet demo``: a minute with generated data, to see what a privacy budget buys."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from typer import Option

from discreet.cli.screen import Screen, table
from discreet.cli.state import check_output
from discreet.errors import PrivacyLeakWarning
from discreet.files import replacing
from discreet.page import document

EPSILONS = (0.1, 0.3, 1.0, 3.0)
DELTA = 1e-6
N_TRAIN = 2_000  # rows of a fit
N_TEST = 20_000  # new rows
N_COLUMNS = 10  # of both
REPEATS = 10  # fits per model, each of other rows

# Colours of the figure; in the page they follow its style sheet, light or dark.
_COLOURS = {"text": "#333333", "private": "#0072b2", "plain": "#00805c", "majority": "#777777"}


@dataclass(frozen=True)
class Outcome:
    """Accuracies of one model on new rows, one per repeat, and its guarantee if it is private."""

    name: str
    guarantee: Any
    accuracies: tuple[float, ...]

    @property
    def accuracy(self) -> float:
        """Mean over the repeats."""
        return float(np.mean(self.accuracies))

    @property
    def caught(self) -> str:
        """Largest share of members that any attack finds, at the card's false-positive rate."""
        from discreet.card.risk import STATED_RATE, attack_success, percent

        if self.guarantee is None:
            return ""
        return percent(attack_success(self.guarantee, STATED_RATE))


def demo(
    output: Annotated[
        Path, Option("--output", "-o", help="The page; its figure is saved beside it.")
    ] = Path("out/demo.html"),
) -> None:
    """Train private models on generated data and show what a privacy budget buys.

    Example: discreet demo --output demo.html
    """
    import jinja2
    from markupsafe import Markup

    from discreet.audit.figure import inline_svg
    from discreet.card.risk import STATED_RATE

    screen = Screen()
    if output == Path("out/demo.html"):
        output.parent.mkdir(exist_ok=True)
    picture = output.with_suffix(".png")
    for path in (output, picture):
        check_output(path, force=True)
    private, plain, majority = _train(screen)
    rows = []
    for outcome in (majority, *private, plain):
        caught = f"at most {outcome.caught}" if outcome.caught else ""
        rows.append((outcome.name, f"{outcome.accuracy:.1%}", caught))
    header = ("model", "accuracy", f"members found, {STATED_RATE:.0%} false alarms")
    title = f"Accuracy on {N_TEST:,} new rows, after training on {N_TRAIN:,}"
    screen.result(None, table(title, header, rows))
    figure = _draw(private, plain, majority)
    figure.savefig(picture, dpi=150)
    svg = inline_svg(figure, transparent=True)
    for kind, colour in _COLOURS.items():
        svg = svg.replace(colour, f"var(--{kind})")
    here = Path(__file__)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(here.with_name("demo.html").read_text("utf-8"))
    numbers = {"n_train": N_TRAIN, "n_test": N_TEST, "n_columns": N_COLUMNS, "repeats": REPEATS}
    models = {"private": private, "plain": plain, "majority": majority}
    one = private[EPSILONS.index(1.0)]
    shown = {"one": one, "guarantee": one.guarantee, "figure": Markup(svg), "error": STATED_RATE}
    body = template.render(models | numbers | shown)
    style = here.with_name("demo.css").read_text("utf-8")
    with replacing(output) as stream:
        stream.write(document("What does a privacy budget buy?", body, style=style))
    screen.result(None, f"Figure: {picture}\nPage: {output} (open it in a browser)")


def _generate(seed: int, n_rows: int) -> tuple[Any, Any]:
    """Generate rows whose label is the sign of a linear score, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_rows, N_COLUMNS))
    score = X @ np.linspace(2, 0, N_COLUMNS) + 0.5 + 0.5 * rng.logistic(size=n_rows)
    return X, np.where(score > 0, "yes", "no")


def _train(screen: Screen) -> tuple[list[Outcome], Outcome, Outcome]:
    """Train every model ``REPEATS`` times: private ones, without privacy, and the majority."""
    from discreet import LogisticRegression

    def fitted(solver: str, epsilon: float, repeat: int) -> Any:
        model = LogisticRegression(epsilon, DELTA, solver=solver, classes=["no", "yes"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)  # the baselines are not private
            return model.fit(*_generate(repeat, N_TRAIN))

    kinds = [(f"private, ε = {epsilon:g}", "auto", epsilon) for epsilon in EPSILONS]
    kinds.append(("no privacy", "nonprivate", 1.0))
    kinds.append(("always the most frequent label", "majority", 1.0))
    test = _generate(REPEATS, N_TEST)
    outcomes = []
    columns = (TextColumn("{task.description:30}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen.people) as bars:
        compiling = bars.add_task("compiling (once only)", total=1)
        fitted("auto", 1.0, 0)
        bars.update(compiling, completed=1)
        for name, solver, epsilon in kinds:
            bar = bars.add_task(name, total=REPEATS)
            accuracies = []
            for repeat in range(REPEATS):
                model = fitted(solver, epsilon, repeat)
                accuracies.append(float(np.mean(model.predict(test[0]) == test[1])))
                bars.advance(bar)
            guarantee = model.guarantee_ if solver == "auto" else None
            outcomes.append(Outcome(name, guarantee, tuple(accuracies)))
    return outcomes[:-2], outcomes[-2], outcomes[-1]


def _draw(private: list[Outcome], plain: Outcome, majority: Outcome) -> Any:
    """Draw accuracy over ε, between the most frequent label and no privacy."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    keys = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    style: Any = {**dict.fromkeys(keys, _COLOURS["text"]), "font.size": 11}
    with rc_context(style):
        figure = Figure(figsize=(5.8, 3.7), layout="constrained")
        axis = figure.subplots()
        axis.spines[["top", "right"]].set_visible(False)
        runs = np.array([outcome.accuracies for outcome in private]) * 100
        axis.fill_between(EPSILONS, runs.min(1), runs.max(1), color=_COLOURS["private"], alpha=0.2)
        axis.plot(EPSILONS, runs.mean(1), "o-", color=_COLOURS["private"], label="private")
        for epsilon, accuracy in zip(EPSILONS, runs.mean(1), strict=True):
            axis.annotate(
                f"{accuracy:.1f} %",
                (epsilon, accuracy),
                xytext=(7, -16),
                textcoords="offset points",
                color=_COLOURS["private"],
            )
        for outcome, kind, style in ((plain, "plain", "--"), (majority, "majority", ":")):
            height = 100 * outcome.accuracy
            label = f"{outcome.name}: {outcome.accuracy:.1%}"
            axis.axhline(height, color=_COLOURS[kind], linestyle=style, label=label)
        axis.set_xscale("log")
        axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axis.minorticks_off()
        axis.set_ylabel("accuracy on new rows (%)")
        axis.set_xlabel("privacy budget ε (smaller: more private)")
        axis.legend(frameon=False, loc="lower right")
    return figure
