"""Measure the families of docs/families.md: counts, amounts, quantiles, classes in order, survival.

    python -m discreet_bench.families --seeds 5

Generated tables have 20,000 rows. Real ones are files of the folder that DISCREET_DATA names.
Splits are 80/20, by people where rows belong to them, and seeded; the noise is not. In fits and
scores each person counts once. The first column is a fit of the same model without privacy.
"""

from __future__ import annotations

import argparse
import lzma
import os
import time
import warnings
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit
from sklearn import linear_model
from sklearn.metrics import d2_pinball_score, d2_tweedie_score

from discreet import (
    DiscreteTimeSurvival,
    GammaRegressor,
    OrdinalClassifier,
    PoissonRegressor,
    QuantileRegressor,
)
from discreet.estimators.levels import PersonPeriods

__all__ = ["CASES", "EPSILONS", "main"]

EPSILONS = (0.3, 1.0, 3.0)
DELTA = 1e-6
ROWS = 20_000
COEF = np.array([0.3, -0.24, 0.18, 0.0, 0.12])

Array = NDArray[Any]
Score = Callable[[Any, Array, dict[str, Array]], float]


@dataclass(frozen=True)
class Case:
    """Rows, the arguments of ``fit`` after X, a private model, an exact one, and a score."""

    X: Array
    fit: dict[str, Array]
    model: Any
    exact: Callable[[Array, dict[str, Array]], Any]
    score: Score
    settings: dict[str, Any] = field(default_factory=dict)


def _normal(rng: np.random.Generator) -> Array:
    return rng.normal(size=(ROWS, 5)) @ (np.eye(5) + 0.3)


def _shares(given: dict[str, Array]) -> Array:
    """Return weights of rows by which each person counts once."""
    if "groups" not in given:
        return np.ones(len(given["y"]))
    _, codes, counts = np.unique(given["groups"], return_inverse=True, return_counts=True)
    return np.asarray(1.0 / counts[codes])


def _d2(power: int) -> Score:
    def score(model: Any, X: Array, given: dict[str, Array]) -> float:
        exposure = given.get("exposure", np.ones(len(X)))
        rates, weights = given["y"] / exposure, exposure * _shares(given)
        predicted = np.maximum(model.predict(X), 1e-9)
        return float(d2_tweedie_score(rates, predicted, sample_weight=weights, power=power))

    return score


def _glm(kind: Any) -> Callable[[Array, dict[str, Array]], Any]:
    def exact(X: Array, given: dict[str, Array]) -> Any:
        exposure = given.get("exposure", np.ones(len(X)))
        model = kind(alpha=1e-4, max_iter=3000)
        weights = exposure * _shares(given)
        return model.fit(X, given["y"] / exposure, sample_weight=weights)

    return exact


def _ours(kind: Any, **settings: Any) -> Callable[[Array, dict[str, Array]], Any]:
    """Return the exact fit of the same objective: the model of discreet without privacy."""

    def exact(X: Array, given: dict[str, Array]) -> Any:
        return kind(solver="nonprivate", alpha=1e-6, **settings).fit(X, **given)

    return exact


def _counts(rng: np.random.Generator) -> Case:
    X = _normal(rng)
    y = rng.poisson(np.exp(X @ COEF + 1)).astype(float)
    model, exact = PoissonRegressor, _glm(linear_model.PoissonRegressor)
    return Case(X, {"y": y}, model, exact, _d2(1), {"target_bounds": (0, 30)})


def _amounts(rng: np.random.Generator) -> Case:
    X = _normal(rng)
    y = rng.gamma(2.0, np.exp(X @ COEF + 1) / 2.0) + 1e-3
    model, exact = GammaRegressor, _glm(linear_model.GammaRegressor)
    return Case(X, {"y": y}, model, exact, _d2(2), {"target_bounds": (0.01, 60)})


def _quantiles(X: Array, y: Array, bounds: tuple[float, float], level: float) -> Case:
    def score(model: Any, X: Array, given: dict[str, Array]) -> float:
        predicted = np.clip(model.predict(X), *bounds)
        return float(d2_pinball_score(given["y"], predicted, alpha=level))

    def exact(X: Array, given: dict[str, Array]) -> Any:
        few = np.random.default_rng(0).permutation(len(X))[:5000]  # the linear program is slow
        model = linear_model.QuantileRegressor(quantile=level, alpha=0.0)
        return model.fit(X[few], given["y"][few])

    settings = {"target_bounds": bounds, "quantile": level}
    return Case(X, {"y": y}, QuantileRegressor, exact, score, settings)


