"""Fits over sites by trust model, against pooled rows and rivals: AUC, time and traffic.

Adult and UCI's "Diabetes 130-US hospitals" are divided at random among K = 10 sites, 80 % of the
rows for the fit, by the real protocol in one process. Run with the folder of the data sets:

    python -m bench.studies.sites DATA --seeds 10
    python -m bench.studies.sites --page

Each fit is added to bench/results/sites.csv when it is done, and a second run leaves out what the
file has. --page writes the tables of docs/sites.md from it. Of a rival with several settings the
file has all; the page has the one with the best mean.
"""

from __future__ import annotations

import argparse
import csv
import re
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from bench.studies import site_rivals
from bench.studies.hospital_units import read
from discreet import LogisticRegression
from discreet.sites import Federation
from discreet_bench import datasets

BUDGETS = (0.1, 1.0)
DELTA = 1e-6
SITES = 10

SCHEMES: dict[str, dict[str, Any]] = {
    "rows pooled": {},
    "trusted aggregator": {"trust": "aggregator"},
    "secure sum, t = 1": {"trust": "secure", "colluding": 1},
    "secure sum, t = 5": {"trust": "secure", "colluding": 5},
    "each site adds all noise": {"trust": "local"},
    "one site alone": {},
}

DP_SGD = "FedAvg, DP-SGD at each site"
FILTER = "FedAvg, NVFlare's filter within ε"
DEFAULTS = "FedAvg, NVFlare's filter as it is"
RIVALS = (DP_SGD, FILTER, DEFAULTS)

RESULTS = Path(__file__).parents[1] / "results" / "sites.csv"
PAGE = Path(__file__).parents[2] / "docs" / "sites.md"

FIELDS = (
    "data", "epsilon", "scheme", "setting", "seed", "auc", "questions", "rounds", "bytes",
    "seconds", "rows", "columns",
)  # fmt: skip


