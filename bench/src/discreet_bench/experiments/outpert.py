"""The experiments of Zhang et al. 2017: output perturbation, private SGD, and RRPSGD.

Zhang, Zheng, Mou & Wang, "Efficient Private ERM for Smooth Objectives", IJCAI 2017. Table 3, the
rates of table 1, and the stationarity of RRPSGD on a loss that is not convex (theorems 5 and 6).
"""

from __future__ import annotations

from collections.abc import Mapping

from discreet.objectives import Logistic
from discreet.solvers import OutPert
from discreet_bench.experiment import (
    BOTH,
    SMALL_L,
    Claim,
    Experiment,
    Grid,
    Item,
    Panels,
    Pick,
    Plan,
    Rate,
    each,
    objective,
    repeats_item,
    sgd_family,
)

__all__ = ["BATCH", "DELTA", "EPSILONS", "EXPERIMENTS", "REPEATS", "TABLES"]

PAPER = "Zhang et al. 2017"
DELTA = 0.001
EPSILONS = (0.1, 0.5, 1.0, 2.0)
REPEATS = 100
PAPER_REPEATS = 20
"""Repeats of the paper form."""

BATCH = 50

TABLES: dict[str, tuple[str, tuple[float, float], int]] = {
    "bank": ("logistic", (0.0, 0.1), 45_211),
    "adult": ("logistic", (0.0, 0.1), 32_561),
    "credit-default": ("logistic", (0.0, 0.1), 30_000),
    "wine-quality": ("huber", (0.0, 0.5), 6497),
    "bike-sharing": ("huber", (0.0, 0.5), 17_379),
}
"""For each data set of the paper its loss, the values of μ, and the number of rows."""

PASSES = 2.5
"""Passes of SGD in the paper form: n/20 updates of 50 rows."""

RATE_ROWS = (1000, 3000, 10_000, 30_000, 100_000)
"""Numbers of rows over which the rate in n is measured, at `RATE_COLUMNS`[0] columns."""

RATE_COLUMNS = (10, 30, 100)
"""Numbers of columns over which the rate in d is measured, at `RATE_ROW` rows."""

RATE_ROW = 10_000
ROUNDS = (100, 1000, 10_000, 100_000)
"""Largest numbers of rounds of RRPSGD."""

ROUNDS_REPEATS = 5
"""Repeats of their paper form: to check a guarantee takes seconds for every number of rounds."""

_SCALING = Item(
    "row scaling", "not stated", "rows of norm at most 1", "the proof needs a bound on gradients"
)
_THRESHOLD = Item("Huber loss", "threshold not stated", "threshold 0.5, targets in [-1, 1]", "")
_PENALTY = "At μ = 0 the error is measured against a minimum that may lie far out: one-hot columns "


def _plan(
    data: Mapping[str, Grid],
    loss: str,
    penalties: tuple[float, ...],
    iterations: int,
    epsilons: tuple[float, ...] = EPSILONS,
    repeats: int = REPEATS,
    relation: str = "replace_one",
    calibrations: tuple[str, ...] = BOTH,
) -> Plan:
    asked = objective(
        epsilons,
        DELTA,
        relation=(relation,),
        loss=loss,
        alpha=penalties,
        test="train",
        rows="unit",
    )
    sgd = sgd_family(("sgd-adv",), batch_size=[BATCH], iterations=[iterations])
    solvers = {
        "auto": {},
        **each(("outpert",), calibration=list(calibrations)),
        **(sgd if relation == "replace_one" else {}),
        "nonprivate": {},
    }
    return Plan(data, asked, solvers, repeats)


