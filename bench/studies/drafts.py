"""From a raw file to a model by commands: transcripts, and what private drafts of a schema keep.

Typed tables (telco, heart2020, kc, …) are read from a folder of ``NAME.csv.xz``, the hospital
visits and the default of credits from the folders beside it that bear their names. Run one part:

    python -m bench.studies.drafts transcripts FOLDER --output PLACE
    python -m bench.studies.drafts bounds FOLDER --seeds 10
    python -m bench.studies.drafts scores FOLDER --splits 5

- ``transcripts`` runs at most six commands for each table, from the raw file to a model with its
  summary, effects, card and predictions, and writes what they print. The last table is made up:
  semicolons, decimal commas, Windows-1252, dates like 31.12.2024 and ids.
- ``bounds`` drafts each table at ε = 0.5, and prints the least and the mean share of the numbers
  that lie within the bounds of the target and of the features, over drafts.
- ``scores`` compares a draft at ε = 0.5 and a fit at ε = 1 by it with a fit at ε = 1.5 that was
  told the kinds of the columns, finds levels itself, and has no bounds either.
"""

from __future__ import annotations

import argparse
import lzma
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import GroupShuffleSplit

import discreet
from discreet.tables import Numeric, draft_private

DRAFT = 0.5
"""ε of a draft."""

FIT = 1.0
"""ε of a fit by it."""

DELTA = 1e-6

SLACK = 1e-9
"""δ of a draft."""

SHARE = 0.01
"""Share of the budget for the levels of each column of texts, where no draft found them."""


@dataclass(frozen=True)
class Raw:
    """A raw file: its target, the person of a row, an id for predictions, and stated facts."""

    name: str
    target: str
    unit: str | None = None
    identifier: str | None = None
    missing: tuple[str, ...] = ()
    file: str = "tables/{name}.csv.xz"
    stated: dict[str, str] = field(default_factory=dict)

    def packed(self, folder: Path) -> Path:
        """Return the place of the file; ``folder`` has the typed tables."""
        return folder.parent / self.file.format(name=self.name)

    def settings(self) -> dict[str, Any]:
        """Return the settings of a draft in Python."""
        return {"target": self.target, "unit": self.unit, "missing": self.missing, "header": True}

    def commands(self, file: str, others: str) -> list[list[str]]:
        """Return the commands from the file to a model, its card, effects and predictions."""
        name = self.name
        draft = ["schema", "draft", file, "--header", "--target", self.target]
        draft += ["--unit", self.unit] if self.unit else []
        for text in self.missing:
            draft += ["--missing", text]
        for option, value in self.stated.items():
            draft += [option, value]
        identifier = self.identifier or self.unit
        beside = ["--id", identifier] if identifier else []
        fit = ["fit", file, "--schema", f"{name}.toml", "--epsilon", f"{FIT:g}", "--delta", "1e-6"]
        card = ["explain", f"{name}.json", "-o", f"{name}.html", "--effects", f"{name}.png"]
        return [
            [*draft, "--epsilon", f"{DRAFT:g}", "-o", f"{name}.toml"],
            ["schema", "check", f"{name}.toml"],
            [*fit, "--inference", "-o", f"{name}.json"],
            card,
            ["predict", f"{name}.json", others, *beside, "-o", f"{name}-predicted.csv"],
        ]


TABLES = (
    Raw("telco", "Churn", identifier="customerID"),
    Raw("heart2020", "HeartDisease"),
    Raw("kc", "price", identifier="id"),
    Raw("california", "median_house_value"),
    Raw("pollution", "pm2.5", identifier="No", missing=("NA",)),
    Raw("insurance", "charges"),
    Raw(
        "visits",
        "readmitted",
        unit="patient_nbr",
        missing=("?",),
        file="hospital-visits/diabetic_data.csv.xz",
    ),
)

CREDITS = Raw(
    "credit-default",
    "default.payment.next.month",
    file="credit-default/UCI_Credit_Card.csv.xz",
)

