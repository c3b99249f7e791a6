"""Fit many models with fixed seeds, and compare the results of two versions of the code.

    python tools/seeds.py --write before.npz [--source ../other-checkout/src] [--only TEXT]
    python tools/seeds.py --compare before.npz after.npz

A change of the code that is meant to change no result must give the same numbers for the same
seeds. Each case is a fit on a generated table, made through the public interface: a solver, a loss,
a form of the table, a unit of privacy, a relation and a preparation. Its key says how it is built,
and its kind what a comparison demands:

- ``plain``: no preparation. Every bit must be the same.
- ``mapped``: prepared rows are an affine map of the rows of the table. Every bit must be the same.
- ``copied``: the solver needs prepared rows in a table of their own. Numbers may differ by 1e-9 of
  the largest one, and by 1e-5 for tables of float32.
- ``other``: transformers, private drafts and tuning. Differences are shown only.

A setting that is refused is a result, too: the type of the exception is recorded and compared. The
exit code of a comparison is 1 if a case differs by more than its kind allows, or is missing.

The guarantee of each fit is compared, too: its numbers must be equal, and sentences that changed
are listed. Both files must be written on the same machine, as the last bits of sums depend on it.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import importlib
import json
import os
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy: sums of BLAS depend on it

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).parents[1]

ROWS = 800
"""Rows of the tables: one of a few hundred is enough to pass every line."""

LARGE = 45_000
"""Rows of a large table: several blocks of a sum, and enough for a preparation on a sample."""

COLUMNS = 5
"""Columns of the tables."""

WIDTH = 40
"""Columns of noise that a wide table has besides."""

TOLERANCES = {"plain": 0.0, "mapped": 0.0, "copied": 1e-9}
"""Relative difference that each kind of case may have; other kinds are not judged."""

FLOAT32_TOLERANCE = 1e-5
"""The same for copied tables of float32, whose prepared rows are rounded to 24 bits."""

GUARANTEE_TEXTS = ("conditions", "public")
"""Parts of a guarantee that are texts: a difference between them is reported, not judged."""

MAPPED = ("auto", "gd", "shrunk-gd", "newton")
"""Solvers that take mapped rows."""

SOLVERS = (
    *("agd", "amp", "amp-hf", "frank-wolfe", "gd", "laplace-sgd", "majority", "newton"),
    *("nonprivate", "objpert", "outpert", "permutation-sgd", "privgene", "rrpsgd", "sgd"),
    *("sgd-adv", "sgd-ma", "shrunk-gd"),
)
"""Names of the solvers; ``auto`` has cases of its own."""

ONE_RELATION = ("laplace-sgd", "permutation-sgd", "rrpsgd")
"""Solvers that have a proof for ``replace_one`` only."""

PURE = ("frank-wolfe", "laplace-sgd", "objpert", "outpert", "permutation-sgd", "privgene")
"""Solvers that take δ = 0."""

PUBLISHED = {name: True for name in SOLVERS if name not in (*MAPPED, "majority", "nonprivate")}
PUBLISHED |= dict.fromkeys(("agd", "laplace-sgd", "privgene"), False)
"""Solvers with the calibration of their paper, and whether it can be ``unsafe``."""

VARIANTS = (
    "rrpsgd:gradient_clip=1.0",
    "permutation-sgd:gradient_clip=1.0",
    "laplace-sgd:gradient_clip=1.0,averaging=True",
    "sgd:batch_size=50,averaging=False",
    "agd:sampling_rate=0.2",
    "gd:quasi_newton=True",
    "gd:start_share=0.1,shrink=True",
    "newton:iterations=3,shrink=True",
    "frank-wolfe:radius=5.0",
)
"""Solvers with settings that take another path than their defaults."""

# ---- what a case is made of

MODELS: dict[str, tuple[str, dict[str, Any], str]] = {
    "logistic": ("LogisticRegression", {"classes": [0, 1]}, "label"),
    "multi-logistic": ("LogisticRegression", {"classes": [0, 1, 2]}, "grade"),
    "hinge": ("LinearSVC", {"loss": "hinge", "classes": [0, 1]}, "label"),
    "huber-hinge": ("LinearSVC", {"loss": "huber", "classes": [0, 1]}, "label"),
    "sigmoid": ("LinearSVC", {"loss": "sigmoid", "classes": [0, 1]}, "label"),
    "multi-hinge": ("LinearSVC", {"loss": "huber", "classes": [0, 1, 2]}, "grade"),
    "squared": ("LinearRegression", {"target_bounds": (-4.0, 6.0)}, "number"),
    "unbounded": ("LinearRegression", {}, "number"),
    "huber": ("HuberRegressor", {"target_bounds": (-4.0, 6.0)}, "number"),
    "quantile": ("QuantileRegressor", {"target_bounds": (-4.0, 6.0), "quantile": 0.3}, "number"),
    "poisson": ("PoissonRegressor", {"target_bounds": (0.0, 8.0)}, "count"),
    "gamma": ("GammaRegressor", {"target_bounds": (0.1, 8.0)}, "amount"),
    "ordinal": ("OrdinalClassifier", {"classes": [0, 1, 2]}, "grade"),
    "survival": ("DiscreteTimeSurvival", {"periods": 4}, "count"),
}
"""Losses by name: estimator, its settings, and the target of the table."""

LAYOUTS = ("fortran", "float32", "csr", "csr32", "dask", "wide")
"""Forms of a table besides rows of float64: other orders, types and stores, or many columns."""

PEOPLE = ("people", "people3", "weights")
"""Units and weights of rows: people with several rows, with ``rows_per_unit=3``, and weights."""

UNITS = (*PEOPLE, "balanced")
"""The same for classifiers, whose classes may be balanced."""

STEPS: dict[str, tuple[str, dict[str, Any]]] = {
    "bounds": ("Bounds", {"columns": (0, 2)}),
    "magnitude": ("Magnitude", {}),
    "largest": ("Largest", {}),
    "radius": ("Radius", {}),
    "centre": ("Centre", {}),
    "spread": ("Spread", {}),
    "scale": ("Scale", {}),
    "whiten": ("Whiten", {}),
}
"""Steps of a preparation by name: class and settings."""

FOUR = "radius+centre+scale+whiten"
THREE = "radius+centre+scale"
AFFINE = (
    "radius",
    "radius+scale",
    "radius+whiten",
    "radius+centre+spread",
    THREE,
    FOUR,
    "magnitude+radius+centre+scale",
    "largest+radius+centre+scale+whiten",
    "magnitude+largest+radius+centre+magnitude+scale+whiten",
    "bounds+radius+centre+scale",
)
"""Preparations that are one affine map, for solvers that take one."""


@dataclass(frozen=True)
class Case:
    """One fit: how it is built, and what a comparison of its results demands.

    ``solver`` is a name, with settings after a colon: ``amp:calibration=published,unsafe=True``.
    ``settings`` are arguments of the estimator, ``given`` arguments of its method ``fit``.
    """

    kind: str
    model: str
    solver: str = "auto"
    layout: str = "float64"
    units: str = "rows"
    relation: str = "add_remove"
    preparation: str = ""
    rows: int = ROWS
    settings: tuple[tuple[str, Any], ...] = ()
    given: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Name of the case, which says how it is built."""
        parts = [self.kind, self.model, self.solver, self.layout, self.units, self.relation]
        parts += [f"preparation={self.preparation}"] if self.preparation else []
        parts += [f"rows={self.rows}"] if self.rows != ROWS else []
        parts += [f"{name}={value}" for name, value in self.settings]
        return " ".join([*parts, *self.given])


