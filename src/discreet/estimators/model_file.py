"""Models as files: what prediction and explanation need, and nothing else about the rows.

A file is JSON, never code: reading one cannot run anything. One set of msgspec types describes it
for reading and for writing. docs/model-file.md lists its content, and what can be learned from it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from importlib.metadata import version as installed_version
from io import TextIOBase
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TextIO, TypeAlias, get_args

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from discreet.core import Guarantee
from discreet.errors import ModelFileError, NotSupported
from discreet.estimators.base import PrivateLinearModel
from discreet.estimators.classifiers import LinearClassifier, LinearSVC, Link, LogisticRegression
from discreet.estimators.levels import DiscreteTimeSurvival, LevelModel, OrdinalClassifier
from discreet.estimators.log_linear import GammaRegressor, PoissonRegressor
from discreet.estimators.regressors import HuberRegressor, LinearRegression, QuantileRegressor
from discreet.files import replacing
from discreet.inference import Covariance
from discreet.preparation import (
    FITTED_STEPS,
    STEPS,
    FeatureMap,
    FittedBounds,
    Step,
    from_dict,
    to_dict,
)
from discreet.preparation.features import from_plain, to_plain
from discreet.solvers import Solver, resolve

FORMAT = "discreet model"
VERSION = 1
LARGEST = 2**30
"""Bytes of the largest file that is read: ten million weights take a quarter of it."""

NOT_SAVED = ("ledger", "ledger_entry_", "progress", "random_state", "trace_", "verbose")
"""Parameters and attributes that belong to a process, not to a model, and the trace."""

Model: TypeAlias = (
    LogisticRegression
    | LinearSVC
    | LinearRegression
    | HuberRegressor
    | QuantileRegressor
    | PoissonRegressor
    | GammaRegressor
    | OrdinalClassifier
    | DiscreteTimeSurvival
)
Number = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]

_KINDS: dict[str, type[Model]] = {kind.__name__: kind for kind in get_args(Model)}
_LABELS = re.compile(r"[<>|=]?(U\d{1,4}|[iu][1248]|f[248]|b1|O)")
_CHECKSUM = b',\n"sha256": "'


class _Entry(Struct, forbid_unknown_fields=True):
    """An object in the file, with exactly these entries."""


class _Labels(_Entry):
    type: str
    values: Annotated[list[bool | int | float | str], Meta(min_length=2)]


class _Link(_Entry):
    slope: Number
    noise: Number
    reach: Number | None


class _Solver(_Entry):
    name: str
    settings: dict[str, Any]
    left_out: list[str]


class _Weights(_Entry):
    """One row of coefficients and one intercept per model."""

    coef: list[list[Number]]
    intercept: list[Number]


class _Covariance(_Entry):
    """Covariance of one model's coefficients, by source; see `discreet.inference.Covariance`."""

    sampling: list[list[Number]]
    noise: list[list[Number]]
    bias: list[list[Number]]
    refused: list[bool]
    reason: str
    dispersion: Number


class _Fitted(_Entry):
    """Fitted attributes. A regressor has one row of coefficients.

    ``prepared`` are the weights of prepared rows, None where no step but `Bounds` prepared them.
    """

    coef: list[list[Number]]
    intercept: list[Number]
    prepared: _Weights | None
    deviation: Annotated[float, Meta(ge=0, le=sys.float_info.max)] | None
    classes: _Labels | None
    columns: Annotated[int, Meta(ge=1)]
    features: dict[str, Any] | None
    names: list[str] | None
    preparation: list[dict[str, Any]]
    solver: str
    row_norm: Annotated[float, Meta(gt=0, le=sys.float_info.max)] | None
    multinomial: bool | None
    link: _Link | None
    levels: Annotated[list[Number], Meta(min_length=1)] | None
    covariances: list[_Covariance]
    size: Annotated[int, Meta(ge=0)]


class _Estimator(_Entry):
    kind: str
    settings: dict[str, Any]
    fitted: _Fitted


class _Table(_Entry):
    """The TableTransformer of a pipeline."""

    steps: tuple[str, str]
    schema: dict[str, Any]
    sparse: bool | Literal["auto"]
    dtype: Literal["float32", "float64"]


