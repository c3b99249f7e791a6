"""Fitted models as records: the released numbers of each family of estimators, as a file has them.

The fields of a record are the attributes of a fitted estimator, without the underscore. One set of
msgspec types describes them for writing and for reading; each family of estimators has a record of
its own, so that what a model must have is a matter of its type.
"""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any, ClassVar, Self, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from discreet.design import Design
from discreet.estimators.classifiers import LinearSVC, Link, LogisticRegression
from discreet.estimators.levels import DiscreteTimeSurvival, OrdinalClassifier
from discreet.estimators.log_linear import GammaRegressor, PoissonRegressor
from discreet.estimators.pair_terms import PairTerms
from discreet.estimators.regressors import HuberRegressor, LinearRegression, QuantileRegressor
from discreet.inference import Covariance
from discreet.inference.checks import Checks, Moment, Tails, Variances
from discreet.preparation import (
    FITTED_STEPS,
    FeatureMap,
    FittedBounds,
    FittedStep,
    from_dict,
    to_dict,
)
from discreet.preparation.feature_records import from_plain, to_plain
from discreet.preparation.features import Expansion

__all__ = ["KINDS", "NOT_SAVED", "Entry", "LinearFit", "Model", "record_of"]

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
Vector = list[Number]
Matrix = list[Vector]

_LABELS = re.compile(r"[<>|=]?(U\d{1,4}|[iu][1248]|f[248]|b1|O)")


class Entry(Struct, forbid_unknown_fields=True):
    """An object in the file, with exactly these entries."""


class Labels(Entry):
    """Labels of classes, and their type in NumPy."""

    type: str
    values: Annotated[list[bool | int | float | str], Meta(min_length=2)]

    @classmethod
    def of(cls, labels: NDArray[Any]) -> Self:
        """Return the labels as a file has them."""
        values: list[Any] = labels.tolist()
        plain = all(isinstance(label, str | bool | int | float) for label in values)
        if not (plain and _LABELS.fullmatch(labels.dtype.str)):
            raise TypeError("labels must be text, whole numbers, numbers or booleans to be saved.")
        return cls(labels.dtype.str, values)

    def array(self) -> NDArray[Any]:
        """Return the labels as they were."""
        if not _LABELS.fullmatch(self.type):
            raise ValueError("the labels must have a known type.")
        labels = np.array(self.values, dtype=np.dtype(self.type))
        found = [(type(label), label) for label in labels.tolist()]
        if found != [(type(label), label) for label in self.values]:
            raise ValueError(f"the labels are not of the type {self.type!r}.")
        if len(set(self.values)) != len(self.values):
            raise ValueError("each label must be listed once.")
        return labels


class StoredLink(Entry):
    """Map from scores to probabilities; see `discreet.estimators.classifiers.Link`."""

    slope: Number
    noise: Number
    reach: Number | None


class Weights(Entry):
    """One row of coefficients and one intercept per model."""

    coef: Matrix
    intercept: Vector

    @classmethod
    def of(cls, coef: Any, intercept: Any, name: str = "") -> Self:
        """Return the weights of an estimator, which must be finite."""
        for entry, value in (("coef", coef), ("intercept", intercept)):
            array = np.asarray(value)
            if array.dtype != np.float64 or not np.isfinite(array).all():
                raise ValueError(
                    f"{name}{entry}_ must be finite double-precision numbers to be saved."
                )
        return cls(np.atleast_2d(coef).tolist(), np.atleast_1d(intercept).tolist())

    def check(self, n_models: int, width: int) -> None:
        """Refuse weights of another number of models or features."""
        if [len(row) for row in self.coef] != [width] * n_models or len(self.intercept) != n_models:
            raise ValueError(f"coef must have the shape {(n_models, width)}, intercept {n_models}.")


class StoredTails(Entry):
    """One-sided tails of residuals; see `discreet.inference.checks.Tails`."""

    shift: Vector
    covariance: Matrix
    share: Number
    error: Number


class StoredVariances(Entry):
    """Variances of coefficients over those of the model."""

    ratio: Vector
    error: Number


class StoredMoment(Entry):
    """Second moment of weighted rows; see `discreet.inference.checks.Moment`."""

    matrix: Matrix
    frame: Matrix
    deviation: Number
    unit: Number


