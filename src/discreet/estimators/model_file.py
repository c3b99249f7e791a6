"""Models as files: everything that prediction and explanation need, and nothing about the rows.

A file is JSON, never code: reading one cannot run anything. What it holds, and what a curious
person could read from it, is listed in docs/model-file.md.
"""

from __future__ import annotations

import math
import os
import re
from importlib.metadata import version as installed_version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from discreet.core import Guarantee
from discreet.errors import ModelFileError
from discreet.estimators import checked_json
from discreet.estimators.base import PrivateLinearModel
from discreet.estimators.classifiers import LinearSVC, LogisticRegression
from discreet.estimators.model_settings import (
    NOT_SETTINGS,
    StoredSolver,
    are_texts,
    check_keys,
    check_settings,
    plain_setting,
    settings_from_plain,
    settings_to_plain,
)
from discreet.estimators.probabilities import Link
from discreet.estimators.regressors import HuberRegressor, LinearRegression
from discreet.preparation.fitted import from_dict as fitted_step

__all__ = ["StoredSolver", "load", "save"]

FORMAT = "discreet model"
VERSION = 1

_KINDS: dict[str, type[PrivateLinearModel]] = {
    kind.__name__: kind
    for kind in (HuberRegressor, LinearRegression, LinearSVC, LogisticRegression)
}
_FITTED = (
    "classes_",
    "coef_",
    "feature_names_in_",
    "guarantee_",
    "intercept_",
    "multinomial_",
    "link_",
    "n_features_in_",
    "preparation_",
    "row_norm_",
    "solver_",
)
_NOT_SAVED = ("trace_",)
_FITTED_KEYS = (
    "coef",
    "intercept",
    "classes",
    "columns",
    "names",
    "preparation",
    "solver",
    "row_norm",
    "joint",
    "link",
)
_LABELS = re.compile(r"[<>|=]?(U\d{1,4}|[iu][1248]|f[248]|b1|O)")
_NO_PROMISE = {
    "not private": "NOT PRIVATE: these weights were computed on the exact rows. Do not publish "
    "them unless the rows may be.",
    "test mode": "TEST MODE, NOT PRIVATE: a seed was fixed, so the noise can be predicted.",
}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file.

    Parameters
    ----------
    model : estimator or Pipeline
        A fitted estimator of discreet, or a `Pipeline` of a `TableTransformer` and one.
    path : path
        Where to; a file there is replaced, as a whole or not at all.

    Privacy
    -------
    The file holds what the model is made of (weights and other answers that were paid for), its
    settings, the schema and the guarantee; all of it is covered by the guarantee or public. Not in
    it: rows, the trace, seeds, accountants, callbacks. A model that is not private is saved with a
    warning in the file.
    """
    schema, estimator = None, model
    if isinstance(model, Pipeline):
        if not model.steps:
            raise TypeError("this pipeline is empty; there is nothing to save.")
        schema, estimator = _table_of(model), model.steps[-1][1]
    if _KINDS.get(type(estimator).__name__) is not type(estimator):
        raise TypeError(
            f"only models of discreet ({', '.join(sorted(_KINDS))}), alone or after a "
            f"TableTransformer in a Pipeline, can be saved; got {type(estimator).__name__}."
        )
    check_is_fitted(estimator, "coef_")
    check_settings(estimator)
    guarantee = estimator.guarantee_
    checked_json.write(
        {
            "format": FORMAT,
            "version": VERSION,
            "discreet": installed_version("discreet"),
            "warning": _warning(guarantee),
            "estimator": {
                "kind": type(estimator).__name__,
                "settings": settings_to_plain(estimator),
                "fitted": _fitted(estimator),
            },
            "table": schema,
            "guarantee": guarantee.to_dict(),
        },
        path,
    )


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote; it predicts exactly as it did when it was saved.

    Anything that is not such a file, whole and unchanged, is a `ModelFileError`. Reading runs no
    code from the file, but believes what it says: take model files from people you trust.
    """
    content = checked_json.read(path, FORMAT, VERSION)
    try:
        check_keys(
            "the file",
            content,
            ["format", "version", "discreet", "warning", "estimator", "table", "guarantee"],
        )
        guarantee = Guarantee.from_dict(content["guarantee"])
        if content["warning"] != _warning(guarantee):
            raise ValueError("its warning does not fit its guarantee.")
        estimator = _estimator(content["estimator"])
        estimator.guarantee_ = guarantee
        return estimator if content["table"] is None else _pipeline(content["table"], estimator)
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{path} is not a model that can be read: {error}") from error