@dataclass
class Record:
    """Results of a case: arrays, and a text for what is no array."""

    key: str
    error: str = ""
    trace: int = 0
    guarantee: dict[str, Any] | None = None
    arrays: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Kind of the case."""
        return self.key.partition(" ")[0]


# ---- the list of cases


def cases() -> list[Case]:
    """Return all cases that are fits, in a fixed order."""
    found = [*_losses(), *_tables_and_units(), *_calibrations(), *_affine(), *_copied()]
    found += [*_automatic(), *_features(), *_intervals(), *_refused()]
    return list(dict.fromkeys(found))


NORM = (("data_norm", 3.0),)
"""A public bound on the norm of rows, which clips some of them."""


def _plain(model: str, solver: str, **other: Any) -> Case:
    """Return a case without preparation, on rows of a public norm."""
    other.setdefault("relation", "replace_one")
    settings = (*NORM, *other.pop("settings", ()))
    return Case("plain", model, solver, settings=settings, **other)


def _losses() -> Iterator[Case]:
    """Yield every solver with every loss, under both relations."""
    for solver in SOLVERS:
        for model in MODELS:
            yield _plain(model, solver)
        if solver not in ONE_RELATION:
            for model in ("logistic", "multi-logistic", "squared"):
                yield _plain(model, solver, relation="add_remove")
        yield _plain("huber-hinge", solver, settings=(("epsilon", 1.0),))
    for solver in ("gd", "newton", "agd", "sgd", "privgene", "frank-wolfe", "nonprivate"):
        for model in ("logistic", "squared"):
            yield Case("plain", model, solver)
            yield Case("plain", model, solver, settings=(("fit_intercept", False),))
    for solver in ("gd", "shrunk-gd", "newton", "agd", "objpert", "outpert", "amp", "sgd"):
        yield _plain("logistic", solver, rows=LARGE)
        yield _plain("squared", solver, rows=LARGE)


def _tables_and_units() -> Iterator[Case]:
    """Yield every solver with every form of a table and every unit."""
    for solver in SOLVERS:
        for layout in LAYOUTS:
            yield _plain("logistic", solver, layout=layout)
            yield _plain("huber", solver, layout=layout)
        for units in UNITS:
            yield _plain("logistic", solver, units=units)
    for solver in ("gd", "shrunk-gd", "newton", "agd", "objpert", "nonprivate"):
        for layout in LAYOUTS:
            yield _plain("multi-logistic", solver, layout=layout)
            yield _plain("squared", solver, layout=layout)
        for units in UNITS:
            yield _plain("multi-logistic", solver, units=units)
            yield _plain("logistic", solver, units=units, layout="csr", relation="add_remove")
        for units in PEOPLE:
            yield _plain("squared", solver, units=units)
            yield _plain("logistic", solver, units=units, layout="dask")


def _calibrations() -> Iterator[Case]:
    """Yield the calibrations of the papers, pure budgets and other settings of solvers."""
    for solver, unsafe in PUBLISHED.items():
        for settings in ("", ",unsafe=True") if unsafe else ("",):
            published = f"{solver}:calibration=published{settings}"
            yield _plain("logistic", published)
            yield _plain("huber", published)
            yield _plain("multi-logistic", published, settings=(("epsilon", 1.0),))
    for solver in PURE:
        for model in ("logistic", "huber"):
            yield _plain(model, solver, settings=(("delta", 0.0),))
    for solver in VARIANTS:
        for model in ("logistic", "squared", "poisson"):
            yield _plain(model, solver)


def _affine() -> Iterator[Case]:
    """Yield preparations that are one affine map of the rows."""
    for preparation in AFFINE:
        for model, solver in (("logistic", "gd"), ("squared", "newton"), ("hinge", "shrunk-gd")):
            yield Case("mapped", model, solver, preparation=preparation)
        yield Case("mapped", "logistic", "gd", relation="replace_one", preparation=preparation)
    for model, solver in (("logistic", "gd"), ("squared", "newton"), ("multi-logistic", "gd")):
        for layout in LAYOUTS:
            for preparation in (THREE, FOUR):
                yield Case("mapped", model, solver, layout, preparation=preparation)
        for units in UNITS if model != "squared" else PEOPLE:
            yield Case("mapped", model, solver, units=units, preparation=FOUR)
            yield Case("mapped", model, solver, "csr", units, preparation=THREE)
    for layout in ("float64", "csr"):
        for model, solver in (("logistic", "gd"), ("squared", "newton")):
            prepared = "centre+scale"
            yield Case("mapped", model, solver, layout, preparation=prepared, settings=NORM)


def _copied() -> Iterator[Case]:
    """Yield preparations for solvers that need a table of prepared rows."""
    for solver in PUBLISHED:
        for model in ("logistic", "huber"):
            for preparation in ("radius", THREE, FOUR, "bounds+radius+centre"):
                yield _with_table(model, solver, preparation)
            for preparation in ("centre", "centre+spread+whiten", "bounds+centre"):
                yield _with_table(model, solver, preparation, settings=NORM)
        for layout in LAYOUTS:
            yield _with_table("logistic", solver, FOUR, layout=layout)
            yield _with_table("logistic", solver, "centre+whiten", layout=layout, settings=NORM)
        for units in UNITS:
            yield _with_table("logistic", solver, "centre+whiten", units=units, settings=NORM)
        if solver not in ONE_RELATION:
            yield _with_table("logistic", solver, FOUR, relation="add_remove")
            yield _with_table("multi-logistic", solver, THREE, relation="add_remove")
    for preparation in ("bounds", "centre", "centre+radius", "centre+radius+scale"):
        for layout in ("float64", "float32", "csr"):
            about: dict[str, Any] = {"relation": "add_remove", "layout": layout}
            yield _with_table("logistic", "gd", preparation, settings=NORM, **about)
            yield _with_table("squared", "newton", preparation, settings=NORM, **about)


def _with_table(model: str, solver: str, preparation: str, **other: Any) -> Case:
    """Return a case whose steps write tables."""
    other.setdefault("relation", "replace_one")
    return Case("copied", model, solver, preparation=preparation, **other)


def _automatic() -> Iterator[Case]:
    """Yield the default solver with every loss, form of a table, unit and relation."""
    for model in MODELS:
        for relation in ("add_remove", "replace_one"):
            yield Case("mapped", model, relation=relation)
    for model in ("logistic", "multi-logistic", "squared", "poisson"):
        for layout in LAYOUTS:
            yield Case("mapped", model, layout=layout)
        for units in UNITS if "logistic" in model else PEOPLE:
            yield Case("mapped", model, units=units)
    for model in ("logistic", "squared", "huber", "multi-hinge"):
        for setting in (("data_norm", 3.0), ("fit_intercept", False), ("epsilon", 0.5)):
            yield Case("mapped", model, settings=(setting,))
        yield Case("mapped", model, preparation=THREE)
        yield Case("mapped", model, rows=LARGE)
    for model in ("ordinal", "survival"):
        for units in ("people", "people3", "weights"):
            yield Case("mapped", model, units=units)
        yield Case("mapped", model, layout="csr")
    yield Case("mapped", "survival", settings=(("baseline", "free"),))
    yield Case("mapped", "survival", given=("event",))
    yield Case("mapped", "poisson", given=("exposure",), settings=(("exposure_bound", 2.0),))
    yield Case("mapped", "gamma", given=("exposure",))
    yield Case("mapped", "logistic", layout="csr", rows=LARGE)
    yield Case("mapped", "logistic", layout="frame")


NUMERIC: dict[str, Any] = {
    "bounded": {0: (-3.0, 3.0), 2: (-6.0, 6.0, "bins")},
    "listed": [0, 2],
    "named": {"a": (-3.0, 3.0), "c": None},
}
"""Declared numeric columns: with public bounds, with bounds that a fit chooses, and by name."""


def _features() -> Iterator[Case]:
    """Yield features of numeric columns: splines, bins and random cosines."""
    for numeric in ("bounded", "listed"):
        for model in ("logistic", "squared", "multi-logistic", "poisson"):
            yield Case("mapped", model, settings=(("numeric", numeric),))
        for features in ("additive", "kernel", "linear"):
            both = (("features", features), ("numeric", numeric))
            yield Case("mapped", "logistic", settings=both)
            yield Case("mapped", "squared", settings=both)
            yield Case("mapped", "logistic", layout="csr", settings=both)
            yield Case("mapped", "logistic", layout="float32", settings=both)
            yield Case("mapped", "logistic", "gd", preparation=THREE, settings=both)
        additive = (("features", "additive"), ("numeric", numeric))
        yield Case("mapped", "logistic", units="people", settings=additive)
        # private bounds are a step that writes a table
        kind = "plain" if numeric == "bounded" else "copied"
        for solver in ("agd", "objpert", "sgd", "gd"):
            about: dict[str, Any] = {"relation": "replace_one", "settings": (*NORM, *additive)}
            yield Case(kind, "logistic", solver, **about)
            yield Case(kind, "huber", solver, **about)
    yield Case("mapped", "logistic", settings=(("features", "additive"),))
    yield Case("mapped", "logistic", layout="frame", settings=(("numeric", "named"),))


def _intervals() -> Iterator[Case]:
    """Yield fits with standard errors."""
    inference = (("inference", True),)
    for model in MODELS:
        yield Case("mapped", model, settings=inference)
    for model in ("logistic", "squared", "poisson"):
        for units in ("people", "people3", "weights"):
            yield Case("mapped", model, units=units, settings=inference)
        for layout in LAYOUTS:
            yield Case("mapped", model, layout=layout, settings=inference)
        yield Case("mapped", model, rows=LARGE, settings=inference)
        yield Case("mapped", model, relation="replace_one", settings=inference)
    yield Case("mapped", "logistic", units="balanced", settings=inference)
    for model, solver in (("logistic", "gd"), ("squared", "newton"), ("squared", "gd")):
        yield Case("mapped", model, solver, preparation=FOUR, settings=inference)
        yield Case("mapped", model, solver, "csr", preparation=THREE, settings=inference)
        yield _plain(model, solver, settings=inference)


def _refused() -> Iterator[Case]:
    """Yield settings that are refused before a row is read."""
    yield Case("plain", "logistic", "objpert")  # no bound on the norm of a row
    yield Case("plain", "logistic", "gd", settings=(("delta", 0.0),))
    yield Case("plain", "logistic", "gd", settings=(("epsilon", -1.0),))
    yield Case("plain", "logistic", "gd", settings=(("rows_per_unit", 3),))
    yield Case("plain", "logistic", "rrpsgd", settings=(("data_norm", 3.0),))
    yield Case("mapped", "logistic", "gd", preparation="centre")
    yield Case("mapped", "logistic", "gd", preparation="magnitude+centre")
    yield Case("copied", "logistic", "nonprivate", preparation=FOUR)
    yield Case("copied", "logistic", "agd", preparation=FOUR, settings=(("inference", True),))


# ---- tables


@dataclass(frozen=True)
class Table:
    """Columns of a generated table, its targets, and whose row each row is."""

    X: Any
    targets: dict[str, Any]
    people: Any
    weights: Any
    given: dict[str, Any]


def generate(n_rows: int) -> Table:
    """Return a table with columns of different means and scales; half of its cells are 0."""
    rng = np.random.default_rng(20)
    mixed = rng.normal(size=(n_rows, COLUMNS))
    mixed[:, 1] += 0.6 * mixed[:, 0]
    X = mixed * [1.0, 0.5, 2.0, 0.2, 1.0] + [0.0, 1.0, -1.0, 0.5, 0.0]
    X[:, 4] = X[:, 4] > 0.3
    score = X @ [1.5, -1.0, 0.8, 0.5, -1.2] - X.mean(axis=0) @ [1.5, -1.0, 0.8, 0.5, -1.2]
    noisy = score + rng.logistic(scale=0.3, size=n_rows)
    targets = {
        "label": (noisy > 0).astype(np.int64),
        "grade": np.digitize(noisy, [-1.0, 1.0]),
        "number": 1.0 + noisy,
        "count": rng.poisson(np.exp(np.clip(0.4 * score, -3.0, 1.5))).astype(np.float64),
        "amount": rng.gamma(2.0, np.exp(np.clip(0.3 * score, -2.0, 1.5)) / 2.0) + 0.05,
    }
    people = rng.integers(0, max(2, n_rows // 2), size=n_rows)
    weights = rng.uniform(0.2, 1.0, size=n_rows)
    given = {
        "event": (rng.random(n_rows) < 0.7).astype(np.int64),
        "exposure": rng.uniform(0.3, 2.5, size=n_rows),
    }
    return Table(X, targets, people, weights, given)


def laid_out(X: Any, layout: str) -> Any:
    """Return the columns in a form of storage; half of the cells of a sparse table are 0."""
    if layout == "fortran":
        return np.asfortranarray(X)
    if layout == "float32":
        return X.astype(np.float32)
    if layout.startswith("csr"):
        kept = np.random.default_rng(21).random(X.shape) < 0.5
        number = np.float32 if layout == "csr32" else np.float64
        return sp.csr_array(np.where(kept, X, 0.0).astype(number))
    if layout == "wide":
        return np.hstack([X, np.random.default_rng(22).uniform(-1.0, 1.0, (len(X), WIDTH))])
    if layout == "dask":
        return _in_blocks(X)
    if layout == "frame":
        pandas = importlib.import_module("pandas")
        return pandas.DataFrame(X, columns=list("abcde"))
    return X


def _in_blocks(values: Any) -> Any:
    """Return an array of Dask in two blocks of rows."""
    arrays = importlib.import_module("dask.array")
    return arrays.from_array(values, chunks=(-(-len(values) // 2), *values.shape[1:]))


def _units(units: str, table: Table) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return settings and arguments of ``fit`` that say whose rows they are and what they weigh."""
    if units == "people":
        return {}, {"groups": table.people}
    if units == "people3":
        return {"rows_per_unit": 3}, {"groups": table.people}
    if units == "weights":
        return {}, {"sample_weight": table.weights}
    if units == "balanced":
        return {"class_weight": "balanced"}, {}
    return {}, {}