class StoredChecks(Entry):
    """Measurements beside the coefficients; see `discreet.inference.checks.Checks`."""

    at_bound: Number | None
    at_bound_error: Number
    cut: Number | None
    tails: StoredTails | None
    variances: StoredVariances | None
    moment: StoredMoment | None

    @classmethod
    def of(cls, found: Checks) -> Self:
        """Return the checks as a file has them."""
        kinds = {"tails": StoredTails, "variances": StoredVariances, "moment": StoredMoment}
        parts: dict[str, Any] = {}
        for name, kind in kinds.items():
            part = getattr(found, name)
            parts[name] = None if part is None else kind(**_plain(vars(part)))
        numbers = (found.at_bound, found.at_bound_error, found.cut)
        bound, error, cut = (None if each is None else float(each) for each in numbers)
        return cls(at_bound=bound, at_bound_error=error or 0.0, cut=cut, **parts)

    def restored(self, size: int) -> Checks:
        """Return the checks, whose shapes are checked."""
        kinds = {"tails": Tails, "variances": Variances, "moment": Moment}
        parts: dict[str, Any] = {}
        for name, kind in kinds.items():
            part = getattr(self, name)
            if part is not None:
                arrays = {key: np.array(each) for key, each in msgspec.structs.asdict(part).items()}
                shapes = {each.shape for each in arrays.values()}
                if not shapes <= {(), (size,), (size, size)}:
                    raise ValueError("checks of a covariance must be for all coefficients.")
                parts[name] = kind(**{k: v if v.ndim else float(v) for k, v in arrays.items()})
        return Checks(self.at_bound, self.at_bound_error, self.cut, **parts)


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Return arrays as lists, and numbers as floats."""
    return {name: np.asarray(value, dtype=np.float64).tolist() for name, value in fields.items()}


class StoredCovariance(Entry):
    """Covariance of one model's coefficients, by source; see `discreet.inference.Covariance`."""

    sampling: Matrix
    noise: Matrix
    bias: Matrix
    refused: list[bool]
    reason: str
    dispersion: Number
    checks: StoredChecks
    weights: Vector | None

    @classmethod
    def of(cls, found: Covariance) -> Self:
        """Return the covariance as a file has it: entries without a value are 0."""
        sampling, noise, bias = (np.nan_to_num(part).tolist() for part in found.sources)
        refused = np.asarray(found.refused).tolist()
        checks = StoredChecks.of(found.checks)
        weights = None if found.weights is None else found.weights.tolist()
        own = (found.reason, float(found.dispersion), checks, weights)
        return cls(sampling, noise, bias, refused, *own)

    def restored(self, size: int) -> Covariance:
        """Return the covariance, whose shape is checked."""
        parts = [self.sampling, self.noise, self.bias]
        if [len(row) for part in parts for row in part] != [size] * (3 * size):
            raise ValueError(f"a covariance must have the shape {(size, size)}.")
        if len(self.refused) != size:
            raise ValueError("a covariance must be for all coefficients.")
        sampling, noise, bias = (np.array(part) for part in parts)
        refused = np.array(self.refused)
        checks = self.checks.restored(size)
        weights = None if self.weights is None else np.array(self.weights)
        if weights is not None and weights.size != size:
            raise ValueError("an estimate must have all coefficients.")
        own = (self.reason, self.dispersion, checks, weights)
        return Covariance(sampling, noise, bias, refused, *own)


