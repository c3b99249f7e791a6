"""Tables with names in their own units: six scripts, and what declarations and tables cost.

Eleven typed tables (telco, heart2020, kc, …) are read from a folder of ``NAME.csv.xz``, and the
hospital visits from ``diabetic_data.csv.xz`` in it or beside it. Run one part, or all:

    python -m bench.studies.columns scripts FOLDER
    python -m bench.studies.columns unseen FOLDER --fits 100
    python -m bench.studies.columns units FOLDER
    python -m bench.studies.columns declarations FOLDER --splits 20
    python -m bench.studies.columns cost FOLDER

- ``scripts`` runs a script of at most six lines per table, from a DataFrame to a model, its
  summary, effects, card and predictions.
- ``unseen`` fits telco with one random state after another, and prints the standard deviation over
  fits of the scores of usual rows, of rows with a level that no row had, and of rows with gaps.
- ``units`` fits each table in its own units and scaled by hand, with one random state, and prints
  the largest difference of the predictions, as a share of the range of the target.
- ``declarations`` compares scores with and without a true declaration: public bounds, lists of
  levels (without them `discover` finds them), and a bound on the norm of rows.
- ``cost`` compares a fit on a DataFrame with a fit on the same features as an array, in CPU time,
  and the peak of its memory with the size of the encoded table.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import lzma
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import GroupShuffleSplit

import discreet
from discreet import LinearRegression, LogisticRegression, discover
from discreet.column_kinds import check_columns
from discreet.design import Design

DELTA = 1e-6

BUDGETS = (0.1, 0.3, 1.0)

SCRIPTS = {
    "telco": """\
df = pd.read_csv(FOLDER / "telco.csv.xz", na_values=" ").drop(columns=["#", "customerID"])
texts = {name: discover(0.01) for name in df.select_dtypes("str").columns.drop("Churn")}
model = discreet.fit("Churn", df, classes=["No", "Yes"], columns=texts, epsilon=1, delta=1e-6)
print(model.summary(), model.card(), sep="\\n\\n")
model.plot_effects().savefig(OUTPUT / "telco.png")
print(model.predict_proba(df.head(3)))""",
    "heart2020": """\
df = pl.read_csv(lzma.open(FOLDER / "heart2020.csv.xz"))
texts = {name: discover(0.01) for name in df.select(pl.col(pl.String)).columns[1:]}
model = discreet.fit("HeartDisease", df, classes=["No", "Yes"], columns=texts, epsilon=1)
print(model.summary(), model.card(), sep="\\n\\n")
model.plot_effects().savefig(OUTPUT / "heart2020.png")
print(model.predict_proba(df.head(3)))""",
    "kc": """\
df = pd.read_csv(FOLDER / "kc.csv.xz", parse_dates=["date"], dtype={"zipcode": str})
known = {"zipcode": discover(0.05), "id": Ignored()}
model = discreet.fit("price", df, target_bounds=(0, 2e6), columns=known, epsilon=1, delta=1e-6)
print(model.summary(), model.card(), sep="\\n\\n")
model.plot_effects().savefig(OUTPUT / "kc.png")
print(model.predict(df.head(3)))""",
    "california": """\
df = pl.read_csv(lzma.open(FOLDER / "california.csv.xz"))
known = {"ocean_proximity": discover(), "longitude": (-125, -114), "latitude": (32, 42)}
model = discreet.fit("median_house_value", df, target_bounds=(0, 5e5), columns=known, epsilon=1)
print(model.summary(), model.card(), sep="\\n\\n")
model.plot_effects().savefig(OUTPUT / "california.png")
print(model.predict(df.head(3)))""",
    "pollution": """\
df = pd.read_csv(FOLDER / "pollution.csv.xz").dropna(subset="pm2.5").drop(columns="No")
known = {"cbwd": ["NW", "NE", "SE", "cv"], "month": (1, 12), "hour": (0, 23), "DEWP": None}
model = discreet.fit("pm2.5", df, target_bounds=(0, 500), columns=known, epsilon=1, delta=1e-6)
print(model.summary(), model.card(), sep="\\n\\n")
model.plot_effects().savefig(OUTPUT / "pollution.png")
print(model.predict(df.head(3)))""",
    "insurance": """\