def _warning(guarantee: Guarantee) -> str | None:
    if not guarantee.private:
        return _NO_PROMISE["not private"]
    return None if guarantee.secure else _NO_PROMISE["test mode"]


# What was fitted.


def _fitted(estimator: Any) -> dict[str, Any]:
    state = {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("_") and name not in _NOT_SAVED
    }
    unknown = sorted(set(state) - set(_FITTED))
    if unknown:
        raise TypeError(f"the model has attributes that have no place in a file: {unknown}.")
    names = state.get("feature_names_in_")
    return {
        "coef": _numbers_to_plain("coef_", state["coef_"]),
        "intercept": _numbers_to_plain("intercept_", state["intercept_"]),
        "classes": _labels_to_plain(state["classes_"]) if "classes_" in state else None,
        "columns": int(state["n_features_in_"]),
        "names": None if names is None else [str(name) for name in names],
        "preparation": [step.to_dict() for step in state.get("preparation_") or ()],
        "solver": state["solver_"],
        "row_norm": state["row_norm_"],
        "joint": state.get("multinomial_"),
        "link": state["link_"].to_dict() if "link_" in state else None,
    }


def _numbers_to_plain(name: str, values: Any) -> Any:
    array = np.asarray(values)
    if array.dtype != np.float64 or not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite double-precision numbers to be saved.")
    return array.tolist()


def _labels_to_plain(labels: NDArray[Any]) -> dict[str, Any]:
    plain = {"type": labels.dtype.str, "values": labels.tolist()}
    if not (
        _LABELS.fullmatch(labels.dtype.str)
        and all(isinstance(label, str | bool | int | float) for label in plain["values"])
    ):
        raise TypeError("labels must be text, whole numbers, numbers or booleans to be saved.")
    return plain


def _estimator(data: Any) -> Any:
    check_keys("the estimator", data, ["kind", "settings", "fitted"])
    kind, settings, fitted = data["kind"], data["settings"], data["fitted"]
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"unknown kind of estimator {kind!r}; known: {', '.join(sorted(_KINDS))}.")
    expected = set(_KINDS[kind]().get_params(deep=False)) - set(NOT_SETTINGS)
    check_keys("the settings", settings, expected)
    estimator = _KINDS[kind](**settings_from_plain(settings))
    check_settings(estimator)
    check_keys("what was fitted", fitted, _FITTED_KEYS)
    _restore(estimator, fitted)
    return estimator


def _restore(estimator: Any, fitted: dict[str, Any]) -> None:
    """Give the estimator its fitted attributes, checked against each other."""
    columns, names = fitted["columns"], fitted["names"]
    if isinstance(columns, bool) or not isinstance(columns, int) or columns < 1:
        raise ValueError("the number of columns must be a whole number of at least 1.")
    if names is not None:
        if not are_texts(names) or len(names) != columns:
            raise ValueError(f"the names of columns must be {columns:,} texts.")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    estimator.n_features_in_ = columns
    estimator.preparation_ = _preparation(fitted["preparation"], columns)
    if not isinstance(fitted["solver"], str):
        raise ValueError("the solver that ran must be a name.")
    estimator.solver_ = fitted["solver"]
    estimator.row_norm_ = _row_norm(fitted["row_norm"])
    classifies = isinstance(estimator, LogisticRegression | LinearSVC)
    if (fitted["classes"] is not None) is not classifies:
        raise ValueError("a classifier has labels, a regressor has none.")
    if not isinstance(fitted["joint"], bool if classifies else type(None)):
        raise ValueError("joint must be true or false for a classifier, null for a regressor.")
    if (fitted["link"] is not None) is not isinstance(estimator, LogisticRegression):
        raise ValueError("a logistic regression has a link, other models have none.")
    if fitted["link"] is not None:
        estimator.link_ = Link.from_dict(fitted["link"])
    if classifies:
        estimator.multinomial_ = fitted["joint"]
        estimator.classes_ = _labels_from_plain(fitted["classes"])
        count = len(estimator.classes_)
        models = 1 if count == 2 else count
        estimator.coef_ = _numbers_from_plain("coef", fitted["coef"], (models, columns))
        estimator.intercept_ = _numbers_from_plain("intercept", fitted["intercept"], (models,))
    else:
        estimator.coef_ = _numbers_from_plain("coef", fitted["coef"], (columns,))
        estimator.intercept_ = float(_numbers_from_plain("intercept", fitted["intercept"], ()))


