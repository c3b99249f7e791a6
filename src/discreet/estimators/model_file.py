"""Models as files: what prediction and explanation need, and nothing else about the rows.

A file is JSON, never code: reading one cannot run anything. The fitted model in it is a record of
`discreet.estimators.record`. docs/model-file.md lists its content, and what can be learned from it.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any, NoReturn, TextIO

import msgspec
import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from discreet.column_kinds import check_columns
from discreet.core import Guarantee
from discreet.design import Design
from discreet.errors import ModelFileError, NotSupported
from discreet.estimators.base import PrivateLinearModel
from discreet.estimators.record import KINDS, NOT_SAVED, Entry, Model, record_of
from discreet.files import replacing
from discreet.preparation import STEPS, Step, from_dict, to_dict
from discreet.solvers import Solver, resolve
from discreet.tables import Column
from discreet.tables.declarations import from_plain as column_from_plain
from discreet.tables.declarations import to_plain as column_to_plain

FORMAT = "discreet model"
VERSION = 2
OF_DESIGN = "design"
"""Entry for the schema of an estimator, whose content is the design of the fitted model."""

LARGEST = 2**30
"""Bytes of the largest file that is read: ten million weights take a quarter of it."""

_CHECKSUM = b',\n"sha256": "'


class _Solver(Entry):
    name: str
    settings: dict[str, Any]
    left_out: list[str]


class _Estimator(Entry):
    """An estimator: its class, its settings, and the record of its family (`record`)."""

    kind: str
    settings: dict[str, Any]
    fitted: dict[str, Any]


class _File(Entry):
    format: str
    version: int
    discreet: str
    warning: str | None
    estimator: _Estimator
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
    """Write a fitted estimator to a file; one with a design takes tables when it is read.

    A pipeline of a `TableTransformer` and an estimator is written as the estimator, whose design is
    then the schema. A file there is replaced, as a whole or not at all. An open text stream is
    written to.

    Notes
    -----
    *Privacy.* The file holds the model (weights and other releases that were paid for), its
    settings, the schema and the guarantee; all of it is covered by the guarantee or public. It does
    not hold rows, the trace, seeds, ledgers or callbacks. A model that is not private is saved with
    a warning in the file. If a ledger counted the fit, the file's SHA-256 is noted there.
    """
    estimator = _of_pipeline(model) if isinstance(model, Pipeline) else model
    kind = type(estimator).__name__
    if KINDS.get(kind) is not type(estimator):
        raise TypeError(
            f"only models of discreet ({', '.join(sorted(KINDS))}), alone or after a "
            f"TableTransformer in a Pipeline, can be saved; got {kind}."
        )
    check_is_fitted(estimator, "coef_")
    estimator._objective()
    fitted = record_of(type(estimator)).of(estimator)
    file = _File(
        format=FORMAT,
        version=VERSION,
        discreet=installed_version("discreet"),
        warning=_warning(estimator.guarantee_),
        estimator=_Estimator(kind, _settings(estimator), fitted.plain()),
        guarantee=estimator.guarantee_.to_dict(),
    )
    strict: dict[str, Any] = {"ensure_ascii": True, "allow_nan": False, "separators": (",", ":")}
    entries = [f'"{name}": {json.dumps(value, **strict)}' for name, value in _plain(file).items()]
    text = ",\n".join(entries)
    checksum = hashlib.sha256(f"{{\n{text}".encode("ascii")).hexdigest()
    whole = f'{{\n{text}{_CHECKSUM.decode()}{checksum}"\n}}\n'
    if isinstance(path, str | os.PathLike):
        with replacing(path) as stream:
            stream.write(whole)
    else:
        path.write(whole)
    entry = getattr(estimator, "ledger_entry_", None)
    if estimator.ledger is not None and entry is not None:
        estimator.ledger.attach(entry, hashlib.sha256(whole.encode("ascii")).hexdigest())


def load(path: str | os.PathLike[str]) -> Model:
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
        estimator: Model = _restored(file.estimator)
        estimator.guarantee_ = guarantee
        return estimator
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
            f"{path} was written in version {version} of the format; this discreet reads "
            f"version {VERSION}. Install a newer discreet."
        )
    if version < VERSION:
        raise ModelFileError(
            f"{path} was written in version {version} of the format; this discreet reads version "
            f"{VERSION}. Fit the model again and save it, or read the file with the discreet that "
            "wrote it."
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
    solver = settings["solver"]
    steps = settings["preparation"]
    settings["solver"] = solver if isinstance(solver, str) else _stored(solver)
    declared = check_columns(settings["columns"])
    listed = [[key, column_to_plain(column)] for key, column in declared.items()]
    settings["columns"] = listed or None
    settings["schema"] = None if settings["schema"] is None else OF_DESIGN
    if isinstance(settings.get("class_weight"), Mapping):  # keys of JSON objects are texts
        settings["class_weight"] = [list(pair) for pair in settings["class_weight"].items()]
    if steps is not None:
        steps = [steps] if isinstance(steps, Step) else steps
        settings["preparation"] = [to_dict(step) for step in steps]
    return {name: _plain(value) for name, value in settings.items()}


def _stored(solver: Solver) -> _Solver:
    """Return a solver by its name and fields; functions are left out."""
    if isinstance(solver, StoredSolver):
        return _Solver(solver.name, dict(solver.settings), list(solver.left_out))
    names = [field.name for field in dataclasses.fields(solver)]  # type: ignore[arg-type]
    fields = {name: getattr(solver, name) for name in names}  # solvers are dataclasses
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
    columns = msgspec.convert(settings["columns"], list[tuple[int | str, Any]] | None)
    if columns is not None:
        settings["columns"] = {key: column_from_plain(Column, value) for key, value in columns}
    if isinstance(settings.get("target_bounds"), list):
        settings["target_bounds"] = tuple(settings["target_bounds"])
    if isinstance(settings.get("class_weight"), list):
        settings["class_weight"] = dict(_as_tuple(settings["class_weight"]))
    return settings


def _solver(stored: _Solver) -> Solver:
    """Return the solver that is stored, or a placeholder if it cannot be made here."""
    settings = {name: _as_tuple(value) for name, value in stored.settings.items()}
    placeholder = StoredSolver(stored.name, tuple(settings.items()), tuple(stored.left_out))
    if stored.left_out:
        return placeholder
    try:
        return type(resolve(stored.name))(**settings)
    except (ValueError, TypeError, ImportError):  # not installed, or another version of it
        return placeholder


def _as_tuple(value: Any) -> Any:
    return tuple(_as_tuple(item) for item in value) if isinstance(value, list) else value


def _restored(stored: _Estimator) -> Any:
    """Return the estimator with its fitted attributes, checked against each other."""
    if stored.kind not in KINDS:
        raise ValueError(f"unknown estimator {stored.kind!r}; known: {', '.join(sorted(KINDS))}.")
    kind = KINDS[stored.kind]
    expected = set(kind().get_params(deep=False)) - set(NOT_SAVED)
    if set(stored.settings) != expected:
        raise ValueError(f"the settings must be exactly {', '.join(sorted(expected))}.")
    given = _given(stored.settings)
    by_schema = given.pop("schema")
    formula = given.pop("formula")
    if by_schema not in (None, OF_DESIGN):
        raise ValueError(f"the schema must be {OF_DESIGN!r} or null.")
    estimator = kind(**given)
    estimator._objective()
    record_of(kind).from_plain(stored.fitted).restore(estimator)
    known = None if estimator.design_ is None else estimator.design_.formula
    if formula != (None if known is None else known.text):
        raise ValueError("the formula must be that of the design.")
    estimator.formula = formula
    if by_schema is not None:
        if estimator.design_ is None:
            raise ValueError("a model with a schema must have a design.")
        estimator.schema = estimator.design_.schema
        estimator._objective()
    return estimator


def _of_pipeline(pipeline: Pipeline) -> Any:
    """Return the model after a `TableTransformer` as one that takes tables by its own design."""
    from discreet.tables.reader import TableTransformer

    if not pipeline.steps:
        raise TypeError("this pipeline is empty; there is nothing to save.")
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
    last = pipeline.steps[-1][1]
    if not isinstance(last, PrivateLinearModel):
        return last
    check_is_fitted(last, "coef_")
    model = copy.copy(last)
    model.columns = None
    model.schema = first.schema
    model._keep_design(Design(first.schema))
    return model