df = pl.read_csv(lzma.open(FOLDER / "insurance.csv.xz"))
known = {name: discover(0.02) for name in ("sex", "smoker", "region")} | {"age": (18, 65)}
model = discreet.fit("charges", df, target_bounds=(0, 6e4), columns=known, epsilon=1, delta=1e-6)
print(model.summary(), model.card(), sep="\\n\\n")
model.plot_effects().savefig(OUTPUT / "insurance.png")
print(model.predict(df.head(3)))""",
}
"""Scripts by table. The last one has few rows, so that a large share goes to its levels."""


@dataclass(frozen=True)
class TypedTable:
    """A table of the folder, and what is public about it.

    Texts are categories: their levels are in the documentation of each table. ``bounds`` are true:
    no number of the table is beyond them.
    """

    target: str
    bounds: dict[str, tuple[float, float]]
    target_bounds: tuple[float, float] | None = None
    positive: str = ""
    left_out: Sequence[str] = ()
    names: Sequence[str] | None = None
    texts: Sequence[str] = ()
    unit: str | None = None
    file: str = ""
    reading: dict[str, Any] = field(default_factory=dict)

    @property
    def classes(self) -> bool:
        """True if the target has two classes."""
        return self.target_bounds is None

    def read(self, folder: Path, name: str) -> tuple[pd.DataFrame, np.ndarray, Any]:
        """Return features, target and units."""
        path = folder / f"{self.file or name}.csv.xz"
        if not path.exists():
            path = folder.parent / "hospital-visits" / path.name
        options: dict[str, Any] = {"dtype": dict.fromkeys(self.texts, str)} | self.reading
        if self.names is not None:
            options |= {"header": None, "names": list(self.names)}
        frame = pd.read_csv(path, **options)
        frame = frame.dropna(subset=self.target)
        target = frame.pop(self.target)
        units = None if self.unit is None else frame.pop(self.unit).to_numpy()
        frame = frame.drop(columns=list(self.left_out))
        for column in frame.select_dtypes("str"):
            frame[column] = frame[column].astype("category")
        y = (target == self.positive).to_numpy() if self.classes else target.to_numpy(dtype=float)
        return frame.reset_index(drop=True), y, units


LETTERS = {str(k): (0, 15) for k in range(1, 17)}

TABLES = {
    "telco": TypedTable(
        "Churn",
        {"tenure": (0, 72), "MonthlyCharges": (0, 150), "TotalCharges": (0, 10_000)},
        positive="Yes",
        left_out=("#", "customerID"),
        reading={"na_values": " "},
    ),
    "heart2020": TypedTable(
        "HeartDisease",
        {
            "BMI": (10, 100),
            "PhysicalHealth": (0, 30),
            "MentalHealth": (0, 30),
            "SleepTime": (0, 24),
        },
        positive="Yes",
    ),
    "kc": TypedTable(
        "price",
        {
            "bedrooms": (0, 40),
            "bathrooms": (0, 10),
            "sqft_living": (0, 15_000),
            "sqft_lot": (0, 2_000_000),
            "floors": (0, 5),
            "waterfront": (0, 1),
            "view": (0, 4),
            "condition": (1, 5),
            "grade": (1, 13),
            "sqft_above": (0, 15_000),
            "sqft_basement": (0, 10_000),
            "yr_built": (1900, 2015),
            "yr_renovated": (0, 2015),
            "lat": (47, 48),
            "long": (-123, -121),
            "sqft_living15": (0, 15_000),
            "sqft_lot15": (0, 2_000_000),
        },
        target_bounds=(0.0, 2e6),
        left_out=("id", "date"),
        texts=("zipcode",),
    ),
    "california": TypedTable(
        "median_house_value",
        {
            "longitude": (-125, -114),
            "latitude": (32, 42),
            "housing_median_age": (0, 55),
            "total_rooms": (0, 50_000),
            "total_bedrooms": (0, 10_000),
            "population": (0, 40_000),
            "households": (0, 10_000),
            "median_income": (0, 16),
        },
        target_bounds=(0.0, 500_001.0),
    ),
    "pollution": TypedTable(
        "pm2.5",
        {
            "year": (2010, 2014),
            "day": (1, 31),
            "hour": (0, 23),
            "DEWP": (-50, 40),
            "TEMP": (-30, 50),
            "PRES": (950, 1060),
            "Iws": (0, 600),
            "Is": (0, 30),
            "Ir": (0, 40),
        },
        target_bounds=(0.0, 500.0),
        left_out=("No",),
        texts=("month",),
    ),
    "insurance": TypedTable(
        "charges",
        {"age": (18, 65), "bmi": (10, 60), "children": (0, 10)},
        target_bounds=(0.0, 60_000.0),
    ),
    "abalone": TypedTable(
        "rings",
        {f"size{k}": (0, 3) for k in range(1, 8)},
        target_bounds=(0.0, 30.0),
        names=("sex", *(f"size{k}" for k in range(1, 8)), "rings"),
    ),
    "diamonds": TypedTable(
        "price",
        {
            "carat": (0, 6),
            "depth": (40, 80),
            "table": (40, 100),
            "x": (0, 12),
            "y": (0, 60),
            "z": (0, 35),
        },
        target_bounds=(0.0, 20_000.0),
    ),
    "letter": TypedTable("Letter", LETTERS, positive="A"),
    "magic": TypedTable(
        "class",
        {
            "length": (0, 400),
            "width": (0, 300),
            "size": (0, 6),
            "conc": (0, 1),
            "conc1": (0, 1),
            "asym": (-600, 600),
            "m3long": (-400, 400),
            "m3trans": (-300, 300),
            "alpha": (0, 90),
            "dist": (0, 500),
        },
        positive="g",
        names=(
            *("length", "width", "size", "conc", "conc1"),
            *("asym", "m3long", "m3trans", "alpha", "dist", "class"),
        ),
    ),
    "mammography": TypedTable(
        "class",
        {f"measure{k}": (-1, 32) for k in range(1, 7)},
        positive="'1'",
        names=(*(f"measure{k}" for k in range(1, 7)), "class"),
    ),
    "hospital": TypedTable(
        "readmitted",
        {
            "time_in_hospital": (1, 14),
            "num_lab_procedures": (0, 140),
            "num_procedures": (0, 6),
            "num_medications": (0, 90),
            "number_outpatient": (0, 50),
            "number_emergency": (0, 80),
            "number_inpatient": (0, 25),
            "number_diagnoses": (1, 16),
        },
        positive="<30",
        left_out=("encounter_id", "diag_1", "diag_2", "diag_3"),
        texts=("admission_type_id", "discharge_disposition_id", "admission_source_id"),
        unit="patient_nbr",
        file="diabetic_data",
        reading={"keep_default_na": False},
    ),
}
"""Typed tables with true public bounds of their numbers."""


def estimator(table: TypedTable, epsilon: float, **given: Any) -> Any:
    """Return a model of a table with this budget; by default all settings are the default."""
    kind: Any = LogisticRegression
    if table.target_bounds is not None:
        kind = LinearRegression
        given["target_bounds"] = table.target_bounds
    return kind(epsilon=epsilon, delta=DELTA, **given)


def linear(bounds: dict[str, tuple[float, float]]) -> dict[str, Any]:
    """Return declarations of bounds for straight lines."""
    return {name: (low, high, "linear") for name, (low, high) in bounds.items()}


def score(table: TypedTable, model: Any, X: pd.DataFrame, y: np.ndarray) -> float:
    """Return the area under the curve, or R² of targets within their bounds."""
    if table.target_bounds is None:
        return float(roc_auc_score(y, model.decision_function(X)))
    return float(r2_score(np.clip(y, *table.target_bounds), model.predict(X)))


def scripts(folder: Path, names: Sequence[str], output: Path) -> None:
    """Run the scripts, and print each with its output."""
    about = {
        "FOLDER": folder,
        "OUTPUT": output,
        "Ignored": discreet.tables.Ignored,
        "discover": discover,
        "discreet": discreet,
        "lzma": lzma,
        "pd": pd,
        "pl": pl,
    }
    for name in names:
        if name in SCRIPTS:
            lines = SCRIPTS[name]
            print(f"# {name}\n\n{lines}\n")
            start = time.process_time()
            exec(lines, dict(about))  # a script of this file
            print(f"\n{name}: {len(lines.splitlines())} lines, {time.process_time() - start:.1f} s")


def unseen(folder: Path, fits: int, epsilon: float) -> None:
    """Print the standard deviation over fits of scores of usual rows and of rows never seen."""
    table = TABLES["telco"]
    X, y, _ = table.read(folder, "telco")
    seen = X["PaymentMethod"] != "Mailed check"  # the fit has no row of this level
    X, y = X[seen].dropna(), y[seen & X.notna().all(axis=1)]  # and no row with a gap
    levels = {name: list(X[name].cat.categories) for name in X.select_dtypes("category")}
    X = X.astype(dict.fromkeys(levels, "str"))
    usual = X.head(200)
    kinds = {
        "usual rows": usual,
        "a listed level that no row had": usual.assign(PaymentMethod="Mailed check"),
        "a level that is not listed": usual.assign(PaymentMethod="By pigeon"),
        "a missing level": usual.assign(Contract=None),
        "a missing number": usual.assign(tenure=np.nan, TotalCharges=np.nan),
        "all of it": usual.assign(PaymentMethod="?", Contract=None, tenure=np.nan),
    }
    for bounds in ({}, linear(table.bounds)):
        scores: dict[str, list[np.ndarray]] = {kind: [] for kind in kinds}
        for seed in range(fits):
            model = estimator(table, epsilon, random_state=seed, columns=levels | bounds)
            model.fit(X, y)
            for kind, rows in kinds.items():
                scores[kind].append(model.decision_function(rows))
        spreads = {kind: float(np.std(own, axis=0).mean()) for kind, own in scores.items()}
        print(f"\n{fits} fits, ε = {epsilon:g}, {'public' if bounds else 'no'} bounds\n")
        print("| rows | deviation of scores | to usual rows |\n|---|---:|---:|")
        for kind, spread in spreads.items():
            print(f"| {kind} | {spread:.4f} | {spread / spreads['usual rows']:.2f} |")


def units(folder: Path, names: Sequence[str], epsilon: float) -> None:
    """Print the largest difference of predictions in own units and scaled by hand."""
    print("| table | in Python | curves | discreet.fit |\n|---|---:|---:|---:|")
    for name in names:
        table = TABLES[name]
        X, y, people = table.read(folder, name)
        scaled = X.copy()
        for column, (low, high) in table.bounds.items():
            scaled[column] = (X[column] - low) / (high - low)
        ends = dict.fromkeys(table.bounds, (0.0, 1.0))
        cells = []
        for shape in ("linear", "smooth"):
            found = []
            for rows, bounds in ((X, table.bounds), (scaled, ends)):
                columns = {key: (*own, shape) for key, own in bounds.items()}
                model = estimator(table, epsilon, random_state=0, columns=columns)
                found.append(predictions(table, model.fit(rows, y, groups=people), rows))
            cells.append(difference(table, *found))
        found = []
        for rows, bounds in ((X, table.bounds), (scaled, ends)):
            model = by_name(table, rows, y, people, linear(bounds), epsilon)
            found.append(predictions(table, model, rows))
        cells.append(difference(table, *found))
        print(f"| {name} | {' | '.join(f'{cell:.1e}' for cell in cells)} |", flush=True)


def by_name(
    table: TypedTable, X: pd.DataFrame, y: np.ndarray, people: Any, columns: Any, epsilon: float
) -> Any:
    """Fit a table that has its target and unit as columns."""
    whole = X.assign(**{table.target: y})
    given: dict[str, Any] = {"target_bounds": table.target_bounds}
    if table.unit is not None:
        whole[table.unit] = people
        given["unit"] = table.unit
    given |= {"columns": columns, "epsilon": epsilon, "delta": DELTA, "random_state": 0}
    return discreet.fit(table.target, whole, **given)


def predictions(table: TypedTable, model: Any, X: pd.DataFrame) -> np.ndarray:
    """Return the probabilities of the second class, or the predicted numbers."""
    found: np.ndarray = model.predict_proba(X)[:, 1] if table.classes else model.predict(X)
    return found


def difference(table: TypedTable, first: np.ndarray, second: np.ndarray) -> float:
    """Return the largest difference of predictions, as a share of the target's range."""
    low, high = (0.0, 1.0) if table.target_bounds is None else table.target_bounds
    return float(np.abs(first - second).max()) / (high - low)