def _row_norm(value: Any) -> float | None:
    """The norm that longer rows are scaled down to, if there is one."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, float | int) or not 0 < value < math.inf:
        raise ValueError("the norm of rows must be a number above 0, or null.")
    return float(value)


def _preparation(steps: Any, columns: int) -> tuple[Any, ...]:
    """The fitted steps, each for a table of this width."""
    if not (isinstance(steps, list) and all(isinstance(step, dict) for step in steps)):
        raise ValueError("the fitted preparation must be a list of steps.")
    fitted = tuple(fitted_step(step) for step in steps)
    for step in fitted:
        if not step.fits(columns):
            raise ValueError(f"the fitted step {step.name!r} is not for {columns:,} columns.")
    return fitted


def _numbers_from_plain(name: str, values: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """An array of finite numbers of this shape, from lists of JSON numbers."""
    if not _has_shape(values, shape):
        raise ValueError(f"{name} must be finite numbers of the shape {shape}.")
    return np.array(values, dtype=np.float64)


def _has_shape(values: Any, shape: tuple[int, ...]) -> bool:
    if not shape:
        return isinstance(values, float) and math.isfinite(values)
    return (
        isinstance(values, list)
        and len(values) == shape[0]
        and all(_has_shape(item, shape[1:]) for item in values)
    )


def _labels_from_plain(data: Any) -> NDArray[Any]:
    check_keys("the labels", data, ["type", "values"])
    kind, values = data["type"], data["values"]
    if not (isinstance(kind, str) and _LABELS.fullmatch(kind) and isinstance(values, list)):
        raise ValueError("the labels must have a known type and a list of values.")
    if len(values) < 2 or not all(isinstance(label, str | bool | int | float) for label in values):
        raise ValueError("there must be two labels at least, each a text or a number.")
    labels = np.array(values, dtype=np.dtype(kind))
    if labels.tolist() != values or [type(label) for label in labels.tolist()] != [
        type(label) for label in values
    ]:
        raise ValueError(f"the labels are not of the type {kind!r}.")
    if len(set(values)) != len(values):
        raise ValueError("a label stands twice in the list.")
    return labels


# The table before it.


def _table_of(pipeline: Pipeline) -> dict[str, Any]:
    from discreet.tables.transformer import TableTransformer

    first = pipeline.steps[0][1]
    if len(pipeline.steps) != 2 or not isinstance(first, TableTransformer):
        raise TypeError(
            "only a Pipeline of two steps, a TableTransformer and a model, can be saved; save the "
            "model alone (pipeline[-1]) and keep the other steps yourself."
        )
    return {
        "steps": [name for name, _ in pipeline.steps],
        "schema": first.schema.to_dict(),
        "sparse": plain_setting("sparse", first.sparse),
        "dtype": np.dtype(first.dtype).name,
    }


def _pipeline(data: Any, estimator: Any) -> Pipeline:
    from discreet.tables.schema import Schema
    from discreet.tables.transformer import TableTransformer

    check_keys("the table", data, ["steps", "schema", "sparse", "dtype"])
    steps, sparse = data["steps"], data["sparse"]
    if not (are_texts(steps) and len(set(steps)) == 2):
        raise ValueError("the pipeline must have two steps of different names.")
    if sparse not in (True, False, "auto") or data["dtype"] not in ("float32", "float64"):
        raise ValueError("the table's sparse or dtype is unknown.")
    schema = Schema.from_dict(data["schema"], "the schema in it")
    if schema.width != estimator.n_features_in_:
        raise ValueError(
            f"its schema has {schema.width:,} encoded columns, its model "
            f"{estimator.n_features_in_:,}."
        )
    transformer = TableTransformer(schema, sparse=sparse, dtype=data["dtype"])
    return Pipeline([(steps[0], transformer), (steps[1], estimator)])
