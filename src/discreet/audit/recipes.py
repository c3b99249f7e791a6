"""Settings under which an attack sees most of a row, one recipe or more per solver.

Few iterations reveal more than many: the final weights then depend more on each noisy answer. The
code, the accounting and the composition of several answers are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from discreet import estimators, solvers
from discreet.audit.trials import Way
from discreet.core import Budget
from discreet.objectives import Huber, HuberHinge, Loss, Pinball, Poisson
from discreet.preparation import Centre, Radius, Scale

PEOPLE = ": people"  # ends the names of subjects that are attacked through a person of several rows
ROW_NORM = 1.0  # bound on the norm of a row, for solvers that need one
LONG = 10.0  # a row norm at which gradients are clipped, for estimators without ``data_norm``
STEEP = HuberHinge()  # its slope attains its bound over a wide range of margins
SMALL_STEP = 1e-3  # keeps the weights near zero, where the slope of the loss is largest


@dataclass(frozen=True)
class Recipe:
    """A solver with settings under which an attack sees most, and a way to run its trials.

    Without ``way`` the solver's behaviour decides. A choice reveals most where there is little to
    choose from: in one column. Without ``row_norm``, only the clip of its gradient bounds a row's
    effect. ``label`` distinguishes settings of the same solver.
    """

    solver: solvers.Solver
    way: Way | None = "one by one"
    loss: Loss = STEEP
    alpha: float = 0.0
    n_features: int = 2
    row_norm: float | None = ROW_NORM
    label: str = ""

    def subject(self, name: str) -> str:
        """Return a display name: the solver, and what distinguishes its settings."""
        calibration = getattr(self.solver, "calibration", "tight")
        special = [self.label, "" if calibration == "tight" else calibration]
        text = ", ".join(word for word in special if word)
        return f"{name} ({text})" if text else name


STRONG_PENALTY = 40.0  # curvature then costs little of ε, and the noise that hides a row has most
PRECISE = 1e-6  # gradient bound; the published 1/n² is large for few rows, and so is its noise


def _both(solver: Any, way: Way = "one by one", **problem: Any) -> tuple[Recipe, Recipe]:
    """Return recipes for the tight and for the published calibration of a solver."""
    published = replace(solver, calibration="published")
    return Recipe(solver, way, **problem), Recipe(published, way, **problem)


def _batches(name: str) -> Any:
    """Return an SGD method with few small steps on batches of about 3 rows."""
    method: Any = solvers.resolve(name)
    return replace(method, step_size=SMALL_STEP, iterations=8, batch_size=3)


_together = partial(Recipe, way="side by side")
_plain_gd = partial(solvers.GD, step_size=SMALL_STEP, momentum=0.0, averaging=0.0)
_agd = partial(solvers.AGD, n_steps=1, objective_clip=1.0)

RECIPES: dict[str, tuple[Recipe, ...]] = {
    "gd": (
        _together(_plain_gd(20)),
        _together(solvers.GD(20, step_size=SMALL_STEP), label="momentum and averaging"),
        _together(_plain_gd(5), row_norm=None, label="clipped gradients"),
        _together(_plain_gd(5), loss=Pinball(0.9), label="quantile"),
    ),
    "sgd": (
        _together(_batches("sgd")),
        _together(_batches("sgd"), row_norm=None, label="clipped gradients"),
    ),
    "sgd-adv": _both(_batches("sgd-adv"), "side by side"),
    "sgd-ma": _both(_batches("sgd-ma"), "side by side"),
    "objpert": (
        _together(solvers.ObjPert(ridge=STRONG_PENALTY)),
        _together(solvers.ObjPert(), label="default penalty"),
        _together(solvers.ObjPert("published")),
    ),
    "amp": (_together(solvers.AMP()), _together(solvers.AMP("published", gradient_bound=PRECISE))),
    "amp-hf": (
        _together(solvers.AMPHF()),
        _together(solvers.AMPHF("published", gradient_bound=PRECISE)),
    ),
    "outpert": _both(solvers.OutPert(), "one result", alpha=1.0),
    "permutation-sgd": (
        *_both(solvers.PermutationSGD(passes=2, batch_size=2, step_size=0.1)),
        Recipe(
            solvers.PermutationSGD(mode="strongly-convex", passes=2, batch_size=2),
            alpha=1.0,
            label="strongly convex",
        ),
    ),
    "rrpsgd": _both(solvers.RRPSGD(max_rounds=6, step_size=0.1)),
    "laplace-sgd": (
        Recipe(solvers.LaplaceSGD(batch_size=3, step_size=0.1)),
        Recipe(solvers.LaplaceSGD("published", batch_size=3, passes=2, step_size=0.1)),
    ),
    "frank-wolfe": _both(solvers.FrankWolfe(iterations=2, radius=0.01), n_features=1),
    "privgene": _both(  # each choice is only between the sides of the last winner
        solvers.PrivGene(
            generations=2, population=8, mutation=0.1, last_mutation=0.1, objective_clip=0.01
        ),
        n_features=1,
    ),
    "agd": (
        Recipe(_agd(splits=1, max_iterations=1), n_features=1),
        Recipe(_agd(splits=3), n_features=1, label="with refinements"),
        Recipe(_agd("published", splits=5, max_iterations=2), n_features=1),
    ),
    "newton": (
        Recipe(solvers.Newton(iterations=1), loss=Huber(1.0)),
        Recipe(solvers.Newton(iterations=1), loss=Poisson(1.0), row_norm=None, label="Poisson"),
    ),
    "shrunk-gd": (
        Recipe(solvers.ShrunkGD(iterations=2)),
        Recipe(solvers.ShrunkGD(iterations=1, first_share=1), label="one stage"),
    ),
}


def pipelines(budget: Budget) -> dict[str, tuple[Any, ...]]:
    """Return whole estimators: the automatic choice, a preparation, three classes, regression."""
    settings: dict[str, Any] = {"epsilon": budget.epsilon, "delta": budget.delta}
    settings |= {"relation": str(budget.relation), "fit_intercept": False}
    constant = {**settings, "fit_intercept": True}
    steps = [Radius(), Centre(), Scale()]
    short = solvers.GD(3, momentum=0.0, step_size=SMALL_STEP)
    classes = [-1, 0, 1]
    started = solvers.GD(3, start_share=0.3, shrink=True)
    return {
        "auto": (
            estimators.LogisticRegression(**settings),
            estimators.LogisticRegression(**constant),
        ),
        "pipeline: preparation and gd": (
            estimators.LogisticRegression(**settings, solver=solvers.GD(3), preparation=steps),
            estimators.LogisticRegression(**constant, solver=started, preparation=steps),
        ),
        f"pipeline{PEOPLE}": (
            estimators.LogisticRegression(**settings, solver=solvers.GD(3), preparation=steps),
        ),
        "pipeline: three classes": (
            estimators.LinearSVC(**settings, solver=short, classes=classes, data_norm=ROW_NORM),
        ),
        "pipeline: automatic SVM": (estimators.LinearSVC(**settings),),
        "pipeline: automatic regression": (
            estimators.HuberRegressor(**settings, target_bounds=(-1.0, 1.0)),
            estimators.QuantileRegressor(**settings, target_bounds=(-1.0, 1.0), quantile=0.9),
        ),
        "pipeline: counts and amounts": (
            estimators.PoissonRegressor(**constant, target_bounds=(0.0, 1.0)),
            estimators.GammaRegressor(**constant, target_bounds=(0.1, 1.0)),
        ),
        "pipeline: several rows of each": (
            estimators.OrdinalClassifier(**constant, solver=short, classes=classes),
            estimators.DiscreteTimeSurvival(**constant, solver=short, periods=[-0.5, 0.5, 1.5]),
        ),
    }