def tables(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return both tables, as numbers."""
    adult = datasets.load("adult", data_dir=folder, sparse=False)
    labels = np.unique(adult.y)
    X, y, _ = read(str(folder / "hospital-visits" / "diabetic_data.csv.xz"))
    return {"Adult": (adult.X, (adult.y == labels[1]).astype(int)), "hospital visits": (X, y)}


def score(scheme: str, X: Any, y: Any, epsilon: float, seed: int) -> dict[str, Any]:
    """Fit by a scheme to 80 % of the rows; return what was measured."""
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed)
    parts = [(X[part], y[part]) for part in np.array_split(train, SITES)]
    model = LogisticRegression(epsilon=epsilon, delta=DELTA, classes=[0, 1])
    start = time.perf_counter()
    found = {"questions": 0.0, "rounds": 0.0, "bytes": 0.0}
    if scheme == "rows pooled":
        model.fit(X[train], y[train])
    elif scheme == "one site alone":
        model.fit(*parts[0])
    else:
        federation = Federation(parts, **SCHEMES[scheme])
        model.fit(*federation.open())
        traffic = federation.traffic
        found = {
            "questions": traffic.questions,
            "rounds": traffic.rounds,
            "bytes": traffic.sent + traffic.received,
        }
    found["seconds"] = time.perf_counter() - start
    found["auc"] = roc_auc_score(y[test], model.decision_function(X[test]))
    return found


def rivals(scheme: str, X: Any, y: Any, epsilon: float, seed: int) -> Iterator[dict[str, Any]]:
    """Yield what was measured of each setting of a rival."""
    train, test = train_test_split(np.arange(len(y)), test_size=0.2, random_state=seed)
    known, new = site_rivals.scaled(X[train], X[test])
    ends = [len(part) for part in np.array_split(train, SITES)]
    cuts = np.cumsum(ends)[:-1]
    target = np.split(y[train].astype(float), cuts)
    parts = list(zip(np.split(known, cuts), target, strict=True))
    if scheme == DP_SGD:
        fits = site_rivals.dp_sgd(parts, epsilon, DELTA, seed)
    else:
        fits = site_rivals.filtered(parts, epsilon if scheme == FILTER else None, seed)
    start = time.perf_counter()
    for setting, weights in fits:
        seconds = time.perf_counter() - start
        auc = roc_auc_score(y[test], new @ weights)
        yield {"setting": setting, "auc": auc, "seconds": seconds}
        start = time.perf_counter()


# ---- the page


def cells(rows: Sequence[dict[str, str]]) -> dict[tuple[str, str, float], list[dict[str, str]]]:
    """Return the fits of each scheme, table and ε: those of its setting with the best mean."""
    found: dict[Any, dict[str, list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        key = (row["scheme"], row["data"], float(row["epsilon"]))
        found[key][row["setting"]].append(row)
    return {
        key: max(settings.values(), key=lambda fits: mean_of(fits, "auc"))
        for key, settings in found.items()
    }


def mean_of(fits: Sequence[dict[str, str]], name: str) -> float:
    """Return the mean of a measure."""
    return float(np.mean([float(each[name] or "nan") for each in fits]))


def interval(fits: Sequence[dict[str, str]]) -> str:
    """Return the mean AUC with half of its 95 % interval."""
    values = [float(each["auc"]) for each in fits]
    if len(values) < 2:
        return ""
    half = student.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{np.mean(values):.3f} ± {half:.3f}"


def lines(rows: Sequence[dict[str, str]]) -> list[str]:
    """Return both tables of the page."""
    found = cells(rows)
    names = list(dict.fromkeys(row["data"] for row in rows))
    columns = [(name, epsilon) for name in names for epsilon in BUDGETS]
    heads = " | ".join(f"{name}, ε = {epsilon:g}" for name, epsilon in columns)
    made = [f"| | {heads} |", f"|---|{'---:|' * len(columns)}"]
    for scheme in (*SCHEMES, *RIVALS):
        row = [interval(found.get((scheme, *column), [])) for column in columns]
        made.append(f"| {scheme} | {' | '.join(row)} |")
    made += ["", "| secure sum, t = 1 | questions | rounds | MB | seconds in one process |"]
    made.append("|---|---:|---:|---:|---:|")
    for name, epsilon in columns:
        fits = found["secure sum, t = 1", name, epsilon]
        size = f"{int(fits[0]['rows']):,} rows, {fits[0]['columns']} columns"
        made.append(
            f"| {name}: {size}, ε = {epsilon:g} | {mean_of(fits, 'questions'):.0f} | "
            f"{mean_of(fits, 'rounds'):.0f} | {mean_of(fits, 'bytes') / 1e6:.1f} | "
            f"{mean_of(fits, 'seconds'):.1f} |"
        )
    return made


def page(text: str, rows: Sequence[dict[str, str]]) -> str:
    """Return the page with the tables between its marks."""
    made = "\n".join(["<!-- sites -->", "", *lines(rows), "", "<!-- end of sites -->"])
    marks = r"<!-- sites -->.*<!-- end of sites -->"
    return re.sub(marks, lambda _: made, text, flags=re.DOTALL)


def kept(path: Path) -> list[dict[str, str]]:
    """Return the fits that a file has."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def keep(path: Path, row: dict[str, Any]) -> None:
    """Add a fit to a file."""
    new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, FIELDS, restval="", lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow({name: rounded(value) for name, value in row.items()})


def rounded(value: Any) -> Any:
    """Return a number with the digits that are kept."""
    return f"{value:.6g}" if isinstance(value, float) else value


def main() -> None:
    """Measure what is missing, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--schemes", nargs="*", default=[*SCHEMES, *RIVALS])
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--page", action="store_true")
    chosen = parser.parse_args()
    if chosen.page:
        PAGE.write_text(page(PAGE.read_text("utf-8"), kept(chosen.output)), "utf-8")
        return
    warnings.simplefilter("ignore")
    done = {(r["data"], float(r["epsilon"]), r["scheme"], r["seed"]) for r in kept(chosen.output)}
    known = tables(chosen.folder)
    for seed in range(chosen.seeds):
        for name, (X, y) in known.items():
            for epsilon in BUDGETS:
                for scheme in chosen.schemes:
                    if (name, epsilon, scheme, str(seed)) in done:
                        continue
                    if scheme == DEFAULTS and epsilon != max(BUDGETS):
                        continue  # it has an ε of its own
                    about = {"data": name, "epsilon": epsilon, "scheme": scheme, "seed": seed}
                    about |= {"rows": X.shape[0], "columns": X.shape[1]}
                    if scheme in SCHEMES:
                        found = [score(scheme, X, y, epsilon, seed)]
                    else:
                        found = list(rivals(scheme, X, y, epsilon, seed))
                    for each in found:
                        keep(chosen.output, about | each)
                    best = max(each["auc"] for each in found)
                    print(f"{name}, ε = {epsilon:g}, {scheme}, seed {seed}: {best:.4f}", flush=True)


if __name__ == "__main__":
    main()