# ---- running a case


class Runner:
    """Fits cases with the copy of discreet that is imported."""

    def __init__(self) -> None:
        self.discreet = importlib.import_module("discreet")
        self.solvers = importlib.import_module("discreet.solvers")
        self._tables: dict[int, Table] = {}

    def table(self, n_rows: int) -> Table:
        """Return the table of this size."""
        if n_rows not in self._tables:
            self._tables[n_rows] = generate(n_rows)
        return self._tables[n_rows]

    def run(self, case: Case) -> Record:
        """Fit a case and return its results; an exception is one."""
        try:
            model, X, y, given = self._built(case)
            model.fit(X, y, **given)
            arrays = self._results(case, model)
        except Exception as error:
            return Record(case.key, error=type(error).__name__)
        trace = len(model.trace_)
        return Record(case.key, "", trace, stated(model.guarantee_), arrays)

    def _built(self, case: Case) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Return an unfitted model, the columns, the target and other arguments of ``fit``."""
        estimator, settings, target = MODELS[case.model]
        settings = settings | {"epsilon": 8.0, "delta": 1e-6} | dict(case.settings)
        if "numeric" in settings:
            settings["columns"] = NUMERIC[settings.pop("numeric")]
        if case.preparation:
            settings["preparation"] = [self._step(name) for name in case.preparation.split("+")]
        table = self.table(case.rows)
        about, given = _units(case.units, table)
        given |= {name: table.given[name] for name in case.given}
        X = laid_out(table.X, case.layout)
        y = table.targets[target]
        if case.layout == "dask":
            y = _in_blocks(y)
            given |= {name: _in_blocks(given[name]) for name in given if name == "groups"}
        own = {
            "solver": self._solver(case.solver),
            "relation": case.relation,
            "random_state": zlib.crc32(case.key.encode()),
        }
        return getattr(self.discreet, estimator)(**settings, **about, **own), X, y, given

    def _step(self, name: str) -> Any:
        """Return a step of a preparation."""
        kind, settings = STEPS[name]
        return getattr(self.discreet, kind)(**settings)

    def _solver(self, text: str) -> Any:
        """Return a solver, by its name or as an object with other settings."""
        name, _, changes = text.partition(":")
        if not changes:
            return name
        settings: dict[str, Any] = {}
        for change in changes.split(","):
            setting, _, value = change.partition("=")
            settings[setting] = value if setting == "calibration" else json.loads(value.lower())
        return dataclasses.replace(self.solvers.resolve(name), **settings)

    def _results(self, case: Case, model: Any) -> dict[str, Any]:
        """Return the released numbers of a model, and its predictions for a few rows."""
        found = {"coef": model.coef_, "intercept": model.intercept_}
        if hasattr(model, "levels_"):
            found["levels"] = model.levels_
        if model.inference:
            found["errors"] = model.standard_errors_
        names = ("predict_hazard", "predict_proba", "decision_function", "predict")
        predict = next(getattr(model, name) for name in names if hasattr(model, name))
        layout = "float64" if case.layout == "dask" else case.layout
        found["predicted"] = predict(laid_out(self.table(case.rows).X[:20], layout))
        return {name: np.atleast_1d(np.array(value)) for name, value in found.items()}

    def others(self) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
        """Yield the keys of cases that are no fits of models, and their functions."""
        for relation in ("add_remove", "replace_one"):
            for bounds in (None, (-5.0, 5.0)):
                for units in ("rows", "people"):
                    about = (relation, bounds, units)
                    end = f"bounds={bounds} {units} {relation}"
                    yield f"other PrivateScaler {end}", partial(self._scaled, *about)
                    yield f"other PrivateImputer {end}", partial(self._imputed, *about)
        for solver in ("auto", "gd", "agd"):
            for units in ("rows", "people"):
                end = f"{solver} {units}"
                yield f"other tune {end}", partial(self._tuned, solver, units)
        for unit in (None, "person"):
            yield f"other draft_private unit={unit}", partial(self._drafted, unit)

    def _scaled(self, relation: str, bounds: Any, units: str) -> dict[str, Any]:
        """Return the numbers of a private scaler."""
        model = self.discreet.PrivateScaler(
            epsilon=4.0, relation=relation, bounds=bounds, random_state=1
        )
        model.fit(self.table(ROWS).X, groups=self._groups(units))
        return {"mean": model.mean_, "scale": model.scale_, "bounds": model.bounds_}

    def _imputed(self, relation: str, bounds: Any, units: str) -> dict[str, Any]:
        """Return the numbers of a private imputer."""
        X = self.table(ROWS).X.copy()
        X[::3, 1] = np.nan
        model = self.discreet.PrivateImputer(
            epsilon=4.0, relation=relation, bounds=bounds, random_state=2
        )
        model.fit(X, groups=self._groups(units))
        return {"statistics": model.statistics_, "bounds": model.bounds_}

    def _tuned(self, solver: str, units: str) -> dict[str, Any]:
        """Return the coefficients of a tuned model."""
        table = self.table(ROWS)
        model = self.discreet.LogisticRegression(epsilon=8.0, classes=[0, 1], solver=solver)
        grid = [{"alpha": 1e-4}, {"alpha": 1e-2}, {"alpha": 1.0}]
        tuned = self.discreet.tuning.tune(
            *(model, table.X, table.targets["label"], self._groups(units)),
            grid=grid,
            random_state=3,
        )
        return {"coef": tuned.model.coef_, "alpha": np.array([tuned.setting["alpha"]])}

    def _drafted(self, unit: str | None) -> dict[str, Any]:
        """Return the text of a schema that was estimated, as numbers."""
        table = self.table(LARGE)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.csv"
            jobs = np.array(["clerk", "nurse", "smith"])[table.targets["grade"]]
            columns = zip(table.X[:, 0], jobs, table.people, table.targets["label"], strict=True)
            lines = [f"{a:.3f},{job},{person},{label}" for a, job, person, label in columns]
            path.write_text("\n".join(["size,job,person,label", *lines[:5000]]) + "\n", "utf-8")
            drafted = self.discreet.tables.draft_private(
                *(path, 8.0, 1e-6, "add_remove"),
                target="label",
                unit=unit,
                header=True,
                random_state=4,
            )
            drafted.write(path.with_suffix(".toml"))
            text = path.with_suffix(".toml").read_bytes()
        return {"text": np.frombuffer(text, dtype=np.uint8)}

    def _groups(self, units: str) -> Any:
        """Return whose row each row is, or None."""
        return self.table(ROWS).people if units == "people" else None


def stated(guarantee: Any) -> dict[str, Any]:
    """Return a guarantee as plain data, without the number of earlier fits of the process."""
    plain: dict[str, Any] = json.loads(json.dumps(guarantee.to_dict(), default=str))
    plain.pop("earlier_fits", None)
    return plain


def run_all(only: str = "") -> Iterator[Record]:
    """Run the cases whose keys have this text, and yield their results."""
    runner = Runner()
    with warnings.catch_warnings(), np.errstate(all="ignore"), _in_this_thread():
        warnings.simplefilter("ignore")
        for case in cases():
            if only in case.key:
                yield runner.run(case)
        for key, compute in runner.others():
            if only in key:
                try:
                    yield Record(key, arrays=compute())
                except Exception as error:
                    yield Record(key, error=type(error).__name__)


def _in_this_thread() -> Any:
    """Return the setting under which Dask computes blocks one after the other."""
    return importlib.import_module("dask").config.set(scheduler="synchronous")


# ---- files


def save(path: Path, records: Iterable[Record]) -> None:
    """Write results to a file of NumPy: arrays, and one text for the rest."""
    arrays: dict[str, Any] = {}
    about = []
    for index, record in enumerate(records):
        names = {name: f"{index}.{name}" for name in record.arrays}
        arrays |= {names[name]: value for name, value in record.arrays.items()}
        plain = dataclasses.asdict(dataclasses.replace(record, arrays={}))
        about.append(plain | {"arrays": names})
    np.savez_compressed(path, records=np.array(json.dumps(about)), **arrays)


def load(path: Path) -> dict[str, Record]:
    """Read results, by key."""
    with np.load(path) as stored:
        about = json.loads(str(stored["records"]))
        for plain in about:
            plain["arrays"] = {name: stored[place] for name, place in plain["arrays"].items()}
    return {plain["key"]: Record(**plain) for plain in about}


# ---- comparison


def difference(old: Record, new: Record) -> float:
    """Return the largest relative difference of two results; 0 if all bits are the same.

    Coefficients and constants are compared on the scale of the largest of them, other numbers on
    that of their own array. It is infinite if anything that is no array differs.
    """
    if (old.error, old.trace) != (new.error, new.trace) or old.arrays.keys() != new.arrays.keys():
        return np.inf
    if numbers_of(old.guarantee) != numbers_of(new.guarantee):
        return np.inf
    weights = [old.arrays[name] for name in ("coef", "intercept") if name in old.arrays]
    largest = max((np.abs(each).max(initial=0.0) for each in weights), default=0.0)
    worst = 0.0
    for name, before in old.arrays.items():
        after = new.arrays[name]
        if before.dtype != after.dtype or before.shape != after.shape:
            return np.inf
        if before.tobytes() == after.tobytes():
            continue
        scale = largest if name in ("coef", "intercept") else np.nanmax(np.abs(before))
        finite = np.isfinite(before)
        if not np.array_equal(finite, np.isfinite(after)):
            return np.inf
        gaps = np.abs(after.astype(np.float64) - before.astype(np.float64))[finite]
        largest_gap = float(gaps.max(initial=0.0))
        relative = largest_gap / scale if scale > 0 else np.inf if largest_gap else 0.0
        worst = max(worst, relative, sys.float_info.min)  # above 0: bits differ
    return worst


def numbers_of(guarantee: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a guarantee without its texts."""
    if guarantee is None:
        return None
    return {name: value for name, value in guarantee.items() if name not in GUARANTEE_TEXTS}


