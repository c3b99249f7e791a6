"""The report of a benchmark as one HTML file that loads nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pandas as pd
from jinja2 import Environment, StrictUndefined
from plotly.offline import get_plotlyjs

from discreet_bench import verdicts
from discreet_bench.experiment import Experiment
from discreet_bench.lines import honest, kind_of, named, order_of, title_of
from discreet_bench.promise import TOLERANCE
from discreet_bench.report.charts import charts
from discreet_bench.runs import COSTS, MEASURES, RELATIONS, SHARES, title_of_column
from discreet_bench.statistics import PROBLEM, final, leaderboard, method_of

__all__ = ["Answer", "report"]

TAGS = {
    "private": "private",
    "variant": "private",
    "hindsight": "runs are private, the choice among them is not",
    "released": "not private as released",
    "rival": "claim of that library, not recomputed",
    "baseline": "no privacy",
}
_ROUNDING = 1 + 1e-6  # of the ε that a method itself states
_MOST_PROBLEMS = 200


def report(runs: pd.DataFrame, *, title: str, commands: Mapping[str, str]) -> str:
    """Make one HTML page of runs: an answer, charts, comparisons, guarantees, cost and origin.

    Parameters
    ----------
    runs : DataFrame
        Runs as `discreet_bench.runs.read` gives them; at least one.
    title : str
        Heading of the page.
    commands : mapping
        For each experiment the command that reproduces its runs.

    Returns
    -------
    str
        The page, which loads nothing from elsewhere. Text from the runs (names, problems,
        guarantees) is escaped.
    """
    if runs.empty:
        raise ValueError("there are no runs to report: run an experiment first.")
    runs = named(runs).reset_index(drop=True)
    board = _board(runs)
    answers = [Answer(rows, str(name)) for name, rows in board.groupby("measure", sort=False)]
    order = sorted(runs["line"].unique(), key=order_of)
    here = files("discreet_bench.report")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    template = environment.from_string(here.joinpath("page.html").read_text("utf-8"))
    experiments = {name: _known(str(name)) for name in runs["experiment"].unique()}
    claims = _claims(runs, experiments.values())
    sources = {claim["source"] for claim in claims}  # their charts come first
    drawn = sorted(experiments, key=lambda name: experiments[name].source not in sources)
    return template.render(
        title=title,
        style=here.joinpath("page.css").read_text("utf-8"),
        script=here.joinpath("page.js").read_text("utf-8"),
        plotly=get_plotlyjs().replace("</script", "<\\/script"),
        data=_json({
            "charts": [
                chart
                for name in drawn
                for chart in charts(
                    runs[(runs["experiment"] == name) & (runs["problem"] == "")], experiments[name]
                )
            ],
            "experiments": {
                name: {"title": one.title, "question": one.question, "source": one.source}
                for name, one in experiments.items()
            },
        }),
        answers=answers,
        claims=claims,
        hindsight=bool(len(board)) and bool(board["hindsight"].notna().any()),
        nothing=_nothing(runs),
        counts={
            "runs": len(runs),
            "failed": int((runs["problem"] != "").sum()),
            "methods": runs["method"].nunique(),
            "data": runs["data"].nunique(),
        },
        comparisons=[_comparison(row) for row in board.itertuples()],
        promises=[promise for line in order if (promise := _promise(runs, line))],
        tolerance=f"{100 * TOLERANCE:g}",
        cost=_cost(runs, order),
        problems=_problems(runs),
        origins=[_origin(str(name), of, commands) for name, of in runs.groupby("experiment")],
    )  # fmt: skip


def _json(data: object) -> str:
    """Return JSON that cannot end the script element that holds it."""
    packed = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return packed.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _known(name: str) -> Experiment:
    from discreet_bench.experiments import EXPERIMENTS

    return EXPERIMENTS.get(name) or Experiment(name, name, "", "", (), ())


# -- the claims, the answer and the comparisons


def _claims(runs: pd.DataFrame, experiments: Iterable[Experiment]) -> list[dict[str, str]]:
    """Return the claims of the experiments, and whether the runs reproduce them.

    Lines of an older form, which was smaller than the papers', decide nothing.
    """
    found = []
    runs = runs[runs["form"] != ""]
    for experiment in experiments:
        decisions = verdicts.claims(runs, experiment)
        for claim in experiment.claims:
            verdict = verdicts.sentence([one for one in decisions if one.claim is claim])
            if verdict != "not run":
                found.append({"source": experiment.source, "text": claim.text, "verdict": verdict})
    return found


def _board(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the leaderboards of accuracy and R², or of the first measure that compares methods."""
    plain = runs[(runs["variant"] == "not private") & (runs["method"] != "majority")]
    parts: list[pd.DataFrame] = []
    headline = ("accuracy", "r2")
    for measure in dict.fromkeys((*headline, *MEASURES)):
        if measure in COSTS or (parts and measure not in headline) or runs[measure].isna().all():
            continue
        rows = leaderboard(runs, measure).assign(measure=measure)
        if rows.empty:  # only baselines have it, or only experiments with checkpoints
            continue
        means = final(plain).groupby([*PROBLEM, "line", "setting"], dropna=False)[measure].mean()
        best = means.groupby(PROBLEM, dropna=False).agg("max" if MEASURES[measure] else "min")
        parts.append(rows.merge(best.rename("baseline").reset_index(), how="left", on=PROBLEM))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["measure"])