DECLARATIONS = ("bounds", "levels", "data_norm")


def declarations(folder: Path, names: Sequence[str], splits: int) -> None:
    """Print scores with and without true declarations, and the paired differences."""
    print("| table | ε | declared | without | with | difference | in standard errors |")
    print("|---|---:|---|---:|---:|---:|---:|")
    for name in names:
        table = TABLES[name]
        X, y, people = table.read(folder, name)
        for epsilon in BUDGETS:
            scores: dict[str, list[float]] = {}
            for seed in range(splits):
                for kind, value in _scores(table, X, y, people, epsilon, seed):
                    scores.setdefault(kind, []).append(value)
            for kind, base in (
                ("bounds", "nothing"),
                ("levels", "found levels"),
                ("data_norm", "bounds"),
            ):
                if kind in scores and base in scores:
                    _print_pair(f"{name} | {epsilon:g} | {kind}", scores[base], scores[kind])


def _scores(
    table: TypedTable, X: pd.DataFrame, y: np.ndarray, people: Any, epsilon: float, seed: int
) -> Iterator[tuple[str, float]]:
    """Yield the score of each declaration on one split."""
    split = GroupShuffleSplit(1, test_size=0.3, random_state=seed)
    train, test = next(split.split(X, y, np.arange(len(y)) if people is None else people))
    known = linear(table.bounds)
    texts = X.select_dtypes("category").columns
    plain = X.astype(dict.fromkeys(texts, "str"))
    norm = float(np.sqrt(X.shape[1]))
    found = {name: discover(0.05 / len(texts) if epsilon < 1 else 0.02) for name in texts}
    kinds: dict[str, tuple[pd.DataFrame, dict[str, Any]]] = {
        "nothing": (X, {}),
        "bounds": (X, {"columns": known}),
        "data_norm": (X, {"columns": known, "data_norm": norm}),
    }
    if len(texts):
        listed = {name: list(X[name].cat.categories) for name in texts}
        kinds["levels"] = (plain, {"columns": listed})
        kinds["found levels"] = (plain, {"columns": found})
    for kind, (rows, given) in kinds.items():
        model = estimator(table, epsilon, random_state=seed, **given)
        own = None if people is None else people[train]
        model.fit(rows.iloc[train], y[train], groups=own)
        yield kind, score(table, model, rows.iloc[test], y[test])