def allowed(record: Record) -> float:
    """Return the relative difference that a case may have."""
    tolerance = TOLERANCES.get(record.kind, np.inf)
    narrow = not {"float32", "csr32"}.isdisjoint(record.key.split())
    return FLOAT32_TOLERANCE if narrow and tolerance > 0 else tolerance


def compare(old: dict[str, Record], new: dict[str, Record]) -> int:
    """Print how many cases are the same, and those that are not; return the exit code."""
    counts: dict[str, collections.Counter[str]] = {}
    failed = []
    sentences: dict[str, None] = {}
    for key, before in old.items():
        count = counts.setdefault(before.kind, collections.Counter())
        if key not in new:
            count["missing"] += 1
            if before.kind in TOLERANCES:
                failed.append(f"missing: {key}")
            continue
        after = new[key]
        gap = difference(before, after)
        state = "identical" if gap == 0 else "within 1e-9" if gap <= 1e-9 else "different"
        count[state] += 1
        sentences |= dict.fromkeys(_changed_sentences(before, after))
        if gap > allowed(before):
            failed.append(f"{_described(before, after, gap)}: {key}")
        elif state == "different":
            print(f"{_described(before, after, gap)}, which is allowed: {key}")
    for text in failed:
        print(text)
    states = ("identical", "within 1e-9", "different", "missing")
    print(f"{'kind':8}" + "".join(f"{state:>13}" for state in states))
    for kind, count in counts.items():
        print(f"{kind:8}" + "".join(f"{count[state]:13}" for state in states))
    for text in sentences:
        print(f"in a guarantee: {text}")
    print(f"{len(new.keys() - old.keys())} cases are new")
    print(f"{len(failed)} cases differ by more than they may")
    return int(bool(failed))