class LinearFit(Entry, kw_only=True):
    """Released numbers of a regressor, and what all families have.

    ``prepared`` are the weights of prepared rows, None where they are those of the features.
    """

    coef: Matrix
    intercept: Vector
    prepared: Weights | None
    deviation: Annotated[float, Meta(ge=0, le=sys.float_info.max)] | None
    columns: Annotated[int, Meta(ge=1)]
    names: list[str] | None
    design: dict[str, Any] | None
    features: Expansion | None
    preparation: tuple[FittedStep, ...]
    solver: str
    row_norm: Annotated[float, Meta(gt=0, le=sys.float_info.max)] | None
    covariances: list[StoredCovariance]
    size: Annotated[int, Meta(ge=0)]
    pairs: dict[str, Any] | None

    one_model: ClassVar[bool] = True
    """True if an estimator has one vector of coefficients and a number for its intercept."""

    @classmethod
    def entries(cls, model: Any) -> dict[str, Any]:
        """Return the entries of a fitted model, by the names of the fields."""
        weights = Weights.of(model.coef_, model.intercept_)
        names = getattr(model, "feature_names_in_", None)
        mapped = any(not isinstance(step, FittedBounds) for step in model.preparation_)
        prepared = Weights.of(model.prepared_coef_, model.prepared_intercept_, "prepared_")
        return {
            "coef": weights.coef,
            "intercept": weights.intercept,
            "prepared": prepared if mapped or cls.has_levels() else None,
            "deviation": None if model.deviation_ is None else float(model.deviation_),
            "columns": int(model.n_features_in_),
            "names": None if names is None else [str(name) for name in names],
            "design": None if model.design_ is None else model.design_.to_dict(),
            "features": model.features_.expansion,  # its bounds are among the fitted steps
            "preparation": model.preparation_,
            "solver": model.solver_,
            "row_norm": model.row_norm_,
            "covariances": [StoredCovariance.of(each) for each in model.covariances_],
            "size": int(model.size_),
            "pairs": None if model.pairs_ is None else model.pairs_.plain(),
        }

    @classmethod
    def of(cls, model: Any) -> Self:
        """Return the record of a fitted model."""
        renamed = {"n_features_in_", "feature_names_in_", "prepared_coef_", "prepared_intercept_"}
        known = {f"{field}_" for field in cls.__struct_fields__} | renamed | {"guarantee_"}
        own = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
        unknown = sorted(own - known - set(NOT_SAVED))
        if unknown:
            raise TypeError(f"the model has attributes that a file cannot hold: {unknown}.")
        return cls(**cls.entries(model))

    def plain(self) -> dict[str, Any]:
        """Return the record with steps and features as plain data."""
        entries = {name: getattr(self, name) for name in self.__struct_fields__}
        entries["preparation"] = [to_dict(step) for step in self.preparation]
        entries["features"] = to_plain(self.features)
        return entries

    @classmethod
    def from_plain(cls, content: Any) -> Self:
        """Return the record that `plain` was called on; anything else is a ``ValueError``."""
        return msgspec.convert(content, cls, dec_hook=_decoded)

    @classmethod
    def has_levels(cls) -> bool:
        """Return whether prepared rows have columns for levels."""
        return "levels" in cls.__struct_fields__

    def n_models(self) -> int:
        """Return the number of linear models."""
        return 1

    def restore(self, model: Any) -> None:
        """Give an estimator the attributes of the record, checked against each other."""
        if any(isinstance(step, FittedBounds) for step in self.preparation[1:]):
            raise ValueError("bounds can only be the first of the fitted steps.")
        if self.names is not None and len(self.names) != self.columns:
            raise ValueError(f"there must be {self.columns:,} names of columns.")
        design = None if self.design is None else Design.from_dict(self.design)
        if design is not None and design.names != self.names:
            raise ValueError("the columns of the design must be those of the table.")
        width = self.columns if design is None else design.width
        if self.features is not None and max(self.features.columns) >= width:
            raise ValueError(f"the features are not for {width:,} columns.")
        bounds = (step for step in self.preparation if isinstance(step, FittedBounds))
        features = FeatureMap(next(bounds, None), self.features)
        prepared = self._prepared(features.width(width), width)
        model.n_features_in_ = self.columns
        if self.names is not None:
            model.feature_names_in_ = np.array(self.names, dtype=object)
        model.design_ = design
        model.features_ = features
        model.preparation_ = self.preparation
        model.deviation_ = self.deviation
        model.solver_ = self.solver
        model.row_norm_ = self.row_norm
        model.size_ = self.size
        own = (self.pairs, width, len(self.coef))
        model.pairs_ = None if self.pairs is None else PairTerms.from_plain(*own)
        model.coef_ = np.array(self.coef[0] if self.one_model else self.coef)
        model.intercept_ = self.intercept[0] if self.one_model else np.array(self.intercept)
        model.prepared_coef_ = np.array(prepared.coef)
        model.prepared_intercept_ = np.array(prepared.intercept)
        if self.covariances and len(self.covariances) != self.n_models():
            raise ValueError("there must be one covariance per model.")
        size = features.width(width) + int(model.fit_intercept)
        model.covariances_ = tuple(each.restored(size) for each in self.covariances)

    def _prepared(self, width: int, encoded: int) -> Weights:
        """Return the weights of prepared rows; all of them, and the steps, fit the features."""
        weights = Weights(self.coef, self.intercept)
        weights.check(self.n_models(), width)
        prepared = self.prepared or weights
        whole = width
        if self.has_levels():
            if self.prepared is None:
                raise ValueError("models with levels have weights of prepared rows.")
            whole = max(width, *(len(row) for row in prepared.coef))
        prepared.check(self.n_models(), whole)
        for step in self.preparation:
            if not step.accepts(encoded if isinstance(step, FittedBounds) else whole):
                raise ValueError(f"the fitted step {step.name!r} is not for {whole:,} columns.")
        return prepared


