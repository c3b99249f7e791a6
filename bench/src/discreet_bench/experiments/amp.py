"""The experiments of Iyengar et al. 2019: approximate minima perturbation and its benchmark.

Iyengar, Near, Song, Thakkar, Thakurta & Wang, "Towards Practical Differentially Private Convex
Optimization", IEEE S&P 2019.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from discreet_bench.experiment import (
    BOTH,
    MEDIUM_REPEATS,
    SMALL_ADULT,
    SMALL_H,
    SMALL_L,
    Experiment,
    Grid,
    Plan,
    coarse,
    each,
    objective,
)

__all__ = [
    "EPSILONS",
    "EXPERIMENTS",
    "INDUSTRIAL",
    "MEDIUM_EPSILONS",
    "REPEATS",
    "TABLE_2",
    "allowed_steps",
    "coarse_grids",
    "grids",
]

PAPER = "Iyengar et al. 2019"
EPSILONS = tuple(10.0 ** (k / 2) for k in range(-4, 3))
"""10^-2, 10^-1.5, …, 10."""

DELTA, REPEATS, RELATION = "1/n^2", 10, ("replace_one",)

TABLE_2: dict[str, tuple[float, ...]] = {
    "regularization": (1e-5, 1e-4, 1e-3, 1e-2, 0.0),  # Λ
    "learning rate": (0.001, 0.01, 0.1, 1.0),  # η
    "iterations": (5, 10, 100, 1000, 5000),  # T
    "minibatch": (50, 100, 300),  # k
    "clipping": (0.1, 1.0, 10.0, 100.0),  # L
    "model constraint": (1.0, 10.0),  # C
    "output fraction": (0.001, 0.01, 0.1, 0.5),  # f
    "privacy fraction": (0.9, 0.92, 0.95, 0.98, 0.99),  # f₁
}
"""The paper's grid of hyper-parameters, by the names of its table II."""

CURVATURE = {"logistic": 0.25, "huber-hinge": 5.0}
"""Bounds on the second derivative of the losses; 1/(2h) for the Huber hinge with h = 0.1."""

BINARY: Mapping[str, Grid] = {"synthetic-l": {}, "adult": {}, "kddcup99": {"rows": [70_000]}}
MANY: Mapping[str, Grid] = {"covertype": {}, "mnist": {"rows": [65_000]}}
HIGH: Mapping[str, Grid] = {"gisette": {}, "real-sim": {}, "rcv1": {"rows": [50_000]}}
SYNTHETIC_H = {"logistic": 5000, "huber-hinge": 2000}
"""Rows and columns of Synthetic-H, for each loss."""

INDUSTRIAL = ((4_000_000, 23), (18_000_000, 294), (18_000_000, 20), (19_000_000, 70))
"""Rows and columns of the four data sets that are not public."""

UNCLIPPED = 1e6
"""A clip that the bound from loss and rows always replaces: only rows are clipped, as there."""

STRONG_ALPHA = 1e-2
"""Where the proof rests on a penalty, that of the default form; from the paper's grid."""

TUNED = ("amp", "sgd", "permutation-sgd", "permutation-sgd-sc", "frank-wolfe")
"""Methods that the paper tunes."""

STRONG: Grid = {"calibration": ["tight"], "alpha": [STRONG_ALPHA]}
"""Defaults of P-SCPSGD."""

MEDIUM_EPSILONS = EPSILONS[::2]
"""Every other ε: 0.01, 0.1, 1 and 10."""

MEDIUM_SMALL: Mapping[str, Grid] = {"synthetic-l": {}, "adult": {}}
MEDIUM_KDD: Mapping[str, Grid] = {"kddcup99": {"rows": [20_000]}}
MEDIUM_MANY: Mapping[str, Grid] = {"covertype": {"rows": [5000]}, "mnist": {"rows": [2000]}}
MEDIUM_H: Mapping[str, Grid] = {"synthetic-h": {"rows": [1000], "features": [1000]}}
MEDIUM_LARGE: Mapping[str, Grid] = {"industrial": {"rows": [50_000], "features": [23]}}
"""Data sets of the medium form; cuts are part of the name of a data set."""

EITHER = ("amp-hf", "amp", "sgd", "frank-wolfe")
"""Methods of the paper with proofs for both relations."""

