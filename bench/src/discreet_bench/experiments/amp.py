"""The experiments of Iyengar et al. 2019: approximate minima perturbation and its benchmark.

Iyengar, Near, Song, Thakkar, Thakurta & Wang, "Towards Practical Differentially Private Convex
Optimization", IEEE S&P 2019.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from discreet_bench.experiment import (
    BOTH,
    SMALL_ADULT,
    SMALL_H,
    SMALL_L,
    Claim,
    Experiment,
    Grid,
    Item,
    Pick,
    Plan,
    each,
    objective,
    repeats_item,
)

__all__ = [
    "EPSILONS",
    "EXPERIMENTS",
    "INDUSTRIAL",
    "REPEATS",
    "TABLE_2",
    "allowed_steps",
    "grids",
    "paper_grids",
]

PAPER = "Iyengar et al. 2019"
EPSILONS = tuple(10.0 ** (k / 2) for k in range(-4, 3))
"""10^-2, 10^-1.5, …, 10."""

DELTA = "1/n^2"
REPEATS = 10
PAPER_REPEATS = 20
"""Repeats of the paper form where a fit takes less than a second; more than the paper's own."""

RELATION = ("replace_one",)

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

STRONG: Grid = {"calibration": list(BOTH), "alpha": [STRONG_ALPHA]}
"""Defaults of P-SCPSGD."""

METHODS = ("amp-hf", "amp", "sgd", "permutation-sgd", "frank-wolfe")
"""Methods of the paper that need no penalty."""

SPARSE: Mapping[str, Grid] = {"reuters": {}}
"""A sparse table of many columns that is at hand, in place of those that are not."""

PAPER_INDUSTRIAL = (1_000_000, 23)
"""Size of the generated table that stands in for production data in the paper form."""

MOST_PASSES = 100
"""Largest T of the paper form's grid for methods that read all rows in each of T rounds."""

MOST_UPDATES = {"logistic": 1000, "huber-hinge": 100}
"""Largest T of the paper form's grid for P-SGD, for each loss."""

GRID_REPEATS = {"logistic": 3, "huber-hinge": 1}
"""Repeats of the paper form's grids, for each loss."""

NUMBERS_SECONDS = {"logistic": 20.0, "huber-hinge": 1.0}
CURVES_SECONDS = 1.0
"""Processor seconds of a cell in the paper form of figures 1 and 3, for each loss, and of figures 2
and 4."""

MANY_EPSILONS = (1.0,)
"""Budget of the paper form's curves on tables of several classes, which are slow."""

WITH_INTERCEPT = "with intercept"
"""Name of lines that depart from the paper's protocol."""

PROTOCOL = (
    Item("intercept", "none", also="AMP and H-F AMP with one, on Adult"),
    Item("row scaling", "rows clipped to norm L; entries to L for P-FW"),
    Item(
        "clip of P-FW",
        "entries of a row are cut at L",
        "a row's gradient is scaled until no entry exceeds L",
        "the sensitivity of the loss with a label",
    ),
    Item(
        "several classes",
        "one model per class on ε/K and δ/K",
    ),
    Item("split", "80/20, one order of the rows", "80/20, a new order in each repeat"),
    Item("δ", "1/n²"),
    Item("relation", "replace one row"),
    Item(
        "steps of P-PSGD",
        "0.001 to 1 for every L",
        "those of at most 2/β",
        "longer steps have no proof",
    ),
    Item("rows of Adult", "45,220 × 104", "48,842 × 105", "unknown values are kept"),
    Item("rows of KDD Cup 99", "70,000 × 114", "70,000 × 122", "public lists of symbols"),
    Item("columns of Synthetic-L", "20 in table I, 40 in the released code", "40"),
    Item(
        "Gisette, real-sim, RCV1",
        "run",
        "run where their files are at hand; Reuters stands in for them",
        "not at hand",
    ),
)

_INDUSTRIAL = Item(
    "production data",
    "four tables of 4 to 19 million rows",
    "one generated table of 1,000,000 × 23",
    "not public",
)