def _spread(rng: np.random.Generator) -> Case:
    X = _normal(rng)
    noise = (1 + 0.3 * np.clip(X[:, 0], -2, 2)) * rng.normal(size=ROWS)
    return _quantiles(X, X @ COEF + noise, (-8, 8), 0.9)


def _ordinal(X: Array, fit: dict[str, Array], classes: Sequence[int]) -> Case:
    def score(model: Any, X: Array, given: dict[str, Array]) -> float:
        """Return the share of the log loss of the classes' frequencies that is explained."""
        codes = np.searchsorted(classes, given["y"])
        weights = _shares(given)
        shares = np.bincount(codes, weights, minlength=len(classes)) / weights.sum()
        chances = np.clip(model.predict_proba(X)[np.arange(len(codes)), codes], 1e-12, 1)
        return float(1 - (weights @ np.log(chances)) / (weights @ np.log(shares[codes])))

    exact = _ours(OrdinalClassifier, classes=list(classes))
    return Case(X, fit, OrdinalClassifier, exact, score, {"classes": list(classes)})


def _classes(rng: np.random.Generator) -> Case:
    X = _normal(rng)
    y = np.digitize(2 * X @ COEF + rng.logistic(size=ROWS), [-2, -0.5, 0.5, 2.5])
    return _ordinal(X, {"y": y}, range(5))


def _survival(X: Array, fit: dict[str, Array], periods: int) -> Case:
    def score(model: Any, X: Array, given: dict[str, Array]) -> float:
        """Return the share of the log loss of each period's frequency that is explained."""
        rows = PersonPeriods.of(given["y"], given["event"], np.arange(1.0, periods + 1))
        person, at, event, _ = (part[rows.at_risk] for part in rows)
        own = _shares(given)[person]
        counts = np.bincount(at, own, minlength=periods)
        shares = np.bincount(at, own * event, minlength=periods) / np.maximum(counts, 1e-9)

        def loss(hazard: Array) -> float:
            hazard = np.clip(hazard, 1e-9, 1 - 1e-9)
            return float(-own @ np.where(event, np.log(hazard), np.log1p(-hazard)))

        return 1 - loss(model.predict_hazard(X)[person, at]) / loss(shares[at])

    exact = _ours(DiscreteTimeSurvival, periods=periods, baseline="free")
    return Case(X, fit, DiscreteTimeSurvival, exact, score, {"periods": periods})


def _times(rng: np.random.Generator) -> Case:
    X, base = _normal(rng), np.array([-3, -2.6, -2.4, -2.2, -2.2, -2.4, -2.6, -3])
    events = rng.random((ROWS, 8)) < expit((2 * X @ COEF)[:, None] + base)
    first = np.where(events.any(axis=1), events.argmax(axis=1) + 1, 9)
    censored = rng.integers(1, 9, ROWS)
    fit = {"y": np.minimum(first, censored), "event": (first <= censored).astype(int)}
    return _survival(X, fit, 8)


def _folder(name: str) -> Path:
    return Path(os.environ.get("DISCREET_DATA", "no-data")) / name


def _bike() -> tuple[Array, Array]:
    """Return hours of the bike rental: weather, and one column per hour, month and kind."""
    with zipfile.ZipFile(_folder("bike-sharing") / "Bike-Sharing-Dataset.zip") as archive:
        table = pd.read_csv(archive.open("hour.csv"))
    parts = [pd.get_dummies(table[name]) for name in ("hr", "mnth", "weathersit")]
    numbers = table[["temp", "hum", "windspeed", "workingday", "yr"]]
    X = pd.concat([numbers, *parts], axis=1).to_numpy(dtype=np.float64)
    return X, table["cnt"].to_numpy(dtype=np.float64)


def _bike_counts(_: np.random.Generator) -> Case:
    X, y = _bike()
    model, exact = PoissonRegressor, _glm(linear_model.PoissonRegressor)
    return Case(X, {"y": y}, model, exact, _d2(1), {"target_bounds": (0, 1000)})


def _bike_quantile(_: np.random.Generator) -> Case:
    return _quantiles(*_bike(), (0, 1000), 0.9)