class _File(_Entry):
    format: str
    version: int
    discreet: str
    warning: str | None
    estimator: _Estimator
    table: _Table | None
    guarantee: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class StoredSolver(Solver):
    """A solver that a model file names but that cannot be made here.

    Its package is not installed, or a setting was a function. Prediction does not need it; a new
    fit does, and says so.
    """

    name: str  # type: ignore[misc]  # a solver's class has it; this one has it from the file
    settings: tuple[tuple[str, Any], ...] = ()
    left_out: tuple[str, ...] = ()

    def check(self, *args: Any, **kwargs: Any) -> None:
        """Refuse to fit."""
        raise NotSupported(
            f"this model was read from a file that names the solver {self.name!r}, which cannot "
            "be made from it (its package is not installed, or a setting was a function). Set "
            "solver to fit again; predictions need none."
        )


def save(model: Model | Pipeline, path: str | os.PathLike[str] | TextIO) -> None:
    """Write a fitted estimator, or a pipeline of a `TableTransformer` and one, to a file.

    A file there is replaced, as a whole or not at all. An open text stream is written to.

    Notes
    -----
    *Privacy.* The file holds the model (weights and other releases that were paid for), its
    settings, the schema and the guarantee; all of it is covered by the guarantee or public. It does
    not hold rows, the trace, seeds, ledgers or callbacks. A model that is not private is saved with
    a warning in the file. If a ledger counted the fit, the file's SHA-256 is noted there.
    """
    table, estimator = None, model
    if isinstance(model, Pipeline):
        if not model.steps:
            raise TypeError("this pipeline is empty; there is nothing to save.")
        table, estimator = _table(model), model.steps[-1][1]
    kind = type(estimator).__name__
    if _KINDS.get(kind) is not type(estimator):
        raise TypeError(
            f"only models of discreet ({', '.join(sorted(_KINDS))}), alone or after a "
            f"TableTransformer in a Pipeline, can be saved; got {kind}."
        )
    check_is_fitted(estimator, "coef_")
    estimator._objective()
    file = _File(
        format=FORMAT,
        version=VERSION,
        discreet=installed_version("discreet"),
        warning=_warning(estimator.guarantee_),
        estimator=_Estimator(kind, _settings(estimator), _fitted(estimator)),
        table=table,
        guarantee=estimator.guarantee_.to_dict(),
    )
    strict: dict[str, Any] = {"ensure_ascii": True, "allow_nan": False, "separators": (",", ":")}
    entries = [f'"{name}": {json.dumps(value, **strict)}' for name, value in _plain(file).items()]
    text = ",\n".join(entries)
    checksum = hashlib.sha256(f"{{\n{text}".encode("ascii")).hexdigest()
    whole = f'{{\n{text}{_CHECKSUM.decode()}{checksum}"\n}}\n'
    with nullcontext(path) if isinstance(path, TextIOBase) else replacing(path) as stream:
        stream.write(whole)
    entry = getattr(estimator, "ledger_entry_", None)
    if estimator.ledger is not None and entry is not None:
        estimator.ledger.attach(entry, hashlib.sha256(whole.encode("ascii")).hexdigest())


def load(path: str | os.PathLike[str]) -> Model | Pipeline:
    """Read a model that `save` wrote; it predicts exactly as it did when it was saved.

    Anything that is not such a file, whole and unchanged, is a `ModelFileError`. Reading runs no
    code from the file, but believes what it says: take model files from people you trust.
    """
    content = _read(Path(path))
    try:
        file = msgspec.convert(content, _File)
        guarantee = Guarantee.from_dict(file.guarantee)
        if file.warning != _warning(guarantee):
            raise ValueError("its warning does not match its guarantee.")
        estimator = _restored(file.estimator)
        estimator.guarantee_ = guarantee
        return estimator if file.table is None else _pipeline(file.table, estimator)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{path} is not a model that can be read: {error}") from error


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a model file, whose bytes match its checksum."""
    if path.stat().st_size > LARGEST:
        raise ModelFileError(f"{path} is larger than {LARGEST:,} bytes: too large for a model.")
    data = path.read_bytes()
    try:
        content = json.loads(
            data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant
        )
    except ModelFileError as error:
        raise ModelFileError(f"{path} is not a model file: {error}") from None
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError and JSON's among them
        kind = "it is nested too deeply" if isinstance(error, RecursionError) else "it is not JSON"
        raise ModelFileError(f"{path} is not a model file, or is damaged: {kind}.") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelFileError(
            f"{path} is not a model file of discreet: its format must be {FORMAT!r}."
        )
    version = content.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ModelFileError(f"{path} has no version that can be read.")
    if version > VERSION:
        raise ModelFileError(
            f"{path} was written in version {version} of the format; this discreet reads up to "
            f"version {VERSION}. Install a newer discreet."
        )
    body, _, end = data.rpartition(_CHECKSUM)
    if end != f'{hashlib.sha256(body).hexdigest()}"\n}}\n'.encode("ascii"):
        raise ModelFileError(
            f"{path} is damaged or was changed by hand: its checksum does not match. Write the "
            "model again with discreet.save, or take the file from where it came."
        )
    del content["sha256"]
    return content


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ModelFileError("an object in it has two entries of one name.")
    return entries


def _no_constant(name: str) -> NoReturn:
    raise ModelFileError(f"it has {name} where a number must be.")


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it: NumPy arrays and scalars as lists and numbers."""

    def converted(value: Any) -> Any:
        if hasattr(value, "__array__") or isinstance(value, range):
            return np.asarray(value).tolist()
        raise TypeError(
            f"{type(value).__name__} cannot be written to a file: it is neither text, a finite "
            "number nor a list of them."
        )

    return msgspec.to_builtins(value, enc_hook=converted)


