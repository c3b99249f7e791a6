"""``discreet demo``: half a minute with the example table, to see a private model and its price."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from typer import Option

from discreet.cli.screen import Screen, table
from discreet.cli.state import check_output
from discreet.datasets import VISITS_EFFECTS, load_visits
from discreet.errors import PrivacyLeakWarning
from discreet.files import replacing
from discreet.page import document

EPSILONS = (0.1, 0.3, 1.0, 3.0)
N_PATIENTS = 20_000  # whose visits a fit learns from
N_NEW = 10_000  # patients with visits that no fit saw
REPEATS = 5  # fits per budget, each of other patients
SEED = 4  # of the visits of the report, as by default
COLUMNS = ["age", "ward", "insulin", "emergencies", "days"]  # that predict

# Colours of the figures; in the page they follow its style sheet, light or dark.
_COLOURS = {"text": "#333333", "private": "#0072b2", "plain": "#00805c"}
_KINDS = {colour: kind for kind, colour in _COLOURS.items()} | {
    "#000000": "text",  # matplotlib's own, in the plot of effects
    "#1f77b4": "private",
}


@dataclass(frozen=True)
class Outcome:
    """Areas under the ROC curve of one model on new visits, one per repeat, and its guarantee."""

    name: str
    guarantee: Any
    scores: tuple[float, ...]

    @property
    def score(self) -> float:
        """Mean over the repeats."""
        return float(np.mean(self.scores))

    @property
    def caught(self) -> str:
        """Largest share of members that any attack finds, at the card's false-positive rate."""
        from discreet.card.risk import STATED_RATE, attack_success, percent

        if self.guarantee is None:
            return ""
        return percent(attack_success(self.guarantee, STATED_RATE))


@dataclass(frozen=True)
class Effect:
    """One line of the table of odds ratios, beside the effect that made the visits."""

    name: str
    ratio: float
    low: float
    high: float
    true: float
    noise: float

    @property
    def cells(self) -> tuple[str, ...]:
        """Texts of the line."""
        interval = f"{self.low:.2f} to {self.high:.2f}"
        return self.name, f"{self.ratio:.2f}", interval, f"{self.true:.2f}", f"{self.noise:.0%}"


HEADER = ("", "odds ratio", "95 % interval", "true", "noise")


def demo(
    output: Annotated[
        Path, Option("--output", "-o", help="The page; its figure is saved beside it.")
    ] = Path("out/demo.html"),
) -> None:
    """Fit private models to the example table and show what they say and what a budget buys.

    Example: discreet demo --output demo.html
    """
    import jinja2
    from markupsafe import Markup

    from discreet.card.risk import STATED_RATE

    screen = Screen()
    if output == Path("out/demo.html"):
        output.parent.mkdir(exist_ok=True)
    picture = output.with_suffix(".png")
    for path in (output, picture):
        check_output(path, force=True)
    effects, report, private, plain = _train(screen)
    title = f"Odds ratios of a readmission, from the visits of {N_PATIENTS:,} patients at ε = 1"
    screen.result(None, table(title, HEADER, [effect.cells for effect in effects]))
    rows = []
    for outcome in (*private, plain):
        caught = f"at most {outcome.caught}" if outcome.caught else ""
        rows.append((outcome.name, f"{outcome.score:.3f}", caught))
    header = ("model", "AUC", f"members found, {STATED_RATE:.0%} false alarms")
    screen.result(None, table(f"Predictions for {N_NEW:,} new patients", header, rows))
    figure = _draw(private, plain)
    figure.savefig(picture, dpi=150)
    here = Path(__file__)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(here.with_name("demo.html").read_text("utf-8"))
    numbers = {"n_patients": N_PATIENTS, "n_new": N_NEW, "repeats": REPEATS}
    models = {"private": private, "plain": plain, "effects": effects, "header": HEADER}
    drawn = {
        "figure": Markup(_themed(figure)),
        "curves": Markup(_themed(report.plot_effects(columns=COLUMNS))),
    }
    one = private[EPSILONS.index(1.0)]
    shown = {"one": one, "guarantee": report.guarantee, "error": STATED_RATE}
    body = template.render(numbers | models | drawn | shown)
    style = here.with_name("demo.css").read_text("utf-8")
    with replacing(output) as stream:
        stream.write(document("A private model, and what a budget buys", body, style=style))
    screen.result(None, f"Figure: {picture}\nPage: {output} (open it in a browser)")