def _changed_sentences(old: Record, new: Record) -> list[str]:
    """Return sentences of a guarantee that are gone or new, each with its sign."""
    before, after = (
        [text for name in GUARANTEE_TEXTS for text in (record.guarantee or {}).get(name, ())]
        for record in (old, new)
    )
    gone = [f"- {text}" for text in before if text not in after]
    return gone + [f"+ {text}" for text in after if text not in before]


def _described(old: Record, new: Record, gap: float) -> str:
    """Return what differs between two results, in a few words."""
    if old.error != new.error:
        return f"{old.error or 'a result'} became {new.error or 'a result'}"
    if old.trace != new.trace:
        return f"a trace of {old.trace} entries became one of {new.trace}"
    if numbers_of(old.guarantee) != numbers_of(new.guarantee):
        first = numbers_of(old.guarantee) or {}
        second = numbers_of(new.guarantee) or {}
        names = first.keys() | second.keys()
        changed = [name for name in sorted(names) if first.get(name) != second.get(name)]
        return f"guarantee differs in {', '.join(changed)}"
    return f"numbers differ by {gap:.2g}"


def write(path: Path, source: Path, only: str) -> int:
    """Run the cases with the code under ``source``, write the results and print a summary."""
    sys.path.insert(0, str(source.resolve()))
    used = Path(str(importlib.import_module("discreet").__file__)).resolve()
    if not used.is_relative_to(source.resolve()):
        print(f"discreet was imported from {used.parent}, not from {source}.")
        return 2
    start = time.monotonic()
    records = list(run_all(only))
    save(path, records)
    kinds = collections.Counter(record.kind for record in records)
    errors = collections.Counter(record.error for record in records if record.error)
    print(f"{len(records)} cases in {time.monotonic() - start:.0f} s: {dict(kinds)}")
    print(f"{errors.total()} were refused: {dict(errors)}")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Write results or compare two files of them; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", type=Path, metavar="FILE", help="run the cases, write a file")
    action.add_argument("--compare", type=Path, nargs=2, metavar=("OLD", "NEW"), help="two files")
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="folder of the package")
    parser.add_argument("--only", default="", help="run cases whose keys have this text alone")
    given = parser.parse_args(arguments)
    if given.write is not None:
        return write(given.write, given.source, given.only)
    old, new = given.compare
    return compare(load(old), load(new))


if __name__ == "__main__":
    sys.exit(main())