def _print_pair(name: str, without: list[float], declared: list[float]) -> None:
    """Print two means, their paired difference, and that in its standard errors."""
    paired = np.array(declared) - np.array(without)
    error = float(paired.std(ddof=1)) / np.sqrt(len(paired)) if len(paired) > 1 else np.inf
    ratio = float(paired.mean()) / error if error else 0.0
    means = f"{np.mean(without):.4f} | {np.mean(declared):.4f}"
    print(f"| {name} | {means} | {paired.mean():+.4f} ± {error:.4f} | {ratio:+.1f} |", flush=True)


def cost(folder: Path, names: Sequence[str], repeats: int) -> None:
    """Print CPU time and peak memory of fits on DataFrames and on their features.

    Times are with ``inference=False`` and with the default, whose rule gives intervals to some
    tables and not to arrays of the same features, or the other way round.
    Memory is that of a process of its own for each table, which has loaded the DataFrame. The peak
    is what a second fit adds to the resident memory. What the first fit needed beyond that is
    needed once, for imports, compiled code and tables of constants, however many rows there are.
    """
    print("| table | rows | features | array, s | table, s | ratio ", end="")
    print("| array, default | table, default | ratio ", end="")
    print("| encoded, MB | once, MB | peak, MB | peak/encoded |")
    print("|---" + "|---:" * 12 + "|")
    for name in names:
        table = TABLES[name]
        X, y, people = table.read(folder, name)
        columns = linear(table.bounds)
        design = Design.of(X, check_columns(columns))
        assert design is not None
        encoded = filled(design.encode(X))

        given: tuple[dict[str, Any], ...] = ({"inference": False}, {})
        runs = [
            partial(refit, table, rows, y, people, **own, **more)
            for more in given
            for rows, own in ((encoded, {}), (X, {"columns": columns}))
        ]
        found = seconds_of(runs, repeats)
        shape = f"{len(y):,} | {design.width}"
        times = " | ".join(
            f"{array:.3f} | {frame:.3f} | {frame / array:.2f}"
            for array, frame in (found[:2], found[2:])
        )
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            size, once, peak = pool.submit(memory, folder, name).result()
        memories = f"{size:.1f} | {once:.1f} | {peak:.1f} | {peak / size:.2f}"
        print(f"| {name} | {shape} | {times} | {memories} |", flush=True)