NOTES = (
    "Lines tuned with hindsight are the best of the grid by the mean of the test rows, which is "
    "not private, there as here. Each method has the hyper-parameters that the paper tunes for it: "
    "AMP L, f and f₁; P-SGD Λ, η, T, k, L, and C where Λ > 0; P-PSGD η, T, k, L; P-SCPSGD Λ > 0, "
    "T, k, L, C; P-FW T, L, C.",
    "Each private method runs with the paper's constants, which are refused or marked where they "
    "break the promise, and with the least noise that keeps it.",
)


def allowed_steps(loss: str, norm: float) -> list[float]:
    """Return the steps of table II that are at most 2/β for rows of at most this norm."""
    longest = 2 / (CURVATURE[loss] * norm**2)
    return [step for step in TABLE_2["learning rate"] if step <= longest]


def grids(
    loss: str,
    calibrations: Sequence[str] = BOTH,
    most_updates: float = 1e9,
    most_passes: float = 1e9,
) -> list[dict[str, Grid]]:
    """Table II as solvers; several, as one solver can be in a plan once only.

    ``most_updates`` and ``most_passes`` bound T for P-SGD and for the other methods.
    """
    penalties = [value for value in TABLE_2["regularization"] if value > 0]
    norms = list(TABLE_2["clipping"])
    updates = [rounds for rounds in TABLE_2["iterations"] if rounds <= most_updates]
    rounds = [rounds for rounds in TABLE_2["iterations"] if rounds <= most_passes]
    batches = list(TABLE_2["minibatch"])
    radii = list(TABLE_2["model constraint"])
    both = list(calibrations)
    amp: Grid = {
        "calibration": both,
        "alpha": [0.0],
        "norm": norms,
        "output_fraction": list(TABLE_2["output fraction"]),
        "objective_fraction": list(TABLE_2["privacy fraction"]),
    }
    sgd: Grid = {
        "calibration": both,
        "norm": norms,
        "gradient_clip": [UNCLIPPED],
        "step_size": list(TABLE_2["learning rate"]),
        "iterations": updates,
        "batch_size": batches,
        "averaging": [False],
    }
    strong: Grid = {
        "calibration": both,
        "alpha": penalties,
        "norm": norms,
        "passes": rounds,
        "batch_size": batches,
        "radius": radii,
    }
    frank_wolfe: Grid = {
        "calibration": both,
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
                "calibration": both,
                "alpha": [0.0],
                "norm": [norm],
                "step_size": steps,
                "passes": rounds,
                "batch_size": batches,
            }
            found.append({"permutation-sgd": passes})
    return found


def paper_grids(loss: str) -> list[dict[str, Grid]]:
    """Return the grids of the paper form: published constants, and shorter runs."""
    return grids(loss, ("published",), MOST_UPDATES[loss], MOST_PASSES)


def methods(calibrations: Sequence[str] = BOTH, *, several: bool = False) -> dict[str, Grid]:
    """Return the paper's methods with their defaults, one model per class if there are several."""
    found: dict[str, Grid] = {
        **each(METHODS, calibration=list(calibrations)),
        "permutation-sgd-sc": {**STRONG, "calibration": list(calibrations)},
    }
    if several:
        for name in ("amp", "amp-hf"):
            found[name] = {**found[name], "one_vs_rest": [True]}
    return found


_RELEASED = each(("amp-released", "frank-wolfe-released"))
_BASELINES = each(("nonprivate", "majority"))


def _plan(
    loss: str,
    data: Mapping[str, Grid],
    epsilons: Sequence[float],
    solvers: Mapping[str, Grid],
    repeats: int = REPEATS,
    *,
    difference: str = "",
    grid: bool = False,
) -> Plan:
    """Return a plan of the paper's protocol, or one that departs from it by a named difference."""
    asked = objective(
        epsilons,
        DELTA,
        relation=RELATION,
        loss=loss,
        intercept=difference == WITH_INTERCEPT,
    )
    kind = "grid" if grid else "default"
    return Plan(data, asked, solvers, repeats, kind, difference)