def _nothing(runs: pd.DataFrame) -> str:
    """Say why there is nothing to compare."""
    if ((runs["problem"] == "") & runs["line"].map(honest).astype(bool)).any():
        return "These runs are checkpoints or sweeps of settings, and compare no methods."
    return "No private method has a result, so there is nothing to compare."


class Answer:
    """Result of the comparisons by one measure, from the point of view of discreet's default.

    Attributes
    ----------
    compared, first, significant : int
        Comparisons with the default and another private method, those in which the default is
        best, and those of them in which its lead is significant.
    lost : int
        Comparisons in which another method is significantly better.
    headline, details : str
        The answer in a sentence, and a few more.
    """

    def __init__(self, rows: pd.DataFrame, measure: str) -> None:
        rows = rows[rows["auto_mean"].notna() & rows["runner_up"].notna()]
        won = rows["best"].map(method_of) == "auto"
        self.measure = measure
        self.compared, self.first = len(rows), int(won.sum())
        self.significant = int((won & rows["significant"].astype(bool)).sum())
        self.lost = int(rows["auto_significant"].astype(bool).sum())
        sign = 1.0 if MEASURES[measure] else -1.0
        lead, behind = rows.loc[won, "margin"].median(), -rows.loc[~won, "auto_margin"]
        price = (sign * (rows["baseline"] - rows["auto_mean"])).median()
        self.headline = "No comparison has both discreet's default and another private method."
        self.details = ""
        if not self.compared:
            return
        self.headline = (
            f"discreet's default is the best private method in {self.first} of {self.compared} "
            f"comparisons by {title_of_column(measure).removesuffix(', %').lower()}."
        )
        parts = []
        if self.first:
            tested = f"{self.significant} of {self.first} leads are significant"
            if rows["adjusted"].isna().all():
                tested = "with one repeat no lead can be tested"
            parts.append(f"Median lead over the next best: {_difference(lead, measure)}; {tested}.")
        if len(behind):
            worst = rows.loc[behind.idxmax()]
            parts.append(
                f"Elsewhere it is at most {_difference(behind.max(), measure)} behind "
                f"({worst['data']}, ε = {worst['epsilon']:g}, "
                f"{RELATIONS.get(worst['relation'], worst['relation'])}), significantly in "
                f"{self.lost or 'none'}."
            )
        if math.isfinite(price):
            side = "below" if price >= 0 else "above"
            parts.append(
                f"Median distance to the model without privacy: {_difference(abs(price), measure)} "
                f"{side} it."
            )
        self.details = " ".join(parts)


