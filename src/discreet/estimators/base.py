"""Base of all estimators: a shell of scikit-learn's contract around `discreet.estimators.engine`.

It declares the settings and their checks, turns what a caller passes into arrays, and offers what
can be computed from a fitted model. The fit itself is in the engine.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from discreet import engines
from discreet.card import Card, card
from discreet.column_kinds import check_columns, is_table, with_texts
from discreet.core import Budget, Guarantee
from discreet.design import Design, EncodedRows, unit_of_table
from discreet.errors import NotSupported, PrivacyError
from discreet.estimators import averaged, coefficients, effects, engine, familiar, layout
from discreet.estimators import features as feature_rule
from discreet.estimators.discovery import RawTable
from discreet.estimators.explain import Explanation, explained
from discreet.estimators.findings import Findings
from discreet.estimators.method import Settings, settle
from discreet.estimators.pair_terms import PairTerms
from discreet.estimators.trace import Trace, plot_trace
from discreet.estimators.units import Inputs, Rule
from discreet.formula import Formula
from discreet.inference import Covariance, Summary
from discreet.inference.summary import forest_plot
from discreet.ledger import Dataset
from discreet.objectives import L2, Loss
from discreet.preparation import Bounds, FeatureMap, FittedStep, Step, pipeline
from discreet.preparation.magnitude import DISTANT, FittedMagnitude
from discreet.solvers import Progress, Solver
from discreet.tables import Column, Ignored
from discreet.tables.schema import Schema, as_schema
from discreet.validate import FloatArray, check_table, check_target, choice, flag, integer, number

if TYPE_CHECKING:
    from discreet.figures import Figure

_TABLES = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
"""Tables that are used as they are; scikit-learn converts others."""

ATTRIBUTES = (
    "coef",
    "intercept",
    "prepared_coef",
    "prepared_intercept",
    "deviation",
    "covariances",
    "features",
    "preparation",
    "solver",
    "row_norm",
    "size",
    "trace",
)
"""Released numbers of a fit that an estimator has as attributes, with an underscore."""


Method = TypeVar("Method", bound=Callable[..., Any])


def by_blocks(method: Method) -> Method:
    """Make a method that predicts take Dask arrays and dataframes, block by block and by need."""

    @functools.wraps(method)
    def predict(self: Any, X: Any) -> Any:
        if engines.is_lazy(X):
            return engines.predicted(X, functools.partial(method, self))
        return method(self, X)

    return predict  # type: ignore[return-value]


@dataclass(eq=False, repr=False)
class PrivateLinearModel(Findings, BaseEstimator):  # type: ignore[misc]
    """Base class: settings, checks, and the private fit of one or several linear models."""

    epsilon: float = familiar.UNCHOSEN
    delta: float = 1e-6
    _: KW_ONLY
    relation: str = "add_remove"
    solver: str | Solver = "auto"
    alpha: float = 1e-4
    data_norm: float | None = None
    fit_intercept: bool = True
    preparation: Sequence[Step] | None = None
    rows_per_unit: int | None = None
    features: str = "auto"
    columns: Sequence[int | str] | Mapping[int | str, Any] | None = None
    schema: Schema | str | os.PathLike[str] | None = None
    formula: str | None = None
    inference: bool | str = "auto"
    cov_type: str | None = None
    weight_bound: float | None = None
    random_state: Any = None
    ledger: Dataset | None = None
    progress: Callable[[Progress], None] | None = None
    verbose: bool | int = False

    coef_: FloatArray = field(init=False)
    features_: FeatureMap = field(init=False)
    prepared_coef_: FloatArray = field(init=False)
    prepared_intercept_: FloatArray = field(init=False)
    deviation_: float | None = field(init=False)
    guarantee_: Guarantee = field(init=False)
    trace_: Trace = field(init=False)
    preparation_: tuple[FittedStep, ...] = field(init=False)
    solver_: str = field(init=False)
    row_norm_: float | None = field(init=False)
    ledger_entry_: int | None = field(init=False)
    covariances_: tuple[Covariance, ...] = field(init=False)
    design_: Design | None = field(init=False, default=None)
    size_: int = field(init=False)
    pairs_: PairTerms | None = field(init=False, default=None)

    # fit gets both from pipelines and searches of scikit-learn, if metadata routing is enabled
    __metadata_request__fit: ClassVar = {"groups": True, "sample_weight": True}

    counted_before: ClassVar[int | None] = None
    """Number of fits before this one, if a tuning has counted it: its own fits share a number."""

    _has_intervals: ClassVar[bool] = False
    _shifted_intercept: ClassVar[bool] = False
    _robust_errors: ClassVar[bool] = True
    _least_squares: ClassVar[bool] = False
    _finds_levels: ClassVar[bool] = True
    _errors_need: ClassVar[tuple[str, ...]] = ()
    _ratio: ClassVar[str] = ""  # name of exp(coefficient), where it is the ratio of something
    _booleans: tuple[int, ...] = field(init=False)
    _is_own: bool = field(init=False)  # rows were made for the fit alone

    def _loss(self) -> Loss:
        """Return the row loss that the estimator's settings name."""
        raise NotImplementedError

    @staticmethod
    def log_odds(fitted: engine.Fitted) -> Callable[[FloatArray], FloatArray]:
        """Return the function from scores of a fit to those that its predictions stand for."""
        return np.asarray

    def _clipped(self) -> tuple[str, ...]:
        """State how targets are clipped; texts depend on settings alone, whatever the rows are."""
        return ()

    def _unchecked(self) -> tuple[str, ...]:
        """State what a fit does not check in the targets, as the answer would be about rows."""
        return ()

    def set_params(self, **params: Any) -> Self:
        """Set parameters; keywords of other libraries are refused with what to use instead."""
        names = [name.partition("__")[0] for name in params]
        familiar.refuse(type(self).__name__, names, self._get_param_names(), ValueError)
        super().set_params(**params)
        return self

    def check_settings(self) -> None:
        """Raise if a setting is wrong, as `fit` would, without any data."""
        settle(self)

    def _objective(self) -> tuple[Budget, Loss, L2]:
        """Check the settings that do not depend on the solver; return budget, loss and penalty."""
        budget = Budget(self.epsilon, self.delta, self.relation)
        alpha = number("alpha", self.alpha, least=0.0, most=1e50)
        if self.data_norm is not None:
            number("data_norm", self.data_norm, least=1e-50, most=1e50)
        if isinstance(self.inference, str):
            choice("inference", self.inference, ("auto",))
        else:
            flag("inference", self.inference)
        if self.inference is True and not self._has_intervals:
            raise NotSupported(
                f"{type(self).__name__} has no intervals: its coefficients estimate no parameter "
                "of a distribution. Leave inference=False, or use LogisticRegression."
            )
        if self.cov_type is not None:
            choice("cov_type", self.cov_type, coefficients.COV_TYPES)
            if self.cov_type == "robust" and not self._robust_errors:
                raise NotSupported(
                    f"{type(self).__name__} has no robust errors: its rows are several for each "
                    'one of the table. Pass cov_type="model".'
                )
        if not isinstance(self.fit_intercept, np.bool_):
            flag("fit_intercept", self.fit_intercept)
        if self.rows_per_unit is not None:
            remedy = "1 makes each person count once."
            integer("rows_per_unit", self.rows_per_unit, most=2**30, remedy=remedy)
        if self.weight_bound is not None:
            number("weight_bound", self.weight_bound, least=1e-50, most=1e50)
        if self.columns is not None:
            check_columns(self.columns)
        if self.schema is not None and self.columns is not None:
            raise ValueError("a schema declares all columns: give schema or columns, but not both.")
        choice("features", self.features, feature_rule.KINDS)
        return budget, self._loss(), L2(alpha)

    def check_formula(self) -> Formula | None:
        """Return the terms that the setting ``formula`` names; wrong ones are a ``ValueError``."""
        if self.formula is None:
            return None
        known = None if self.design_ is None else self.design_.formula
        if known is not None and known.text == self.formula:  # of a model that was read from a file
            return known
        found = Formula.of(self.formula)
        if found.response is not None:
            raise ValueError(
                f"formula={self.formula!r}: the target is y of fit. Leave out what is before '~', "
                "or use discreet.glm."
            )
        if found.intercept != self.fit_intercept:
            have = "a" if found.intercept else "no"
            raise ValueError(
                f"formula={self.formula!r} has {have} constant, and fit_intercept="
                f"{self.fit_intercept}. Pass fit_intercept={found.intercept}."
            )
        if self.features not in ("auto", "linear"):
            raise ValueError(
                f"a formula says what the features are; got features={self.features!r}. Leave it "
                "out, and write bs(COLUMN) for a curve."
            )
        if self.preparation is not None and any(isinstance(s, Bounds) for s in self.preparation):
            raise NotSupported(
                "Bounds before a formula would change its columns. Declare bounds in columns, or "
                "leave out preparation."
            )
        return found

    def _read(
        self,
        X: Any,
        y: Any,
        settings: Settings,
        *,
        numbers: bool,
        groups: Any = None,
        aside: str | None = None,
    ) -> tuple[Any, NDArray[Any] | None]:
        """Convert X and y to arrays; X is checked for NaN where the rows are made.

        Rows that are elsewhere are read into blocks there, which hold the targets: y is then None.
        The column ``aside`` of a table is no feature.
        """
        # if this fit fails, no mixture with attributes of an earlier one is left
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.design_ = None
        self._is_own = False
        formula = self.check_formula()
        schema = None if self.schema is None else as_schema(self.schema)
        if isinstance(X, EncodedRows):
            schema = X.schema
            X = X.encoded if engines.is_lazy(X.encoded) else X
        if not isinstance(X, np.ndarray) and engines.is_lazy(X):
            if formula is not None:
                raise NotSupported(
                    "a formula is for tables of this process, and these rows are on workers. Read "
                    "them with discreet.glm and the files."
                )
            return self._read_blocks(X, y, settings, schema, groups), None
        design = None
        if schema is not None:
            design = Design(schema)
            design = design if formula is None else design.with_formula(formula)
        elif formula is not None or not isinstance(X, np.ndarray):
            design = Design.of(X, self._declared(aside), formula)
        check_target(y, numbers=numbers)
        form: Any = {"y_numeric": numbers, "ensure_all_finite": False, **_TABLES}
        if design is not None:
            design = design.for_inference() if self.inference is True else design
            self._keep_design(design)
            if design.discovered and self.features == "pairs":
                raise NotSupported(
                    "features='pairs' needs levels that are known before the fit, and "
                    f"{', '.join(design.discovered)} declares discover(). List the levels in "
                    "columns, or use features='auto'."
                )
            if design.discovered:
                return self._read_raw(X, y, form)
            self._is_own = design.contrasts or getattr(X, "is_own", True)
            encoded: tuple[Any, NDArray[Any]] = check_X_y(design.encode(X), y, **form)
            return encoded
        self._booleans = check_table(X)
        with np.errstate(all="ignore"):  # a warning about one row would be about that row
            X, y = validate_data(self, X, y, **form)
        return X, y

    def _declared(self, aside: str | None) -> dict[int | str, Column]:
        """Return what is declared of columns; the one ``aside`` is not to be used."""
        declared = check_columns(self.columns)
        if aside is None:
            return declared
        if not isinstance(declared.get(aside, Ignored()), Ignored):
            raise ValueError(
                f"{aside!r} is declared as a feature in columns, and is the exposure of the rows. "
                "Leave it out of columns."
            )
        return {**declared, aside: Ignored("exposure of the rows")}

    def _read_blocks(
        self, X: Any, y: Any, settings: Settings, schema: Schema | None, groups: Any
    ) -> Any:
        """Open a table whose rows are on workers; refuse what needs single rows."""
        if settings.method is not None and not settings.method.solver.takes_blocks:
            raise NotSupported(
                f"solver={settings.method.solver.name!r} needs single rows or their order, and "
                "these rows are in blocks on workers. Use a solver that asks for sums over all "
                "rows, such as 'auto', 'gd', 'agd', 'newton', 'objpert' or 'outpert'."
            )
        method = settings.method
        if groups is not None and method is not None and not method.solver.takes_units:
            raise NotSupported(
                f"solver={method.solver.name!r} takes one row of each person, and these rows "
                "are on workers. Use 'auto', 'gd', 'agd' or 'newton'."
            )
        if (
            groups is not None
            and settings.inference is True
            and not getattr(X, "whole_units", False)
        ):
            raise NotSupported(
                "standard errors for people need all rows of a person in one place, and these rows "
                "are in blocks on workers. Read them with schema.open(files), which needs little "
                "memory, or pass inference=False."
            )
        header = engines.header_of(X)
        if schema is not None:
            self._keep_design(Design(schema))
        else:
            self._booleans = check_table(header)
            validate_data(self, header, skip_check_array=True)
        table = engines.open_table(X, y, groups)
        if not table.shape[0]:  # as scikit-learn says of one in memory
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        return table

    def _read_raw(self, X: Any, y: Any, form: dict[str, Any]) -> tuple[RawTable, NDArray[Any]]:
        """Check a table whose rows are encoded once levels were found, and its targets."""
        if not self._finds_levels:
            raise NotSupported(
                f"{type(self).__name__} makes several rows of each one, and levels are found in "
                "rows as they are. List the levels in columns."
            )
        assert self.design_ is not None
        self.design_.check(X)
        raw = RawTable.of(with_texts(X), self.design_)
        _, target = check_X_y(np.zeros((raw.shape[0], 1)), y, **form)
        return raw, target

    def _unit_of(self, X: Any, groups: Any) -> Any:
        """Return whose row each row is: ``groups``, or the column of X that the schema names.

        A schema that names a unit is refused if neither has it: the promise would be for one row.
        So is one whose own cost cannot be added to that of the fit.
        """
        assert self.schema is not None
        schema = as_schema(self.schema)
        unit = schema.unit
        if not isinstance(X, EncodedRows):
            if engines.is_lazy(X):
                raise NotSupported(
                    "a schema is for tables of this process, and these rows are on workers. Use "
                    "discreet.fit with the files."
                )
            if not is_table(X):
                raise ValueError(
                    f"a schema is for tables with names of columns; got {type(X).__name__}. Pass "
                    "a pandas, polars or Arrow table."
                )
            groups = unit_of_table(X, unit, groups)
        if unit is not None and groups is None:
            raise PrivacyError(
                f"The schema names the unit {unit!r}, but X does not have this column, and fit got "
                f"no groups: the promise would be for one row. Pass X with {unit!r}, or groups. If "
                "no unit has several rows, leave it out of the schema."
            )
        named = unit if unit is not None or groups is None else "groups"
        schema.check_cost(str(self.relation), named)
        return groups

    def _keep_design(self, design: Design) -> None:
        """Keep the design of a fit, with names and number of the columns of its table."""
        self.design_ = design
        self._booleans = design.indicators
        self.feature_names_in_ = np.array(design.names, dtype=object)
        self.n_features_in_ = len(design.names)

    @property
    def n_encoded_(self) -> int:
        """Number of columns of encoded rows: those of X, unless a design makes others of them."""
        return int(self.n_features_in_) if self.design_ is None else self.design_.width

    def _read_new(self, X: Any) -> Any:
        """Convert rows to predict on to an array."""
        if engines.is_lazy(X):
            engines.refuse_sites(X)
            raise TypeError(
                f"A {type(X).__name__} is not loaded here; compute it first (X.compute()), if its "
                "rows fit in memory."
            )
        if self.design_ is not None:
            return self.design_.encode_new(X)
        check_table(X)
        return validate_data(self, X, reset=False, **_TABLES)

    def without_offset(self, X: Any) -> tuple[Any, FloatArray | None]:
        """Return the features of rows to predict on, and their offset, if the formula has one."""
        if self.design_ is None or not self.design_.has_offset:
            return X, None
        last: Any = X[:, [X.shape[1] - 1]]
        column = last.toarray() if hasattr(last, "toarray") else last
        return X[:, :-1], np.asarray(column[:, 0], dtype=np.float64)

    def _offset(self, X: Any) -> FloatArray | None:
        """Return the offset of each row of a table; None if the formula has none."""
        return None if self.design_ is None else self.design_.offsets(X)

    def _fit_models(
        self, settings: Settings, X: Any, y: Any, rules: Sequence[Rule], **about: Any
    ) -> engine.Fitted:
        """Fit models to a table, warn of what was found, and keep released numbers as attributes.

        `Inputs` says what the arguments are; it has what is known about the columns as well.
        """
        names = getattr(self, "feature_names_in_", None)
        about |= {"names": names, "booleans": self._booleans, "is_own": self._is_own}
        design = self.design_
        if design is not None:
            about |= {"names": design.feature_names, "design": design}
            about["public"] = (*about.get("public", ()), *design.public)
        inputs = Inputs(X, y, tuple(rules), **about)
        fitted, statement = engine.fit(settings, inputs)
        self.design_ = fitted.design
        paired = fitted.pairs is not None and bool(fitted.pairs.terms)
        if fitted.deviation is not None and not (paired or fitted.prepared_coef.any()):
            familiar.warn(
                "All coefficients are 0: at this budget nothing stands out from noise, and the "
                "model is a constant. Use more rows, a larger epsilon or fewer columns."
            )
        width = fitted.prepared_coef.shape[1]
        for step in fitted.preparation:
            if not isinstance(step, FittedMagnitude) or len(step.factors) != width:
                continue
            distant = step.distant()
            if distant.size:
                names = fitted.features.names(layout.column_names(self))
                listed = ", ".join(names[j] for j in distant[:5])
                familiar.warn(
                    f"The unit of {listed} was measured to be more than 2^{DISTANT} times "
                    "larger or smaller than that of other columns. If that is not so, scale "
                    "the columns by public numbers before the fit."
                )
        for name in ATTRIBUTES:
            setattr(self, f"{name}_", getattr(fitted, name))
        self.pairs_ = fitted.pairs
        self.guarantee_ = statement.guarantee
        self.ledger_entry_ = statement.ledger_entry
        return fitted

    def plot_trace(self) -> Figure:
        """Draw the numbers of the trace against the iteration: a figure of released numbers."""
        return plot_trace(self)

    def card(self, **details: Any) -> Card:
        """Return the privacy card of the fit, which notebooks display; see `discreet.card.card`."""
        check_is_fitted(self, "coef_")
        return card(self, **details)

    def summary(
        self,
        level: float = 0.95,
        *,
        odds_ratios: bool | None = None,
        names: Sequence[str] | None = None,
        cov_type: str | None = None,
    ) -> Summary:
        """Return the table of coefficients with standard errors, p-values and intervals.

        It is text when printed, HTML in a notebook, and ``to_frame()`` is for pandas. It is made of
        released numbers: nothing is spent. docs/inference.md explains its columns.

        The table of a model that was fitted to a table with names has one block per column.
        Numbers have the coefficient of one unit of their own, and levels of a category that of
        the difference from its reference level, with a joint test of all of them.

        Parameters
        ----------
        level : float
            Confidence level of the intervals.
        odds_ratios : bool, optional
            Whether to add exp(coefficient) and its interval: odds ratios of logistic models, rate
            ratios of counts. By default where columns have names and the model has such a ratio.
        names : sequence of str, optional
            Names of the columns of X, if it was fitted without.
        cov_type : {"model", "robust"}, optional
            Kind of standard errors. By default robust ones, if the fit measured them.
        """
        about: Any = {"odds_ratios": odds_ratios, "names": names, "cov_type": cov_type}
        return coefficients.summary(self, level, **about)

    def conf_int(self, level: float = 0.95, *, cov_type: str | None = None) -> FloatArray:
        """Return confidence intervals of the coefficients, as rows (low, high) like `summary`.

        The intercept is first. Rows are NaN where an interval cannot be trusted. Several models
        have one table each.
        """
        return coefficients.conf_int(self, level, cov_type)

    @property
    def cov_params_(self) -> FloatArray:
        """Covariance of the coefficients of `summary`; NaN where it cannot be trusted."""
        return coefficients.cov_params(self)

    @property
    def standard_errors_(self) -> FloatArray:
        """Standard errors of the coefficients of `summary`; NaN where there are none."""
        return coefficients.standard_errors(self)

    @property
    def columns_(self) -> list[dict[str, Any]]:
        """The columns: name, kind, bounds or levels, unit of the coefficient, and features."""
        check_is_fitted(self, "coef_")
        return layout.records(self)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the features that ``coef_`` belongs to, those of ``features_``."""
        check_is_fitted(self, "coef_")
        return np.array(layout.feature_names(self), dtype=object)

    def explain(self, X: Any) -> Explanation:
        """Return what each column contributes to the scores of rows, around the average row.

        The contributions and the baseline add up to the score of a row. The average row has the
        released means of the features; where none were released, the middle of a column's bounds
        or 0. Nothing is spent. An explanation shows its own rows: protect it like them.
        """
        check_is_fitted(self, "coef_")
        return explained(self, self._read_new(X))

    def select_coefficients(self, rule: str = "universal", *, level: float = 0.1) -> Self:
        """Return a copy of the model in which coefficients that could be noise are 0.

        For models with ``inference=True``, by their known standard errors: nothing is spent. The
        copy has no intervals, as it was selected by the same numbers; docs/inference.md says what
        it does to the others.

        Parameters
        ----------
        rule : {"universal", "fdr"}
            Keep coefficients above √(2·log d) standard errors, for d columns; or those whose
            p-values Benjamini and Hochberg's method finds at a false discovery rate.
        level : float
            The false discovery rate.
        """
        copied: Self = coefficients.selected(self, rule, level)
        return copied

    def plot_coefficients(self, level: float = 0.95, names: Sequence[str] | None = None) -> Figure:
        """Draw the coefficients with their intervals: a forest plot of released numbers."""
        return forest_plot(self.summary(level, names=names))

    def plot_effects(
        self,
        names: Sequence[str] | None = None,
        units: effects.Units | None = None,
        *,
        columns: Sequence[str] | None = None,
        panels: int | None = None,
    ) -> Figure:
        """Draw the effect of each column on the score, with a band of 95 % of the known noise.

        The figure shows released numbers only.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the columns of X, if it was fitted without; columns called
            ``column=category`` are drawn as categories of one column.
        units : mapping, optional
            By the name of a column, the name of its unit, such as "years", which labels the axis;
            or a function that brings numbers of the table to another unit.
        columns : sequence of str, optional
            The columns to draw, by name; by default those with the largest effects.
        panels : int, optional
            Number of columns that are drawn, by default at most 30.
        """
        return effects.plot_effects(self, names, units, columns=columns, panels=panels)

    def _margins(self, X: Any, *, by_row: bool = False) -> FloatArray:
        """Return scores of shape (n_rows, n_models), linear in the features of X.

        With ``by_row``, each score depends on its row and the model alone, to the last bit. Nothing
        is said of such rows, which may be private.
        """
        X, offset = self.without_offset(X)
        if not by_row:
            averaged.warn(self, X)
        pairs = self.pairs_.scores(X) if self.pairs_ and self.pairs_.terms else None
        X = averaged.with_averages(self, X)
        weights = np.atleast_2d(self.coef_)
        constants = np.atleast_1d(self.intercept_)
        scores = pipeline.linear_scores(self.features_, X, weights, constants, by_row=by_row)
        averaged.average_levels(self, X, scores)
        if pairs is not None:
            scores += pairs
        return scores if offset is None else scores + offset[:, None]