def _data(loss: str) -> list[tuple[Mapping[str, Grid], bool]]:
    """Return the data sets of the paper, and whether they have more than two classes."""
    size = SYNTHETIC_H[loss]
    high = {"synthetic-h": {"rows": [size], "features": [size]}, **HIGH}
    industrial = [
        ({"industrial": {"rows": [rows], "features": [features]}}, False)
        for rows, features in INDUSTRIAL
    ]
    return [(BINARY, False), (MANY, True), (high, False), *industrial]


def _full(
    loss: str, problems: Iterable[tuple[Mapping[str, Grid], Sequence[float], bool]]
) -> tuple[Plan, ...]:
    """Everything on each of the problems: data sets, their ε, and whether classes are several."""
    extra: dict[str, Grid] = {"tuned": {"base": ["agd", "gd", "frank-wolfe"]}}
    if loss == "logistic":
        extra["scikit-learn"] = {}
    found: list[Plan] = []
    for data, epsilons, several in problems:
        own = {"auto": {}, **methods(several=several), **_RELEASED, **_BASELINES, **extra}
        found.append(_plan(loss, data, epsilons, own))
        found += [_plan(loss, data, epsilons, grid, grid=True) for grid in grids(loss)]
    return tuple(found)


def _numbers(loss: str) -> tuple[Plan, ...]:
    """Figures 1 and 3: ε = 0.1, and 1 for more than two classes."""
    return _full(loss, ((data, (1.0 if many else 0.1,), many) for data, many in _data(loss)))


def _curves(loss: str) -> tuple[Plan, ...]:
    """Figures 2 and 4: all ε."""
    return _full(loss, ((data, EPSILONS, many) for data, many in _data(loss)))


def _paper(loss: str, *, numbers: bool) -> tuple[Plan, ...]:
    """Return the paper form: one ε per data set for the numbers, all seven for the curves."""
    two = (0.1,) if numbers else EPSILONS
    several = (1.0,) if numbers else MANY_EPSILONS
    size = SYNTHETIC_H[loss]
    rows, columns = PAPER_INDUSTRIAL
    high: Mapping[str, Grid] = {"synthetic-h": {"rows": [size], "features": [size]}}
    binary = {**BINARY, **high, **HIGH, **SPARSE}
    large: Mapping[str, Grid] = {"industrial": {"rows": [rows], "features": [columns]}}
    adult: Mapping[str, Grid] = {"adult": {}}
    amp = each(("amp", "amp-hf"), calibration=list(BOTH))
    plans = [
        _plan(loss, binary, two, methods(), PAPER_REPEATS),
        _plan(loss, adult, two, _RELEASED, PAPER_REPEATS),
        _plan(loss, binary, two, {"auto": {}, **_BASELINES}, PAPER_REPEATS),
        _plan(loss, adult, two, amp, PAPER_REPEATS, difference=WITH_INTERCEPT),
        _plan(loss, MANY, several, methods(("published",), several=True), PAPER_REPEATS),
        _plan(loss, MANY, several, {"auto": {}, **_BASELINES}, PAPER_REPEATS),
    ]
    if not numbers:
        own = {**methods(("tight",)), "auto": {}, **_BASELINES}
        plans.append(_plan(loss, large, two, own, PAPER_REPEATS))
        return tuple(plans)
    tries = GRID_REPEATS[loss]
    tuned: Mapping[str, Grid] = {"synthetic-l": {}, "adult": {}}
    for grid in paper_grids(loss):
        plans.append(_plan(loss, tuned, two, grid, tries, grid=True))
        if "frank-wolfe" in grid:
            one = {"frank-wolfe": {**grid["frank-wolfe"], "calibration": list(BOTH)}}
            plans.append(_plan(loss, high, two, one, tries, grid=True))
    return tuple(plans)


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
    own = {"auto": {}, **methods(("tight",)), **_RELEASED, **_BASELINES}
    return (
        _plan(loss, {**SMALL_L, **SMALL_ADULT}, epsilons, own, 2),
        _plan(loss, SMALL_H, epsilons[:1], own, 2),
        _plan(loss, SMALL_L, epsilons[:1], grid, 2, grid=True),
    )