MESSY = Raw(
    "messy",
    "readmitted",
    unit="patient",
    stated={"--encoding": "cp1252", "--dates": "%d.%m.%Y"},
)


# ---- transcripts


def transcripts(folder: Path, place: Path, names: Sequence[str]) -> None:
    """Write what the commands of each table print, as a person sees it in 80 columns."""
    place.mkdir(parents=True, exist_ok=True)
    for raw in (*TABLES[:6], MESSY):
        if names and raw.name not in names:
            continue
        with tempfile.TemporaryDirectory() as work:
            files = _files(raw, folder, Path(work))
            shown = [_run(command, Path(work)) for command in raw.commands(*files)]
        file = place / f"{raw.name}.txt"
        file.write_text("\n".join(text for text, _ in shown))
        codes = [code for _, code in shown]
        longest = max(len(line) for text, _ in shown for line in _prose(text))
        print(f"{raw.name}: {len(codes)} commands, exit codes {codes}, longest line {longest}")


def _files(raw: Raw, folder: Path, work: Path) -> tuple[str, str]:
    """Write the file of a table, and one of rows to predict; return their names."""
    if raw is MESSY:
        for name, rows, seed in (("visits.csv", "10000", "4"), ("new.csv", "1000", "5")):
            _run(["example", name, "--patients", rows, "--seed", seed, "--european"], work)
        return "visits.csv", "new.csv"
    with lzma.open(raw.packed(folder), "rt") as packed:
        text = packed.read()
    (work / f"{raw.name}.csv").write_text(text)
    (work / "new.csv").write_text("\n".join(text.splitlines()[:2001]) + "\n")
    return f"{raw.name}.csv", "new.csv"