def memory(folder: Path, name: str) -> tuple[float, float, float]:
    """Return sizes in MB: of the encoded table, of what the first fit needs once, of a peak."""
    warnings.simplefilter("ignore")
    table = TABLES[name]
    X, y, people = table.read(folder, name)
    columns = linear(table.bounds)
    design = Design.of(X, check_columns(columns))
    assert design is not None
    few = X.iloc[:1_000]
    size = _bytes_of(design.encode(few)) / len(few) * len(X)
    run = partial(refit, table, X, y, people, columns=columns)
    first = peak_memory(run)
    peak = peak_memory(run)
    return size / 1e6, (first - peak) / 1e6, peak / 1e6


def refit(table: TypedTable, X: Any, y: np.ndarray, people: Any, **given: Any) -> None:
    """Fit a model of a table."""
    estimator(table, 1.0, random_state=0, **given).fit(X, y, groups=people)


def seconds_of(runs: Sequence[Callable[[], None]], repeats: int) -> list[float]:
    """Return the median CPU time of runs, which take turns."""
    times: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run()  # compiles
    for _ in range(repeats):
        for run, own in zip(runs, times, strict=True):
            start = time.process_time()
            run()
            own.append(time.process_time() - start)
    return [statistics.median(own) for own in times]


def filled(encoded: Any) -> Any:
    """Return encoded rows without gaps, which arrays cannot have."""
    if isinstance(encoded, np.ndarray):
        return np.nan_to_num(encoded, nan=0.5)
    encoded.data = np.nan_to_num(encoded.data, nan=0.5)
    return encoded