MOST_PASSES = 100
"""Largest T of the coarse grids for methods that read all rows in each of T rounds."""

NOTES = (
    "Tuned lines are the best of the paper's grid (table II) by the mean of the test rows: that is "
    "hindsight and not private, there as here. Each method has the hyper-parameters that the paper "
    "tunes for it: AMP L, f and f₁; P-SGD Λ, η, T, k, L, and C where Λ > 0; P-PSGD η, T, k, L; "
    "P-SCPSGD Λ > 0, T, k, L, C; P-FW T, L, C.",
    "Left out of the grid: steps of P-PSGD above 2/β, for which there is no proof. With an "
    "intercept, β is (L² + 1)/4 for the logistic loss and 5(L² + 1) for the Huber hinge, so that "
    "L = 100 has no step at all. Runs of more than 100 million updates are refused.",
    "L clips rows in the Euclidean norm, as there. For P-FW it bounds the entries of a row's "
    "gradient, by scaling the gradient; the paper cuts the entries of the row.",
    "Each private method runs with the paper's constants, which are refused or marked where they "
    "break the promise, and with the least noise that keeps it.",
    "Adult has all rows and 105 columns (45,220 and 104 there), KDD Cup 99 122 columns (114). The "
    "recipe of Synthetic-L is ours. The paper's production data are not public: generated tables "
    "of their sizes stand in for them, the largest of which alone has 21 GB.",
    "Models have an intercept, and methods that can fit all classes at once do; the paper fits one "
    "model per class.",
    "The medium form has every other ε, 20,000 rows of KDD Cup 99, 5,000 of Covertype, 2,000 of "
    "MNIST, a Synthetic-H of 1,000 × 1,000, and one generated table of 50,000 × 23 in place of the "
    "production data. Published constants, released code, add/remove (the paper's relation is "
    "replace-one) and the grid are on Adult. Settings from the grid: the "
    "middle of every axis (the lower of two), and the ends of two axes, one at a time: L and f for "
    "AMP, η and T for P-SGD and P-PSGD, Λ and T for P-SCPSGD, C and T for P-FW; T ends at 100 for "
    "methods that read all rows in each of T rounds. Each method's own defaults are one more "
    "setting.",
)


def allowed_steps(loss: str, norm: float) -> list[float]:
    """Return the steps of table II that are at most 2/β for rows of at most this norm."""
    longest = 2 / (CURVATURE[loss] * (norm**2 + 1))
    return [step for step in TABLE_2["learning rate"] if step <= longest]


def grids(loss: str) -> list[dict[str, Grid]]:
    """Table II as solvers; several, as one solver can be in a plan once only."""
    penalties = [value for value in TABLE_2["regularization"] if value > 0]
    rounds, norms = list(TABLE_2["iterations"]), list(TABLE_2["clipping"])
    batches, radii = list(TABLE_2["minibatch"]), list(TABLE_2["model constraint"])
    amp: Grid = {
        "calibration": BOTH,
        "alpha": [0.0],
        "norm": norms,
        "output_fraction": list(TABLE_2["output fraction"]),
        "objective_fraction": list(TABLE_2["privacy fraction"]),
    }
    sgd: Grid = {
        "calibration": BOTH,
        "norm": norms,
        "gradient_clip": [UNCLIPPED],
        "step_size": list(TABLE_2["learning rate"]),
        "iterations": rounds,
        "batch_size": batches,
        "averaging": [False],
    }
    strong: Grid = {
        "calibration": BOTH,
        "alpha": penalties,
        "norm": norms,
        "passes": rounds,
        "batch_size": batches,
        "radius": radii,
    }
    frank_wolfe: Grid = {
        "calibration": BOTH,
        "alpha": [0.0],
        "gradient_clip": norms,
        "radius": radii,
        "iterations": rounds,
    }
    found: list[dict[str, Grid]] = [
        {
            "amp": amp,
            "sgd": {**sgd, "alpha": [0.0]},
            "permutation-sgd-sc": strong,
            "frank-wolfe": frank_wolfe,
        },
        {"sgd": {**sgd, "alpha": penalties, "radius": radii}},
    ]
    for norm in TABLE_2["clipping"]:
        if steps := allowed_steps(loss, norm):
            passes: Grid = {
                "calibration": BOTH,
                "alpha": [0.0],
                "norm": [norm],
                "step_size": steps,
                "passes": rounds,
                "batch_size": batches,
            }
            found.append({"permutation-sgd": passes})
    return found