def _warning(guarantee: Guarantee) -> str | None:
    if not guarantee.private:
        return (
            "NOT PRIVATE: these weights were computed on the exact rows. Do not publish them "
            "unless the rows may be."
        )
    if not guarantee.secure:
        return "TEST MODE, NOT PRIVATE: a seed was fixed, so the noise can be predicted."
    return None


def _settings(estimator: PrivateLinearModel) -> dict[str, Any]:
    """Return the parameters of an estimator that belong to the model."""
    given = estimator.get_params(deep=False)
    settings = {name: given[name] for name in sorted(given) if name not in NOT_SAVED}
    solver, steps = settings["solver"], settings["preparation"]
    settings["solver"] = solver if isinstance(solver, str) else _stored(solver)
    for name in ("numeric", "class_weight"):  # keys of JSON objects are texts
        if isinstance(settings.get(name), Mapping):
            settings[name] = [list(pair) for pair in settings[name].items()]
    if steps is not None:
        steps = [steps] if isinstance(steps, Step) else steps
        settings["preparation"] = [to_dict(step) for step in steps]
    return {name: _plain(value) for name, value in settings.items()}


def _stored(solver: Solver) -> _Solver:
    """Return a solver by its name and fields; functions are left out."""
    if isinstance(solver, StoredSolver):
        return _Solver(solver.name, dict(solver.settings), list(solver.left_out))
    fields = {field.name: getattr(solver, field.name) for field in dataclasses.fields(solver)}
    settings = {name: value for name, value in fields.items() if not callable(value)}
    return _Solver(solver.name, settings, [name for name in fields if name not in settings])


