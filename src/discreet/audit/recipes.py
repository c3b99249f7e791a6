"""The settings and ways of running under which each solver shows most of a row.

Few iterations show more than many: what is released at the end then says more of each noisy
answer. The code, the accounting and the composition of several answers are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from discreet.core import Budget
from discreet.estimators import HuberRegressor, LinearSVC, LogisticRegression
from discreet.objectives import Huber, HuberHinge, Loss
from discreet.preparation import Centre, Radius, Scale
from discreet.solvers import (
    AGD,
    AMP,
    AMPHF,
    GD,
    RRPSGD,
    SGD,
    FrankWolfe,
    LaplaceSGD,
    Newton,
    ObjPert,
    OutPert,
    PermutationSGD,
    PrivGene,
    ShrunkGD,
    Solver,
)

__all__ = ["LONG", "RECIPES", "Recipe", "pipelines"]

Way = Literal["one by one", "side by side", "one result"]

ROW_NORM = 1.0
LONG = 10.0
"""A length at which gradients are clipped, for estimators without ``data_norm``."""
STEEP = HuberHinge()
"""Its slope is as large as its bound over a wide range of margins."""

SMALL_STEP = 1e-3
"""With it weights stay near zero, where the slope of the loss is as large as it gets."""


@dataclass(frozen=True)
class Recipe:
    """One solver with settings under which an attack sees most, and a way to run it.

    Attributes
    ----------
    solver
        The settings.
    way
        How many trials are run at once.
    label
        What tells it from other settings of the same solver.
    loss, alpha, n_features, row_norm
        The problem. Choices show most where there is little to choose from: in one column. Without
        a bound on rows all that bounds a row's effect is the clip of its gradient.
    """

    solver: Solver
    way: Way = "one by one"
    loss: Loss = STEEP
    alpha: float = 0.0
    n_features: int = 2
    row_norm: float | None = ROW_NORM
    label: str = ""

    def subject(self, name: str) -> str:
        """What is attacked, for people: the solver, and what is special about its settings."""
        calibration = getattr(self.solver, "calibration", "tight")
        special = [self.label, "" if calibration == "tight" else calibration]
        words = ", ".join(word for word in special if word)
        return f"{name} ({words})" if words else name


STRONG_PENALTY = 40.0
"""With it curvature costs little of ε, and noise has most of it: that is where a row shows."""

PRECISE = 1e-6
"""A bound on the gradient at the point that is found: the published one, 1/n², is large for so few
rows, and so is the noise that hides it."""

_SIGNS: dict[str, Any] = {
    "generations": 2,
    "population": 8,
    "mutation": 0.1,
    "last_mutation": 0.1,
    "objective_clip": 0.01,
}
"""With these, all that counts of a candidate is on which side of the last winner it lies."""

RECIPES: dict[str, tuple[Recipe, ...]] = {
    "gd": (
        Recipe(GD(20, step_size=SMALL_STEP, momentum=0.0, averaging=0.0), "side by side"),
        Recipe(GD(20, step_size=SMALL_STEP), "side by side", label="momentum and averaging"),
        Recipe(
            GD(5, step_size=SMALL_STEP, momentum=0.0, averaging=0.0),
            "side by side",
            row_norm=None,
            label="clipped gradients",
        ),
    ),
    "sgd": (
        Recipe(SGD(step_size=SMALL_STEP, iterations=8, batch_size=3), "side by side"),
        Recipe(
            SGD(step_size=SMALL_STEP, iterations=8, batch_size=3),
            "side by side",
            row_norm=None,
            label="clipped gradients",
        ),
    ),
    "sgd-adv": (
        Recipe(
            SGD(published="bassily", step_size=SMALL_STEP, iterations=8, batch_size=3),
            "side by side",
        ),
        Recipe(
            SGD(
                "published",
                published="bassily",
                step_size=SMALL_STEP,
                iterations=8,
                batch_size=3,
            ),
            "side by side",
        ),
    ),
    "sgd-ma": (
        Recipe(
            SGD(published="abadi", step_size=SMALL_STEP, iterations=8, batch_size=3), "side by side"
        ),
        Recipe(
            SGD(
                "published",
                published="abadi",
                step_size=SMALL_STEP,
                iterations=8,
                batch_size=3,
            ),
            "side by side",
        ),
    ),
    "objpert": (
        Recipe(ObjPert(ridge=STRONG_PENALTY), "side by side"),
        Recipe(ObjPert(), "side by side", label="default penalty"),
        Recipe(ObjPert("published"), "side by side"),
    ),
    "amp": (
        Recipe(AMP(), "side by side"),
        Recipe(AMP("published", gradient_bound=PRECISE), "side by side"),
    ),
    "amp-hf": (
        Recipe(AMPHF(), "side by side"),
        Recipe(AMPHF("published", gradient_bound=PRECISE), "side by side"),
    ),
    "outpert": (
        Recipe(OutPert(), "one result", alpha=1.0),
        Recipe(OutPert("published"), "one result", alpha=1.0),
    ),
    "permutation-sgd": (
        Recipe(PermutationSGD(passes=2, batch_size=2, step_size=0.1)),
        Recipe(PermutationSGD("published", passes=2, batch_size=2, step_size=0.1)),
        Recipe(
            PermutationSGD(mode="strongly-convex", passes=2, batch_size=2),
            alpha=1.0,
            label="strongly convex",
        ),
    ),
    "rrpsgd": (
        Recipe(RRPSGD(max_rounds=6, step_size=0.1)),
        Recipe(RRPSGD("published", max_rounds=6, step_size=0.1)),
    ),
    "laplace-sgd": (
        Recipe(LaplaceSGD(batch_size=3, step_size=0.1)),
        Recipe(LaplaceSGD("published", batch_size=3, passes=2, step_size=0.1)),
    ),
    "frank-wolfe": (
        Recipe(FrankWolfe(iterations=2, radius=0.01), n_features=1),
        Recipe(FrankWolfe("published", iterations=2, radius=0.01), n_features=1),
    ),
    "privgene": (
        Recipe(PrivGene(**_SIGNS), n_features=1),
        Recipe(PrivGene("published", **_SIGNS), n_features=1),
    ),
    "agd": (
        Recipe(AGD(splits=1, n_steps=1, max_iterations=1, objective_clip=1.0), n_features=1),
        Recipe(
            AGD(splits=3, n_steps=1, objective_clip=1.0), n_features=1, label="with refinements"
        ),
        Recipe(
            AGD("published", splits=5, n_steps=1, max_iterations=2, objective_clip=1.0),
            n_features=1,
        ),
    ),
    "newton": (Recipe(Newton(iterations=1), loss=Huber(1.0)),),
    "shrunk-gd": (
        Recipe(ShrunkGD(iterations=2)),
        Recipe(ShrunkGD(iterations=1, first_share=1), label="one stage"),
    ),
}


def pipelines(budget: Budget) -> dict[str, tuple[Any, ...]]:
    """Whole estimators: the automatic choice, a preparation, several classes, regression."""
    settings: dict[str, Any] = {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "relation": str(budget.relation),
    }
    return {
        "auto": (
            LogisticRegression(**settings, fit_intercept=False),
            LogisticRegression(**settings),
        ),
        "pipeline: preparation and gd": (
            LogisticRegression(
                **settings,
                solver=GD(3),
                preparation=[Radius(), Centre(), Scale()],
                fit_intercept=False,
            ),
        ),
        "pipeline: three classes": (
            LinearSVC(
                **settings,
                solver=GD(3, momentum=0.0, step_size=SMALL_STEP),
                classes=[-1, 0, 1],
                data_norm=ROW_NORM,
                fit_intercept=False,
            ),
        ),
        "pipeline: automatic SVM": (LinearSVC(**settings, fit_intercept=False),),
        "pipeline: automatic regression": (
            HuberRegressor(**settings, target_bounds=(-1.0, 1.0), fit_intercept=False),
        ),
    }