class ClassifierFit(LinearFit, kw_only=True):
    """Released numbers of a classifier: one linear model for two classes, else one per class."""

    classes: Labels
    multinomial: bool

    one_model: ClassVar[bool] = False

    @classmethod
    def entries(cls, model: Any) -> dict[str, Any]:
        """Return the entries of a fitted model, by the names of the fields."""
        own = {"classes": Labels.of(model.classes_), "multinomial": model.multinomial_}
        return super().entries(model) | own

    def n_models(self) -> int:
        """Return the number of linear models."""
        return 1 if len(self.classes.values) == 2 else len(self.classes.values)

    def restore(self, model: Any) -> None:
        """Give an estimator the attributes of the record, checked against each other."""
        super().restore(model)
        model.classes_ = self.classes.array()
        model.multinomial_ = self.multinomial


class LogisticFit(ClassifierFit, kw_only=True):
    """Released numbers of a logistic regression, with its map from scores to probabilities."""

    link: StoredLink

    @classmethod
    def entries(cls, model: Any) -> dict[str, Any]:
        """Return the entries of a fitted model, by the names of the fields."""
        link = model.link_
        return super().entries(model) | {"link": StoredLink(link.slope, link.noise, link.reach)}

    def restore(self, model: Any) -> None:
        """Give an estimator the attributes of the record, checked against each other."""
        super().restore(model)
        model.link_ = Link(self.link.slope, self.link.noise, self.link.reach)


class LevelFit(LinearFit, kw_only=True):
    """Released numbers of a logistic model with one constant per level, such as a period."""

    link: StoredLink
    levels: Annotated[Vector, Meta(min_length=1)]

    @classmethod
    def entries(cls, model: Any) -> dict[str, Any]:
        """Return the entries of a fitted model, by the names of the fields."""
        link = model.link_
        stored = StoredLink(link.slope, link.noise, link.reach)
        return super().entries(model) | {"link": stored, "levels": model.levels_.tolist()}

    def n_levels(self, model: Any) -> int:
        """Return the number of levels that a model of these settings has."""
        return len(model._ends())

    def restore(self, model: Any) -> None:
        """Give an estimator the attributes of the record, checked against each other."""
        super().restore(model)
        if len(self.levels) != self.n_levels(model):
            raise ValueError(f"there must be {self.n_levels(model)} levels.")
        model.link_ = Link(self.link.slope, self.link.noise, self.link.reach)
        model.levels_ = np.array(self.levels)


class OrdinalFit(LevelFit, kw_only=True):
    """Released numbers of a model of ordered classes."""

    classes: Labels

    @classmethod
    def entries(cls, model: Any) -> dict[str, Any]:
        """Return the entries of a fitted model, by the names of the fields."""
        return super().entries(model) | {"classes": Labels.of(model.classes_)}

    def n_levels(self, model: Any) -> int:
        """Return the number of thresholds between the classes."""
        return len(self.classes.values) - 1

    def restore(self, model: Any) -> None:
        """Give an estimator the attributes of the record, checked against each other."""
        super().restore(model)
        model.classes_ = self.classes.array()


_RECORDS: dict[type[Model], type[LinearFit]] = {
    LogisticRegression: LogisticFit,
    LinearSVC: ClassifierFit,
    LinearRegression: LinearFit,
    HuberRegressor: LinearFit,
    QuantileRegressor: LinearFit,
    PoissonRegressor: LinearFit,
    GammaRegressor: LinearFit,
    OrdinalClassifier: OrdinalFit,
    DiscreteTimeSurvival: LevelFit,
}

KINDS: dict[str, type[Model]] = {kind.__name__: kind for kind in _RECORDS}
"""Estimators that can be saved, by name."""


def record_of(kind: type[Model]) -> type[LinearFit]:
    """Return the family of records of an estimator."""
    return _RECORDS[kind]


def _decoded(kind: type, content: Any) -> Any:
    """Return a fitted step or the features from plain data."""
    if kind is FittedStep:
        return from_dict(content, FITTED_STEPS)
    if kind is Expansion and isinstance(content, dict):
        return from_plain(content)
    raise ValueError(f"an entry must be plain data of a {kind.__name__}.")