def coarse_grids(loss: str) -> list[dict[str, Grid]]:
    """Return a few settings per method: of table II by `coarse`, and its own defaults.

    The first two parameters of each method are varied. The best of a grid that lacks a method's
    own defaults can be worse than they are.
    """
    passes = [rounds for rounds in TABLE_2["iterations"] if rounds <= MOST_PASSES]
    batches, radii = list(TABLE_2["minibatch"]), list(TABLE_2["model constraint"])
    norms = list(TABLE_2["clipping"])
    usual: Grid = {"alpha": [0.0]}
    norm = norms[(len(norms) - 1) // 2]
    steps = allowed_steps(loss, norm)
    own = {**each(TUNED, calibration=["tight"]), "permutation-sgd-sc": STRONG}
    table_2 = coarse({
        "amp": {
            "norm": norms,
            "output_fraction": list(TABLE_2["output fraction"]),
            "objective_fraction": list(TABLE_2["privacy fraction"]),
            **usual,
        },
        "sgd": {
            "step_size": list(TABLE_2["learning rate"]),
            "iterations": list(TABLE_2["iterations"]),
            "batch_size": batches,
            "norm": norms,
            "gradient_clip": [UNCLIPPED],
            "averaging": [False],
            **usual,
        },
        "permutation-sgd": {
            "step_size": steps,
            "passes": passes,
            "batch_size": batches,
            "norm": norms,
            **usual,
        },
        "permutation-sgd-sc": {
            "alpha": [value for value in TABLE_2["regularization"] if value > 0],
            "passes": passes,
            "batch_size": batches,
            "norm": norms,
            "radius": radii,
        },
        "frank-wolfe": {
            "radius": radii,
            "iterations": passes,
            "gradient_clip": norms,
            **usual,
        },
    })  # fmt: skip
    return [*table_2, own]


def untuned(calibrations: Sequence[str] = BOTH) -> dict[str, Grid]:
    """Return every method with its defaults, the public code, and the baselines."""
    methods = ("amp-hf", "amp", "sgd", "permutation-sgd", "frank-wolfe")
    return {
        "auto": {},
        **each(methods, calibration=list(calibrations)),
        "permutation-sgd-sc": {"calibration": list(calibrations), "alpha": [STRONG_ALPHA]},
        **each(("amp-released", "frank-wolfe-released", "nonprivate", "majority")),
    }


def _objective(loss: str, epsilon: Sequence[float]) -> Grid:
    return objective(epsilon, DELTA, relation=RELATION, loss=loss)


def _plans(loss: str, problems: Iterable[tuple[Mapping[str, Grid], Sequence[float]]]) -> list[Plan]:
    """Everything on each of the problems: data sets, and the ε for them."""
    extra: dict[str, Grid] = {"tuned": {"base": ["agd", "gd", "frank-wolfe"]}}
    if loss == "logistic":
        extra["scikit-learn"] = {}
    found: list[Plan] = []
    for data, epsilons in problems:
        asked = _objective(loss, epsilons)
        found.append(Plan(data, asked, {**untuned(), **extra}, REPEATS))
        found += [Plan(data, asked, grid, REPEATS, "grid") for grid in grids(loss)]
    return found


def _data(loss: str) -> list[tuple[Mapping[str, Grid], bool]]:
    """Return the data sets of the paper, and whether they have more than two classes."""
    size = SYNTHETIC_H[loss]
    high = {"synthetic-h": {"rows": [size], "features": [size]}, **HIGH}
    industrial = [
        ({"industrial": {"rows": [rows], "features": [features]}}, False)
        for rows, features in INDUSTRIAL
    ]
    return [(BINARY, False), (MANY, True), (high, False), *industrial]


def _numbers(loss: str) -> tuple[Plan, ...]:
    """Figures 1 and 3: ε = 0.1, and 1 for more than two classes."""
    return tuple(_plans(loss, ((data, (1.0 if many else 0.1,)) for data, many in _data(loss))))


def _curves(loss: str) -> tuple[Plan, ...]:
    """Figures 2 and 4: all ε."""
    return tuple(_plans(loss, ((data, EPSILONS) for data, _ in _data(loss))))


def _medium(loss: str, *, numbers: bool) -> tuple[Plan, ...]:
    """Return the medium form: one ε per data set for the numbers, four for the curves."""
    two = (0.1,) if numbers else MEDIUM_EPSILONS
    several = (1.0,) if numbers else MEDIUM_EPSILONS
    tight = {
        **each((*EITHER, "permutation-sgd"), calibration=["tight"]),
        "permutation-sgd-sc": STRONG,
    }
    baselines = {"auto": {}, **each(("nonprivate", "majority"))}
    published: dict[str, Grid] = {
        **each((*EITHER, "permutation-sgd"), calibration=["published"]),
        "permutation-sgd-sc": {**STRONG, "calibration": ["published"]},
        **each(("amp-released", "frank-wolfe-released")),
    }
    ours, both = ("add_remove",), ("add_remove", "replace_one")

    def plan(
        data: Mapping[str, Grid],
        epsilons: Sequence[float],
        solvers: Mapping[str, Grid],
        relation: Sequence[str] = RELATION,
        tuning: Literal["default", "grid"] = "default",
    ) -> Plan:
        asked = objective(epsilons, DELTA, relation=relation, loss=loss)
        return Plan(data, asked, solvers, MEDIUM_REPEATS, tuning)

    one_model = {**MEDIUM_SMALL, **MEDIUM_KDD, **MEDIUM_H, **MEDIUM_LARGE, **HIGH}
    return (
        plan(one_model, two, tight),
        plan({"adult": {}}, two, each(EITHER, calibration=["tight"]), ours),
        plan({"adult": {}}, two, published),
        plan(one_model, two, baselines, both),
        plan(MEDIUM_MANY, several, tight),
        plan(MEDIUM_MANY, several, baselines, both),
        *(plan({"adult": {}}, two, grid, tuning="grid") for grid in coarse_grids(loss)),
    )


def _quick(loss: str, epsilons: Sequence[float]) -> tuple[Plan, ...]:
    grid: dict[str, Grid] = {
        "amp": {"alpha": [0.0], "output_fraction": [0.01], "objective_fraction": [0.9, 0.99]},
        "sgd": {
            "alpha": [0.0],
            "gradient_clip": [UNCLIPPED],
            "step_size": [0.1, 1.0],
            "iterations": [100],
            "batch_size": [300],
            "averaging": [False],
        },
        "permutation-sgd": {"alpha": [0.0], "step_size": [0.1], "passes": [5], "batch_size": [50]},
        "frank-wolfe": {"alpha": [0.0], "radius": [1.0, 10.0], "iterations": [10, 100]},
    }
    methods = untuned(("tight",))
    return (
        Plan({**SMALL_L, **SMALL_ADULT}, _objective(loss, epsilons), methods, 2),
        Plan(SMALL_H, _objective(loss, epsilons[:1]), methods, 2),
        Plan(SMALL_L, _objective(loss, epsilons[:1]), grid, 2, "grid"),
    )


def _numbers_of(name: str, loss: str, model: str, figure: int) -> Experiment:
    return Experiment(
        name=name,
        title=f"{model} in numbers: ε = 0.1, or 1 for several classes",
        source=f"{PAPER}, figure {figure}",
        question="How accurate is each method, tuned as in the paper and with defaults?",
        plans=_numbers(loss),
        quick=_quick(loss, (0.1,)),
        medium=_medium(loss, numbers=True),
        notes=NOTES,
    )


def _curves_of(name: str, loss: str, model: str, figure: int) -> Experiment:
    return Experiment(
        name=name,
        title=f"{model} over ε: few columns, many columns, many rows",
        source=f"{PAPER}, figure {figure}",
        question="What does privacy cost in accuracy, and from which ε on is it next to nothing?",
        plans=_curves(loss),
        quick=_quick(loss, (0.1, 1.0)),
        medium=_medium(loss, numbers=False),
        notes=NOTES,
    )


EXPERIMENTS: tuple[Experiment, ...] = (
    _numbers_of("amp-fig1", "logistic", "Logistic regression", 1),
    _curves_of("amp-fig2", "logistic", "Logistic regression", 2),
    _numbers_of("amp-fig3", "huber-hinge", "Huber SVM", 3),
    _curves_of("amp-fig4", "huber-hinge", "Huber SVM", 4),
)
"""In the order of the paper."""