def _difference(value: float, measure: str) -> str:
    if not math.isfinite(value):
        return "–"
    return f"{100 * value:.2f} points" if measure in SHARES else f"{value:.2g}"


def _value(value: float, measure: str) -> str:
    if not math.isfinite(value):
        return "–"
    return f"{100 * value:.2f} %" if measure in SHARES else f"{value:.4g}"


def _comparison(row: Any) -> dict[str, Any]:
    """Return a row of the table of comparisons."""
    default = method_of(row.best) == "auto"
    return {
        "data": row.data,
        "experiment": row.experiment,
        "problem": f"{row.loss}, {RELATIONS.get(row.relation, row.relation)}",
        "epsilon": f"{row.epsilon:g}",
        "best": title_of(row.best),
        "best_value": _value(row.best_mean, row.measure),
        "default": default,
        "second": "" if pd.isna(row.runner_up) else title_of(row.runner_up),
        "second_value": _value(row.runner_up_mean, row.measure),
        "margin": _difference(row.margin, row.measure),
        "significant": bool(row.significant),
        "p": "" if math.isnan(row.adjusted) else f"{row.adjusted:.2g}",
        "default_value": _value(row.auto_mean, row.measure),
        "default_worse": bool(row.auto_significant),
        "baseline": _value(row.baseline, row.measure),
        "hindsight": "" if pd.isna(row.hindsight) else title_of(row.hindsight).split(",")[0],
        "hindsight_value": _value(row.hindsight_mean, row.measure),
    }


# -- guarantees, cost, problems and origin


@dataclass(frozen=True)
class Promise:
    """Guarantee of a line: budget, what was spent and recomputed, and guarantees as text."""

    title: str
    kind: str
    tag: str
    exceeded: bool
    spent: list[dict[str, str]]
    guarantees: list[str]
    more: int


def _promise(runs: pd.DataFrame, line: str) -> Promise | None:
    of = runs[(runs["line"] == line) & (runs["problem"] == "")]
    if of.empty:
        return None
    kind = kind_of(line)
    stated = of["epsilon_spent"] > of["epsilon"] * _ROUNDING
    stated |= of["delta_spent"] > of["delta"] * _ROUNDING
    # The accountant that recomputes rounds up, so it may exceed the budget by its tolerance.
    over = stated | (of["epsilon_recomputed"] > of["epsilon"] * (1 + TOLERANCE))
    largest = ["epsilon_spent", "delta_spent", "epsilon_recomputed"]
    cells = of.assign(over=over).groupby(["relation", "epsilon"])[[*largest, "over"]].max()
    tag = TAGS[kind]
    if kind in ("private", "variant"):
        all_known = cells["epsilon_recomputed"].notna().all()
        tag += ", recomputed" if all_known else ", not all of it recomputed"
    if kind == "released":
        true = cells[["epsilon_spent", "epsilon_recomputed"]].max(axis=1)
        ratio = true / true.index.get_level_values("epsilon")
        tag += ": true ε unknown"
        if ratio.notna().any():
            worst = ratio.idxmax()
            tag = f"{TAGS[kind]}: true ε = {_number(true[worst])} instead of {worst[1]:g}"
    guarantees = [text for text in of["guarantee"].unique() if text]
    return Promise(
        title=title_of(line),
        kind=kind,
        tag=tag,
        exceeded=kind in ("private", "variant", "hindsight") and bool(cells["over"].any()),
        spent=[] if kind == "baseline" else [
            {
                "relation": RELATIONS.get(relation, relation),
                "allowed": f"{epsilon:g}",
                "spent": _number(row.epsilon_spent),
                "delta": _number(row.delta_spent, 2),
                "recomputed": _number(row.epsilon_recomputed, missing="not recomputed"),
                "over": bool(row.over),
            }
            for (relation, epsilon), row in zip(cells.index, cells.itertuples(), strict=True)
        ],
        guarantees=guarantees[:2],
        more=len(guarantees[2:]),
    )  # fmt: skip


def _number(value: float, digits: int = 4, missing: str = "–") -> str:
    return f"{value:,.{digits}g}" if not math.isnan(value) else missing