def _published(method: str) -> Pick:
    return Pick(method, "published")


_OTHERS = tuple(
    _published(name) for name in ("sgd", "permutation-sgd", "permutation-sgd-sc", "frank-wolfe")
)
_LOW = ("synthetic-l", "adult", "kddcup99", "covertype", "mnist")


def _claims(loss: str, *, numbers: bool) -> tuple[Claim, ...]:
    """Return the paper's statements about leaders, for methods with their published constants."""
    ahead = Claim(
        "AMP is at least as accurate as P-SGD, P-PSGD, P-SCPSGD and P-FW on tables of few columns.",
        _published("amp"),
        _OTHERS,
        data=_LOW,
    )
    sparse = Claim(
        "Private Frank–Wolfe is the most accurate method on Synthetic-H.",
        _published("frank-wolfe"),
        (_published("amp"), *_OTHERS[:3]),
        data=("synthetic-h",),
    )
    if loss != "logistic":
        return (ahead,)
    if not numbers:
        return ahead, sparse
    tuned = Claim(
        "Private Frank–Wolfe with the least noise and the best setting of the grid is more "
        "accurate on Synthetic-H than AMP, P-SGD and P-PSGD with the least noise.",
        Pick("frank-wolfe", "tight", tuning="grid"),
        tuple(Pick(name, "tight") for name in ("amp", "sgd", "permutation-sgd")),
        data=("synthetic-h",),
    )
    return ahead, sparse, tuned


def _protocol(loss: str, *, numbers: bool) -> tuple[Item, ...]:
    """Return the protocol of figures 1 and 3 or of figures 2 and 4."""
    seconds = NUMBERS_SECONDS[loss] if numbers else CURVES_SECONDS
    repeats = repeats_item("10", PAPER_REPEATS, seconds)
    tries = GRID_REPEATS[loss]
    if numbers:
        grid = Item(
            "grid",
            "table II on every data set, the best by the test rows",
            "on Adult and Synthetic-L (P-FW also on Synthetic-H), published constants, T at most "
            f"{MOST_UPDATES[loss]:,} for P-SGD and {MOST_PASSES} for methods of passes; repeats of "
            f"all settings: {tries}, then of the best five: 20. Elsewhere each method's own "
            "defaults",
            "processor time",
        )
        return (*PROTOCOL, repeats, grid)
    return (
        *PROTOCOL,
        repeats,
        Item("grid", "table II", "in the numbers, not in the curves", "processor time"),
        Item("ε of Covertype and MNIST", "seven", "1", "processor time"),
        _INDUSTRIAL,
    )


def _numbers_of(name: str, loss: str, model: str, figure: int) -> Experiment:
    return Experiment(
        name=name,
        title=f"{model} in numbers: ε = 0.1, or 1 for several classes",
        source=f"{PAPER}, figure {figure}",
        question="How accurate is each method, tuned as in the paper and with defaults?",
        plans=_numbers(loss),
        quick=_quick(loss, (0.1,)),
        paper=_paper(loss, numbers=True),
        cell_seconds=NUMBERS_SECONDS[loss],
        protocol=_protocol(loss, numbers=True),
        claims=_claims(loss, numbers=True),
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
        paper=_paper(loss, numbers=False),
        cell_seconds=CURVES_SECONDS,
        protocol=_protocol(loss, numbers=False),
        claims=_claims(loss, numbers=False),
        notes=NOTES,
    )


EXPERIMENTS: tuple[Experiment, ...] = (
    _numbers_of("amp-fig1", "logistic", "Logistic regression", 1),
    _curves_of("amp-fig2", "logistic", "Logistic regression", 2),
    _numbers_of("amp-fig3", "huber-hinge", "Huber SVM", 3),
    _curves_of("amp-fig4", "huber-hinge", "Huber SVM", 4),
)
"""In the order of the paper."""