def _visits() -> tuple[pd.DataFrame, Array]:
    """Return hospital visits, and columns that are known at admission."""
    with lzma.open(_folder("hospital-visits") / "diabetic_data.csv.xz", "rt") as file:
        table = pd.read_csv(file, na_values="?", low_memory=False)
    age = table["age"].str.extract(r"(\d+)")[0].astype(float) / 100
    before = ["number_outpatient", "number_emergency", "number_inpatient"]
    earlier = table[before].clip(upper=10) / 10
    kinds = pd.get_dummies(table["admission_type_id"].where(table["admission_type_id"] < 4, 4))
    sex, insulin = table["gender"] == "Female", table["insulin"] != "No"
    X = pd.concat([age, earlier, kinds, sex, insulin], axis=1).to_numpy(dtype=np.float64)
    return table, X


def _medications(_: np.random.Generator) -> Case:
    table, X = _visits()
    fit = {
        "y": table["num_medications"].to_numpy(float),
        "exposure": table["time_in_hospital"].to_numpy(float),
        "groups": table["patient_nbr"].to_numpy(),
    }
    settings = {"target_bounds": (0, 40), "exposure_bound": 14.0}
    exact = _glm(linear_model.PoissonRegressor)
    return Case(X, fit, PoissonRegressor, exact, _d2(1), settings)


def _readmission(_: np.random.Generator) -> Case:
    table, X = _visits()
    y = table["readmitted"].map({"NO": 0, ">30": 1, "<30": 2}).to_numpy()
    return _ordinal(X, {"y": y, "groups": table["patient_nbr"].to_numpy()}, range(3))


def _stay(_: np.random.Generator) -> Case:
    table, X = _visits()
    days = table["time_in_hospital"].to_numpy(float)
    fit = {"y": days, "event": np.ones(len(days)), "groups": table["patient_nbr"].to_numpy()}
    return _survival(X, fit, 14)


CASES: dict[str, Callable[[np.random.Generator], Case]] = {
    "counts (generated), D²": _counts,
    "amounts (generated), D²": _amounts,
    "0.9-quantile (generated), D² of pinball": _spread,
    "ordered classes (generated), share of log loss": _classes,
    "survival (generated), share of log loss": _times,
    "bike rentals per hour, D²": _bike_counts,
    "0.9-quantile of bike rentals, D² of pinball": _bike_quantile,
    "medications per day in hospital, people, D²": _medications,
    "readmission in three classes, people, share of log loss": _readmission,
    "days in hospital, people, share of log loss": _stay,
}


def _part(case: Case, rows: Array) -> tuple[Array, dict[str, Array]]:
    return case.X[rows], {name: values[rows] for name, values in case.fit.items()}


def measure(case: Case, epsilons: Sequence[float], seed: int) -> dict[float | None, float]:
    """Return the score on test rows by ε; None without privacy."""
    people = case.fit.get("groups", np.arange(len(case.X)))
    found = np.random.default_rng(seed).permutation(np.unique(people))
    test = np.isin(people, found[: len(found) // 5])
    X, given = _part(case, np.flatnonzero(~test))
    X_test, wanted = _part(case, np.flatnonzero(test))
    scores: dict[float | None, float] = {None: case.score(case.exact(X, given), X_test, wanted)}
    for epsilon in epsilons:
        model = case.model(epsilon, DELTA, **case.settings).fit(X, **given)
        scores[epsilon] = case.score(model, X_test, wanted)
    return scores


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line: print one Markdown row per case."""
    parser = argparse.ArgumentParser(description="Measure the families.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="part of the names of the cases to run")
    asked = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # exact fits that stop at their last iteration
    print("| case | not private |" + "".join(f" ε = {each:g} |" for each in EPSILONS) + " s |")
    print("|---|" + "---:|" * (len(EPSILONS) + 2))
    for name, make in CASES.items():
        if asked.only not in name:
            continue
        try:
            case, start = make(np.random.default_rng(0)), time.perf_counter()
        except FileNotFoundError:
            print(f"| {name} | left out: DISCREET_DATA has no such data |")
            continue
        runs = [measure(case, EPSILONS, seed) for seed in range(asked.seeds)]
        seconds = (time.perf_counter() - start) / asked.seeds
        cells = []
        for key in (None, *EPSILONS):
            values = [run[key] for run in runs]
            cells.append(f"{np.mean(values):.3f} ± {np.std(values):.3f}")
        print(f"| {name} | {' | '.join(cells)} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