def _run(command: Sequence[str], work: Path) -> tuple[str, int]:
    """Run a command, and return it with all that it printed, and its exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "discreet", *command],
        cwd=work,
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    code = f"[exit code {done.returncode}]\n" if done.returncode else ""
    return f"$ discreet {' '.join(command)}\n{done.stdout}{code}", done.returncode


def _prose(text: str) -> list[str]:
    """Return the lines that a command printed, without those of a table of coefficients."""
    lines = text.splitlines()[1:]
    rules = [at for at, line in enumerate(lines) if line.startswith("=====")]
    if not rules:
        return lines or [""]
    return lines[: rules[0] - 1] + lines[rules[-1] + 1 :]


# ---- bounds


def bounds(folder: Path, seeds: int, names: Sequence[str]) -> None:
    """Print the shares of numbers within the bounds of drafts."""
    print("| table | drafts | target, least [mean] | features with bounds | least |")
    print("|---|---|---|---|---|")
    for raw in TABLES:
        if names and raw.name not in names:
            continue
        read = pd.read_csv(raw.packed(folder), na_values=[*raw.missing, " "], low_memory=False)
        of_target = []
        of_features = []
        for _ in range(seeds):
            schema = _drafted(raw.packed(folder), raw)
            target = schema.target
            if target is not None and not target.is_classification:
                of_target.append(_within(read[raw.target], target.low, target.high))
            of_features += [
                _within(read[name], column.low, column.high)
                for name, column in schema.columns.items()
                if isinstance(column, Numeric) and column.is_bounded
            ]
        shown = f"{min(of_target):.4f} [{np.mean(of_target):.4f}]" if of_target else "classes"
        least = f"{min(of_features):.4f}" if of_features else "left to the fit"
        print(f"| {raw.name} | {seeds} | {shown} | {len(of_features)} | {least} |", flush=True)


def _drafted(path: Path, raw: Raw) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return draft_private(path, DRAFT, SLACK, "add_remove", **raw.settings())


def _within(numbers: Any, low: Any, high: Any) -> float:
    present = pd.to_numeric(numbers, errors="coerce").dropna().to_numpy()
    return float(np.mean((present >= low) & (present <= high)))


# ---- scores


def scores(folder: Path, splits: int, names: Sequence[str]) -> None:
    """Print AUC or R² of fits by a draft, and of fits that were told kinds of columns."""
    print("| table | by a draft | told kinds | difference |")
    print("|---|---|---|---|")
    for raw in (CREDITS, *TABLES):
        if names and raw.name not in names:
            continue
        texts = pd.read_csv(raw.packed(folder), dtype=str, keep_default_na=False)
        typed = pd.read_csv(raw.packed(folder), na_values=[*raw.missing, " "], low_memory=False)
        people = typed[raw.unit] if raw.unit else np.arange(len(typed))
        parts = GroupShuffleSplit(splits, test_size=0.2, random_state=0).split(typed, groups=people)
        found = np.array([_pair(raw, texts, typed, train, test) for train, test in parts])
        difference = found[:, 0] - found[:, 1]
        error = difference.std(ddof=1) / np.sqrt(splits) if splits > 1 else np.nan
        drafted, told = found.mean(axis=0)
        change = f"{difference.mean():+.4f} ± {error:.4f}"
        print(f"| {raw.name} | {drafted:.4f} | {told:.4f} | {change} |", flush=True)


def _pair(raw: Raw, texts: Any, typed: Any, train: Any, test: Any) -> tuple[float, float]:
    """Return the scores of both ways on the same split."""
    with tempfile.TemporaryDirectory() as work, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(work) / "train.csv"
        texts.iloc[train].to_csv(path, index=False)
        schema = _drafted(path, raw)
        model = discreet.fit(None, path, schema=schema, epsilon=FIT, delta=DELTA)
        drafted = _score(model, texts.iloc[test], typed[raw.target].iloc[test])
        ids = [name for name in typed if name in schema.columns and name.lower() in ("#", "id")]
        table = typed.drop(columns=[*ids, *(["customerID"] if "customerID" in typed else [])])
        told = discreet.fit(raw.target, table.iloc[train], **_told(raw, table, schema))
        return drafted, _score(told, table.iloc[test], typed[raw.target].iloc[test])


def _told(raw: Raw, table: Any, schema: Any) -> dict[str, Any]:
    """Return the settings of a fit that finds levels, and is told the bounds of its target."""
    levels = {
        name: discreet.discover(SHARE)
        for name in table
        if not pd.api.types.is_numeric_dtype(table[name]) and name not in (raw.target, raw.unit)
    }
    settings = {"columns": levels or None, "unit": raw.unit, "epsilon": DRAFT + FIT, "delta": DELTA}
    if schema.target.is_classification:
        return settings | {"classes": sorted(table[raw.target].unique().tolist())}
    return settings | {"target_bounds": (schema.target.low, schema.target.high)}


def _score(model: Any, table: Any, target: Any) -> float:
    """Return the AUC for two classes, the mean AUC of each against the rest for more, or R²."""
    if not hasattr(model.estimator, "classes_"):
        known = target.notna().to_numpy()
        return float(r2_score(target[known], model.predict(table)[known]))
    found = np.asarray(model.predict_proba(table))
    labels = [str(label) for label in model.estimator.classes_]
    truth = target.astype(str).to_numpy()
    if len(labels) == 2:
        return float(roc_auc_score(truth == labels[1], found[:, 1]))
    areas = [roc_auc_score(truth == label, found[:, at]) for at, label in enumerate(labels)]
    return float(np.mean(areas))


def main() -> None:
    """Run a part of the study."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=["transcripts", "bounds", "scores"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="names of tables")
    parser.add_argument("--output", type=Path, default=Path("transcripts"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--splits", type=int, default=5)
    given = parser.parse_args()
    if given.part == "transcripts":
        transcripts(given.folder, given.output, given.only)
    elif given.part == "bounds":
        bounds(given.folder, given.seeds, given.only)
    else:
        scores(given.folder, given.splits, given.only)


if __name__ == "__main__":
    main()