def _cost(runs: pd.DataFrame, order: Iterable[str]) -> dict[str, Any]:
    """Return the medians of seconds and memory, methods as rows and data sets as columns.

    Each cell has the length of its bar, in percent of the slowest method of its data set, and how
    many times as long as discreet's default it takes.
    """
    done = runs[runs["problem"] == ""]
    medians = done.groupby(["line", "data"])[["seconds", "peak_mb"]].median()
    data = sorted(done["data"].unique())
    slowest = medians["seconds"].groupby("data").max()
    own = done[done["method"] == "auto"].groupby("data")["seconds"].median()
    rows = []
    for line in order:
        if line in medians.index:
            pairs = medians.loc[line].reindex(data)
            cells = [
                _cost_cell(row.seconds, row.peak_mb, slowest[row.Index], own.get(row.Index))
                for row in pairs.itertuples()
            ]
            rows.append((title_of(line), cells))
    return {"data": data, "rows": rows, "factors": bool(len(own))}


def _cost_cell(
    seconds: float, peak_mb: float, slowest: float, default: float | None
) -> dict[str, str]:
    if not math.isfinite(seconds):
        return {"seconds": "–", "memory": "", "share": "", "factor": ""}
    factor = "" if not default else f"{seconds / default:.2g} ×"
    return {
        "seconds": f"{_number(seconds, 3)} s",
        "memory": f"{_number(peak_mb, 3)} MiB",
        "share": f"{100 * seconds / slowest:.1f}" if slowest > 0 else "",
        "factor": factor,
    }


def _problems(runs: pd.DataFrame) -> list[dict[str, Any]]:
    """Return reasons for missing results, the most frequent first."""
    failed = runs[runs["problem"] != ""]
    found = [
        {
            "title": title_of(line),
            "text": text,
            "runs": len(of),
            "data": ", ".join(sorted(of["data"].unique())),
            "epsilon": ", ".join(f"{value:g}" for value in sorted(of["epsilon"].unique())),
        }
        for (line, text), of in failed.groupby(["line", "problem"])
    ]
    return sorted(found, key=lambda one: (-one["runs"], one["title"]))[:_MOST_PROBLEMS]


def _origin(name: str, runs: pd.DataFrame, commands: Mapping[str, str]) -> dict[str, Any]:
    """Return the origin of an experiment's runs: command, seeds, versions and machine."""
    days = sorted(runs.loc[runs["when"] != "", "when"].str.slice(0, 10).unique())
    pairs = runs[["discreet", "versions"]].drop_duplicates().itertuples(index=False)
    versions = [_pairs({"discreet": own, **_read(text)}) for own, text in pairs]
    experiment = _known(name)
    return {
        "name": name,
        "title": experiment.title,
        "notes": experiment.notes,
        "differences": [item for item in experiment.protocol if item.differs],
        "same": ", ".join(item.name for item in experiment.protocol if not item.differs),
        "command": commands.get(name, ""),
        "facts": {
            "runs": f"{len(runs):,} in {runs['repeat'].nunique()} repeats",
            "seeds": _integers(runs["seed"]),
            "processes side by side": _integers(runs["jobs"]),
            "days (UTC)": " to ".join(dict.fromkeys([days[0], days[-1]])) if days else "",
            "versions": " | ".join(versions),
            "machine": " | ".join(_pairs(_read(text)) for text in runs["machine"].unique()),
        },
    }  # fmt: skip


def _integers(values: pd.Series) -> str:
    found = sorted({int(value) for value in values if math.isfinite(value)})
    return ", ".join(map(str, found[:12])) + (" …" if len(found) > 12 else "")


def _read(text: str) -> dict[str, object]:
    """Read a JSON object; other text is shown as it is."""
    try:
        found = json.loads(text) if text else {}
    except json.JSONDecodeError:
        found = text
    return found if isinstance(found, dict) else {"": found}


def _pairs(facts: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}".strip() for name, value in facts.items() if value != "")