def _given(data: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of an estimator."""
    settings = dict(data)
    solver = msgspec.convert(settings["solver"], str | _Solver)
    settings["solver"] = solver if isinstance(solver, str) else _solver(solver)
    steps = msgspec.convert(settings["preparation"], list[dict[str, Any]] | None)
    if steps is not None:
        settings["preparation"] = [from_dict(step, STEPS) for step in steps]
    numeric = settings["numeric"]
    if isinstance(numeric, list) and numeric and all(isinstance(each, list) for each in numeric):
        settings["numeric"] = {key: _as_tuple(value) for key, value in numeric}
    if isinstance(settings.get("target_bounds"), list):
        settings["target_bounds"] = tuple(settings["target_bounds"])
    if isinstance(settings.get("class_weight"), list):
        settings["class_weight"] = dict(_as_tuple(settings["class_weight"]))
    return settings


def _solver(stored: _Solver) -> Solver:
    """Return the solver that is stored, or a placeholder if it cannot be made here."""
    settings = {name: _as_tuple(value) for name, value in stored.settings.items()}
    if not stored.left_out:
        try:
            return type(resolve(stored.name))(**settings)
        except (ValueError, TypeError, ImportError):  # not installed, or another version of it
            pass
    return StoredSolver(stored.name, tuple(settings.items()), tuple(stored.left_out))


def _as_tuple(value: Any) -> Any:
    return tuple(_as_tuple(item) for item in value) if isinstance(value, list) else value


def _fitted(estimator: Any) -> _Fitted:
    state = {
        name.removesuffix("_"): value
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("_") and name not in NOT_SAVED
    }
    columns, names = state.pop("n_features_in"), state.pop("feature_names_in", None)
    state.pop("guarantee")
    expansion = state.pop("features").expansion  # its bounds are among the fitted steps
    for name in ("coef", "intercept", "prepared_coef", "prepared_intercept"):
        array = np.asarray(state[name])
        if array.dtype != np.float64 or not np.isfinite(array).all():
            raise ValueError(f"{name}_ must be finite double-precision numbers to be saved.")
    slopes, constants = state.pop("prepared_coef"), state.pop("prepared_intercept")
    prepared = any(not isinstance(step, FittedBounds) for step in state["preparation"])
    prepared = prepared or "levels" in state  # which have columns of their own there
    unknown = sorted(f"{name}_" for name in set(state) - set(_Fitted.__struct_fields__))
    if unknown:
        raise TypeError(f"the model has attributes that a file cannot hold: {unknown}.")
    link = state.get("link")
    return _Fitted(
        coef=np.atleast_2d(state["coef"]).tolist(),
        intercept=np.atleast_1d(state["intercept"]).tolist(),
        deviation=None if state["deviation"] is None else float(state["deviation"]),
        prepared=_Weights(slopes.tolist(), constants.tolist()) if prepared else None,
        classes=_stored_labels(state["classes"]) if "classes" in state else None,
        columns=int(columns),
        features=to_plain(expansion),
        names=None if names is None else [str(name) for name in names],
        preparation=[to_dict(step) for step in state["preparation"]],
        solver=state["solver"],
        row_norm=state["row_norm"],
        multinomial=state.get("multinomial"),
        link=None if link is None else _Link(link.slope, link.noise, link.reach),
        levels=None if "levels" not in state else state["levels"].tolist(),
        covariances=[
            _Covariance(
                *(np.nan_to_num(part).tolist() for part in each.sources),
                np.asarray(each.refused).tolist(),
                each.reason,
                float(each.dispersion),
            )
            for each in state["covariances"]
        ],
        size=int(state["size"]),
    )


def _stored_labels(labels: NDArray[Any]) -> _Labels:
    values = labels.tolist()
    if not (
        _LABELS.fullmatch(labels.dtype.str)
        and all(isinstance(label, str | bool | int | float) for label in values)
    ):
        raise TypeError("labels must be text, whole numbers, numbers or booleans to be saved.")
    return _Labels(labels.dtype.str, values)


def _labels(stored: _Labels) -> NDArray[Any]:
    values = stored.values
    if not _LABELS.fullmatch(stored.type):
        raise ValueError("the labels must have a known type.")
    labels = np.array(values, dtype=np.dtype(stored.type))
    if [(type(label), label) for label in labels.tolist()] != [(type(v), v) for v in values]:
        raise ValueError(f"the labels are not of the type {stored.type!r}.")
    if len(set(values)) != len(values):
        raise ValueError("each label must be listed once.")
    return labels


def _restored(stored: _Estimator) -> Any:
    """Return the estimator with its fitted attributes, checked against each other."""
    if stored.kind not in _KINDS:
        raise ValueError(f"unknown estimator {stored.kind!r}; known: {', '.join(sorted(_KINDS))}.")
    expected = set(_KINDS[stored.kind]().get_params(deep=False)) - set(NOT_SAVED)
    if set(stored.settings) != expected:
        raise ValueError(f"the settings must be exactly {', '.join(sorted(expected))}.")
    estimator: Any = _KINDS[stored.kind](**_given(stored.settings))
    estimator._objective()
    fitted, columns = stored.fitted, stored.fitted.columns
    if fitted.names is not None:
        if len(fitted.names) != columns:
            raise ValueError(f"there must be {columns:,} names of columns.")
        estimator.feature_names_in_ = np.array(fitted.names, dtype=object)
    estimator.n_features_in_ = columns
    estimator.preparation_ = tuple(from_dict(step, FITTED_STEPS) for step in fitted.preparation)
    if any(isinstance(step, FittedBounds) for step in estimator.preparation_[1:]):
        raise ValueError("bounds can only be the first of the fitted steps.")
    bounds = (step for step in estimator.preparation_ if isinstance(step, FittedBounds))
    estimator.features_ = FeatureMap(next(bounds, None), from_plain(fitted.features))
    expansion = estimator.features_.expansion
    if expansion is not None and max(expansion.columns) >= columns:
        raise ValueError(f"the features are not for {columns:,} columns.")
    width = estimator.features_.width(columns)
    has_levels = isinstance(estimator, LevelModel)
    if (fitted.levels is not None) is not has_levels or (has_levels and fitted.prepared is None):
        raise ValueError("models with a constant per level, and they alone, have levels.")
    seen = width  # by the steps; levels have columns of their own
    if has_levels and fitted.prepared is not None:
        seen = max(width, *(len(row) for row in fitted.prepared.coef))
    for step in estimator.preparation_:
        if not step.accepts(columns if isinstance(step, FittedBounds) else seen):
            raise ValueError(f"the fitted step {step.name!r} is not for {seen:,} columns.")
    estimator.deviation_ = fitted.deviation
    estimator.solver_, estimator.row_norm_ = fitted.solver, fitted.row_norm
    classifies = isinstance(estimator, LinearClassifier)
    ordered = isinstance(estimator, OrdinalClassifier)
    has_classes, has_kind = fitted.classes is not None, fitted.multinomial is not None
    if (has_classes, has_kind) != (classifies or ordered, classifies):
        raise ValueError("classifiers, and they alone, have classes and multinomial.")
    if (fitted.link is not None) is not (has_levels or isinstance(estimator, LogisticRegression)):
        raise ValueError("a logistic regression has a link, other models have none.")
    if fitted.link is not None:
        estimator.link_ = Link(fitted.link.slope, fitted.link.noise, fitted.link.reach)
    n_models = 1
    if fitted.classes is not None:
        estimator.classes_ = _labels(fitted.classes)
    if classifies:
        estimator.multinomial_ = fitted.multinomial
        n_models = 1 if len(estimator.classes_) == 2 else len(estimator.classes_)
    if fitted.levels is not None:
        estimator.levels_ = np.array(fitted.levels)
        expected_levels = len(estimator._ends()) if not ordered else len(estimator.classes_) - 1
        if len(fitted.levels) != expected_levels:
            raise ValueError(f"there must be {expected_levels} levels.")
    prepared = fitted.prepared or _Weights(fitted.coef, fitted.intercept)
    whole = width if fitted.prepared is None else seen
    for weights, count in ((_Weights(fitted.coef, fitted.intercept), width), (prepared, whole)):
        coef, intercept = weights.coef, weights.intercept
        if [len(row) for row in coef] != [count] * n_models or len(intercept) != n_models:
            raise ValueError(f"coef must have the shape {(n_models, count)}, intercept {n_models}.")
    size = width + int(estimator.fit_intercept)
    for each in fitted.covariances:
        if [len(row) for row in (*each.sampling, *each.noise, *each.bias)] != [size] * (3 * size):
            raise ValueError(f"a covariance must have the shape {(size, size)}.")
        if len(each.refused) != size or len(fitted.covariances) != n_models:
            raise ValueError("there must be one covariance per model, for all coefficients.")
    estimator.size_ = fitted.size
    estimator.covariances_ = tuple(
        Covariance(
            np.array(each.sampling),
            np.array(each.noise),
            np.array(each.bias),
            np.array(each.refused),
            each.reason,
            each.dispersion,
        )
        for each in fitted.covariances
    )
    estimator.coef_, estimator.intercept_ = np.array(fitted.coef), np.array(fitted.intercept)
    estimator.prepared_coef_ = np.array(prepared.coef)
    estimator.prepared_intercept_ = np.array(prepared.intercept)
    if not classifies:
        estimator.coef_, estimator.intercept_ = estimator.coef_[0], fitted.intercept[0]
    return estimator


def _table(pipeline: Pipeline) -> _Table:
    from discreet.tables.reader import TableTransformer

    first = pipeline.steps[0][1]
    paid = [type(step).__name__ for _, step in pipeline.steps[:-1] if hasattr(step, "guarantee_")]
    if paid:
        raise TypeError(
            f"a pipeline with {' and '.join(paid)} cannot be saved: a model file states one "
            "guarantee, and these steps have their own. Leave them out, as solver='auto' centres "
            "and scales rows within the model's budget, or keep the pipeline with joblib.dump."
        )
    if len(pipeline.steps) != 2 or not isinstance(first, TableTransformer):
        raise TypeError(
            "only a Pipeline of two steps, a TableTransformer and a model, can be saved; save the "
            "model alone (pipeline[-1]) and keep the other steps yourself."
        )
    return _Table(
        steps=(pipeline.steps[0][0], pipeline.steps[1][0]),
        schema=first.schema.to_dict(),
        sparse=first.sparse if first.sparse == "auto" else bool(first.sparse),
        dtype=np.dtype(first.dtype).name,
    )


def _pipeline(stored: _Table, estimator: Any) -> Pipeline:
    from discreet.tables.reader import TableTransformer
    from discreet.tables.schema import Schema

    first, second = stored.steps
    if first == second:
        raise ValueError("the pipeline must have two steps of different names.")
    schema = Schema.from_dict(stored.schema, "the schema in it")
    if schema.width != estimator.n_features_in_:
        raise ValueError(
            f"its schema has {schema.width:,} encoded columns, its model "
            f"{estimator.n_features_in_:,}."
        )
    transformer = TableTransformer(schema, sparse=stored.sparse, dtype=stored.dtype)
    return Pipeline([(first, transformer), (second, estimator)])