def _themed(figure: Any) -> str:
    """Return a figure as SVG, in the colours of the page's style sheet."""
    from discreet.audit.figure import inline_svg

    svg = inline_svg(figure, transparent=True)
    for colour, kind in _KINDS.items():
        svg = svg.replace(colour, f"var(--{kind})")
    return svg


def _visits(n_patients: int, seed: int) -> Any:
    """Return the columns of the example table that the demo uses, as a dict."""
    cells = load_visits(n_patients, seed=seed, form="columns")
    return {name: cells[name] for name in ("patient", *COLUMNS, "readmitted")}


def _fit(epsilon: float, seed: int, **settings: Any) -> Any:
    """Fit a model to visits, for one patient with all of them."""
    from discreet import fit
    from discreet.datasets import VISITS_LEVELS

    public: dict[int | str, Any] = {"age": (18, 100), "emergencies": (0, 12), "days": (1, 30)}
    public |= {name: list(VISITS_LEVELS[name]) for name in ("ward", "insulin")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # the baseline is not private
        return fit(
            "readmitted",
            _visits(N_PATIENTS, seed),
            unit="patient",
            epsilon=epsilon,
            classes=["no", "yes"],
            columns=public,
            **settings,
        )


def _train(screen: Screen) -> tuple[list[Effect], Any, list[Outcome], Outcome]:
    """Fit the model of the report, and ``REPEATS`` models for each budget and without privacy."""
    from sklearn.metrics import roc_auc_score

    kinds: list[tuple[str, dict[str, Any]]] = [
        (f"private, ε = {epsilon:g}", {"epsilon": epsilon}) for epsilon in EPSILONS
    ]
    kinds.append(("no privacy", {"epsilon": 1.0, "solver": "nonprivate"}))
    new = _visits(N_NEW, REPEATS + SEED)
    followed = np.array(new["readmitted"]) == "yes"
    outcomes = []
    columns = (TextColumn("{task.description:30}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen.people) as bars:
        bar = bars.add_task("report, ε = 1 (compiles once)", total=1)
        report = _fit(1.0, SEED, inference=True)
        bars.update(bar, completed=1)
        for name, settings in kinds:
            bar = bars.add_task(name, total=REPEATS)
            scores = []
            for repeat in range(REPEATS):
                model = _fit(seed=repeat, **settings)
                risk = model.predict_proba(new)[:, 1]
                scores.append(float(roc_auc_score(followed, risk)))
                bars.advance(bar)
            guarantee = None if "solver" in settings else model.guarantee
            outcomes.append(Outcome(name, guarantee, tuple(scores)))
    return _effects(report), report, outcomes[:-1], outcomes[-1]


def _effects(report: Any) -> list[Effect]:
    """Return the lines of the table of odds ratios that have an interval, but the intercept."""
    found = []
    for row in report.summary().to_dict()["models"][0]["coefficients"]:
        if row["name"] != "intercept" and row["std_err"] is not None:
            true = VISITS_EFFECTS.get(row["name"], 0.0)
            ratio, low, high = (math.exp(row[key]) for key in ("coef", "low", "high"))
            effect = Effect(row["name"], ratio, low, high, math.exp(true), row["noise_share"])
            found.append(effect)
    return found


def _draw(private: list[Outcome], plain: Outcome) -> Any:
    """Draw the AUC over ε, below the AUC without privacy."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    keys = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    style: Any = {**dict.fromkeys(keys, _COLOURS["text"]), "font.size": 11}
    with rc_context(style):
        figure = Figure(figsize=(5.8, 3.7), layout="constrained")
        axis = figure.subplots()
        axis.spines[["top", "right"]].set_visible(False)
        runs = np.array([outcome.scores for outcome in private])
        axis.fill_between(EPSILONS, runs.min(1), runs.max(1), color=_COLOURS["private"], alpha=0.2)
        axis.plot(EPSILONS, runs.mean(1), "o-", color=_COLOURS["private"], label="private")
        for epsilon, score in zip(EPSILONS, runs.mean(1), strict=True):
            axis.annotate(
                f"{score:.3f}",
                (epsilon, score),
                xytext=(4, -16),
                textcoords="offset points",
                color=_COLOURS["private"],
            )
        label = f"{plain.name}: {plain.score:.3f}"
        axis.axhline(plain.score, color=_COLOURS["plain"], linestyle="--", label=label)
        axis.set_xscale("log")
        axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axis.minorticks_off()
        axis.set_ylabel("AUC on new patients")
        axis.set_xlabel("privacy budget ε (smaller: more private)")
        axis.legend(frameon=False, loc="lower right")
    return figure