def _table(divisor: int, repeats: int) -> tuple[Plan, ...]:
    """Return table 3 with n/divisor updates of SGD, and pure output perturbation beside it."""
    plans: list[Plan] = []
    for name, (loss, penalties, rows) in TABLES.items():
        data: Mapping[str, Grid] = {name: {"rows": [rows]}}
        plans.append(_plan(data, loss, penalties, rows // divisor, repeats=repeats))
        asked = objective(
            EPSILONS,
            0.0,
            relation=("replace_one",),
            loss=loss,
            alpha=penalties,
            test="train",
            rows="unit",
        )
        pure: Mapping[str, Grid] = {"outpert": {"calibration": list(BOTH)}, "nonprivate": {}}
        plans.append(Plan(data, asked, pure, repeats, difference="pure, δ = 0"))
    return tuple(plans)


_PUBLISHED = Pick("outpert", "published")

TABLE_3 = Experiment(
    name="outpert-table3",
    title="Output perturbation against private SGD: excess objective and time",
    source=f"{PAPER}, table 3",
    question=(
        "Which comes closer to the least objective, and which is faster: noise on where "
        "descent ends, or noise on every gradient?"
    ),
    plans=_table(1, REPEATS),
    quick=(
        _plan(dict(SMALL_L), "logistic", (0.0, 0.1), 200, (0.1, 1.0), 3),
        _plan({"wine-quality": {"rows": [2000]}}, "huber", (0.0, 0.5), 200, (0.1, 1.0), 3),
    ),
    paper=_table(20, PAPER_REPEATS),
    panels=Panels(measures=("excess_objective", "seconds"), log_y=True, lines=("alpha",)),
    protocol=(
        Item("intercept", "not stated", "one weight more"),
        _SCALING,
        _THRESHOLD,
        Item("ε", "0.1, 0.5, 1, 2"),
        Item("δ", "0.001", also="pure output perturbation, δ = 0"),
        Item("penalty", "0 and 0.1; 0 and 0.5 for regression"),
        repeats_item("100", PAPER_REPEATS),
        Item(
            "steps of SGD",
            "n²/50 updates of 50 rows",
            "n/20 updates of 50 rows (n in the full form)",
            "41 million updates on Bank",
        ),
        Item("rows of Adult", "the training file", "as many rows drawn from all"),
    ),
    claims=(
        Claim(
            "Output perturbation comes closer to the least objective than SGD-Adv.",
            _PUBLISHED,
            (Pick("sgd-adv", "published"),),
            "excess_objective",
        ),
        Claim(
            "Output perturbation is faster than SGD-Adv.",
            _PUBLISHED,
            (Pick("sgd-adv", "published"),),
            "seconds",
        ),
    ),
    notes=(
        f"{_PENALTY}add up to one, and nothing keeps the weights short.",
        "Errors of regressions are comparable with each other only.",
    ),
)


def _rates(data: tuple[Mapping[str, Grid], ...], repeats: int) -> tuple[Plan, ...]:
    """Return output perturbation on generated tables of several sizes."""
    solvers: Mapping[str, Grid] = {"outpert": {"calibration": list(BOTH)}, "nonprivate": {}}
    return tuple(
        Plan(
            one,
            objective(
                (1.0,),
                DELTA,
                relation=("replace_one",),
                alpha=(0.0, 0.1),
                test="train",
                rows="unit",
                intercept=False,
            ),
            solvers,
            repeats,
        )
        for one in data
    )


def _planes(rows: tuple[int, ...], columns: tuple[int, ...]) -> tuple[Mapping[str, Grid], ...]:
    return (
        *({"plane": {"rows": [n], "features": [columns[0]]}} for n in rows),
        *({"plane": {"rows": [RATE_ROW], "features": [d]}} for d in columns[1:]),
    )


RATES = Experiment(
    name="outpert-table1",
    title="Output perturbation: error against the number of rows and of columns",
    source=f"{PAPER}, table 1",
    question="Does the error fall with n and grow with d as fast as the theorems say?",
    plans=_rates(_planes(RATE_ROWS, RATE_COLUMNS), REPEATS),
    quick=_rates(_planes((1000, 3000), (10, 30)), 3)[:2],
    paper=_rates(_planes(RATE_ROWS, RATE_COLUMNS), PAPER_REPEATS),
    panels=Panels(x="n", measures=("excess_objective",), log_y=True, lines=("alpha", "d")),
    protocol=(
        Item("data", "none: the table has rates", "points on two sides of a plane"),
        Item("ε, δ", "any", "1 and 0.001"),
        repeats_item("none", PAPER_REPEATS),
    ),
    rates=tuple(
        Rate(
            f"The error goes with {x}^{power:.3g} {'with' if alpha else 'without'} a penalty.",
            _PUBLISHED,
            x,
            power,
            alpha,
        )
        for alpha, powers in ((0.1, (-2.0, 1.0)), (0.0, (-2 / 3, 1 / 3)))
        for x, power in zip(("n", "d"), powers, strict=True)
    ),
    notes=(
        "The rates: with a penalty the error falls like d·ln(1/δ)/(nε)², up to logarithms; without "
        "one like (√(d·ln(1/δ))/(nε))^(2/3). They are upper bounds for the worst data: a steeper "
        "fall with n does not contradict them.",
    ),
)


def _rounds(data: Mapping[str, Grid], rounds: tuple[int, ...], repeats: int) -> tuple[Plan, ...]:
    """Return RRPSGD on the sigmoid loss, for several largest numbers of rounds.

    The published variance is for ε of at most 1.
    """

    def plan(epsilons: tuple[float, ...], calibration: str) -> Plan:
        asked = objective(
            epsilons,
            DELTA,
            relation=("replace_one",),
            loss="sigmoid",
            alpha=(0.0,),
            test="train",
            rows="unit",
            intercept=False,
        )
        solver: Grid = {"calibration": [calibration], "max_rounds": list(rounds)}
        return Plan(data, asked, {"rrpsgd": solver}, repeats)

    return plan((0.5, 1.0, 4.0), "tight"), plan((1.0,), "published")


STATIONARITY = Experiment(
    name="rrpsgd-rounds",
    title="RRPSGD on a loss that is not convex: squared gradient over rounds",
    source=f"{PAPER}, theorems 5 and 6",
    question="Does the expected squared gradient of a random round fall as rounds are added?",
    plans=_rounds({"adult": {"rows": [32_561]}, "plane": {}}, ROUNDS, REPEATS),
    quick=_rounds({"plane": {"rows": [2000]}}, ROUNDS[:2], 3),
    paper=_rounds({"adult": {"rows": [32_561]}, "plane": {}}, ROUNDS, ROUNDS_REPEATS),
    panels=Panels(
        x="max_rounds", measures=("squared_gradient", "accuracy"), log_y=False, lines=("epsilon",)
    ),
    protocol=(
        Item("data", "none: the theorems are bounds", "Adult and points on two sides of a plane"),
        Item("loss", "any smooth loss", "the sigmoid loss 1/(1 + e^(y·margin))"),
        Item("noise", "the published variance, for ε ≤ 1", also="the least that the rounds need"),
        Item("rounds", "n²", "at most 100,000", "processor time"),
        repeats_item("none", ROUNDS_REPEATS),
        _SCALING,
    ),
    claims=(
        Claim(
            "At ε = 4, more rounds end at a smaller squared gradient.",
            Pick("rrpsgd", "tight", {"max_rounds": ROUNDS[2]}),
            (Pick("rrpsgd", "tight", {"max_rounds": ROUNDS[0]}),),
            "squared_gradient",
            epsilons=(4.0,),
        ),
    ),
    notes=("The squared gradient is that of the mean loss at the weights that are released.",),
)

_BASELINES = ("nonprivate", "majority")
PENALISED = "penalty for new rows"
"""Name of the lines whose penalty the paper chooses for a small risk on new rows."""

PENALTY_ROWS = {"adult": (48_842, 105), "bank": (45_211, 42)}
"""Rows and columns of the data sets on which the penalty is tried."""


def _penalties(data: Mapping[str, tuple[int, int]], repeats: int) -> tuple[Plan, ...]:
    """Return output perturbation without a penalty, and with the one for new rows."""
    plans = []
    for name, (rows, columns) in data.items():
        for epsilon in EPSILONS:
            asked = objective(
                (epsilon,),
                DELTA,
                relation=("replace_one",),
                alpha=(0.0,),
                rows="unit",
                intercept=False,
            )
            chosen = OutPert().generalization_penalty(
                Logistic(), epsilon, n_rows=round(0.8 * rows), n_weights=columns
            )
            free: Grid = {"calibration": list(BOTH)}
            table: Mapping[str, Grid] = {name: SMALL_L.get(name, {})}
            plans += [
                Plan(table, asked, {"outpert": free, **each(_BASELINES)}, repeats),
                Plan(
                    table,
                    asked,
                    {"outpert": {**free, "alpha": [chosen]}},
                    repeats,
                    difference=PENALISED,
                ),
            ]
    return tuple(plans)


PENALTY = Experiment(
    name="outpert-penalty",
    title="Output perturbation with a penalty for new rows",
    source=f"{PAPER}, end of section 3.1",
    question="Does the penalty that bounds the risk on new rows make predictions better?",
    plans=_penalties(PENALTY_ROWS, REPEATS),
    quick=_penalties({"synthetic-l": (3000, 20)}, 3)[:4],
    paper=_penalties(PENALTY_ROWS, PAPER_REPEATS),
    panels=Panels(measures=("accuracy", "log_loss")),
    protocol=(
        Item("data", "none: the section has a bound", "Adult and Bank"),
        Item("δ", "any", f"{DELTA}"),
        Item("R, γ", "not stated", "10 and 0.1"),
        _SCALING,
        repeats_item("none", PAPER_REPEATS),
    ),
    notes=(
        "The penalty is μ = √2·L^(1/2)·(βd)^(1/4)/(√(nεγ)·R), of public numbers alone "
        "(`OutPert.generalization_penalty`).",
    ),
)

EXPERIMENTS: tuple[Experiment, ...] = (TABLE_3, RATES, PENALTY, STATIONARITY)
"""In the order of the paper, its table first."""