def _bytes_of(encoded: Any) -> int:
    """Return the number of bytes of a dense or sparse table."""
    if isinstance(encoded, np.ndarray):
        return encoded.nbytes
    return int(encoded.data.nbytes + encoded.indices.nbytes + encoded.indptr.nbytes)


def peak_memory(run: Callable[[], None]) -> float:
    """Return what a run adds to the resident memory of this process, in bytes, at most."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew
    before = _resident("VmRSS")
    run()
    return _resident("VmHWM") - before


def _resident(name: str) -> float:
    """Return a number of bytes that Linux states of this process."""
    status = Path("/proc/self/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith(f"{name}:")]
    return 1024.0 * float(line.split()[1])


def main() -> None:
    """Run a part of the study."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parts = ("scripts", "unseen", "units", "declarations", "cost")
    parser.add_argument("part", choices=parts)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", help="names, with commas; by default all of the part")
    parser.add_argument("--fits", type=int, default=100)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--output", type=Path, default=Path())
    options = parser.parse_args()
    os.environ.setdefault("MPLBACKEND", "agg")
    warnings.simplefilter("ignore")
    first = list(SCRIPTS) if options.part in ("scripts", "declarations") else list(TABLES)
    names = first if options.tables is None else options.tables.split(",")
    if options.part == "scripts":
        scripts(options.folder, names, options.output)
    elif options.part == "unseen":
        unseen(options.folder, options.fits, options.epsilon)
    elif options.part == "units":
        units(options.folder, names, options.epsilon)
    elif options.part == "declarations":
        declarations(options.folder, names, options.splits)
    else:
        cost(options.folder, names, options.repeats)


if __name__ == "__main__":
    main()
