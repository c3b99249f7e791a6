"""Numbers printed in the papers, in the units of the runs.

Complete: figures 1 and 3 of Iyengar et al. 2019 (but for its four data sets that were never
public), table 3 of Zhang et al. 2017, table 1 of Lee & Kifer 2018 and the one ε in that paper's
text. The other results of these papers, and all of those on SGD with Laplace noise, are curves
without numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["PUBLISHED", "Published", "entries", "published"]

_ALL_NUMBERS = "auto-table"  # the experiment that shows every number
_SHOWS = {"amp-fig2": "amp-fig1", "amp-fig4": "amp-fig3"}  # curves through the tables' numbers


@dataclass(frozen=True)
class Published:
    """A number that a paper prints.

    Attributes
    ----------
    source
        Paper and figure or table.
    experiment
        The experiment that reproduces it.
    data
        Data set without a cut, such as ``"adult"``; empty if it does not depend on one.
    loss
        As in the runs; empty if it does not depend on one.
    epsilon
        Budget; None if the paper does not state it.
    method
        As in `discreet_bench.lines.METHODS`.
    measure
        A column of the runs.
    value
        In the units of that column: accuracies are shares.
    note
        Conditions that matter for a comparison.
    alpha
        Penalty of the objective, where the paper has several; else None.
    at
        Number of updates done, for a checkpoint of a run; else None.
    relation
        Neighbouring relation of the paper, ``"add_remove"`` or ``"replace_one"``; empty for
        numbers without privacy.
    repeats
        Repeats of the paper that the number is a mean of.
    """

    source: str
    experiment: str
    data: str
    loss: str
    epsilon: float | None
    method: str
    measure: str
    value: float
    note: str
    alpha: float | None = None
    at: float | None = None
    relation: str = ""
    repeats: int = 1


def entries(
    experiment: str,
    data: str,
    loss: str,
    epsilon: float,
    measure: str,
    *,
    alpha: float | None = None,
    at: float | None = None,
    relation: str | None = None,
) -> tuple[Published, ...]:
    """Return the papers' numbers for a problem, with source and note.

    Parameters
    ----------
    experiment, data, loss, epsilon, measure
        As in the runs; a cut of the data in parentheses does not matter.
    alpha, at
        As in the runs. A number that holds for one penalty or one update only is not found
        without it.
    relation
        As in the runs; numbers for another relation are not found. None: for any.
    """
    name = data.split(" (")[0]
    return tuple(
        entry
        for entry in PUBLISHED
        if experiment in (_ALL_NUMBERS, entry.experiment)
        or _SHOWS.get(experiment) == entry.experiment
        if entry.measure == measure
        if entry.data in ("", name)
        if entry.loss in ("", loss)
        if _matches(entry.epsilon, epsilon)
        if _matches(entry.alpha, alpha)
        if _matches(entry.at, at)
        if relation is None or entry.relation in ("", relation)
    )


def published(*problem: Any, **which: Any) -> dict[str, float]:
    """Return the papers' numbers for a problem, by method; parameters as for `entries`."""
    return {entry.method: entry.value for entry in entries(*problem, **which)}


def _matches(printed: float | None, asked: float | None) -> bool:
    if printed is None:
        return True
    return asked is not None and math.isclose(printed, asked, rel_tol=1e-6, abs_tol=1e-12)


_AMP_METHODS = (
    "nonprivate", "amp", "amp-hf", "sgd", "permutation-sgd", "permutation-sgd-sc", "frank-wolfe",
)  # fmt: skip
_AMP_TUNED = "replace-one, δ = 1/n², ε and δ split among classes; best of a grid on the test rows"
_AMP_FREE = "replace-one, δ = 1/n², ε and δ split among classes; nothing tuned"
_AMP_PLAIN = "without privacy"

# Accuracy in percent in the order of the methods above.
_AMP_LOGISTIC = {
    ("synthetic-l", 0.1): (94.9, 83.1, 80.6, 81.6, 81.7, 76.4, 81.8),
    ("adult", 0.1): (84.8, 79.1, 78.7, 78.5, 77.4, 77.2, 76.9),
    ("kddcup99", 0.1): (99.1, 97.5, 97.4, 98.0, 98.1, 95.8, 96.8),
    ("covertype", 1.0): (71.2, 64.3, 63.5, 65.0, 62.4, 62.2, 63.0),
    ("mnist", 1.0): (91.5, 71.9, 70.5, 68.6, 68.0, 63.2, 65.0),
    ("synthetic-h", 0.1): (95.8, 53.2, 51.4, 52.8, 53.5, 52.0, 57.6),
    ("gisette", 0.1): (96.6, 62.8, 59.7, 61.5, 62.3, 61.3, 58.3),
    ("real-sim", 0.1): (93.3, 73.1, 71.9, 66.3, 66.1, 65.6, 69.8),
    ("rcv1", 0.1): (93.5, 64.2, 59.9, 55.1, 58.9, 56.2, 64.1),
}
_AMP_SVM = {
    ("synthetic-l", 0.1): (94.9, 89.3, 87.8, 85.6, 86.2, 79.4, 86.8),
    ("adult", 0.1): (84.8, 79.6, 77.5, 79.0, 76.5, 76.0, 77.8),
    ("kddcup99", 0.1): (99.1, 98.7, 98.7, 98.5, 98.5, 98.1, 98.0),
    ("covertype", 1.0): (71.5, 66.4, 65.3, 64.3, 62.3, 62.7, 63.3),
    ("mnist", 1.0): (91.5, 74.7, 73.7, 69.6, 72.9, 70.6, 65.1),
    ("synthetic-h", 0.1): (96.5, 55.2, 54.3, 55.0, 56.6, 55.6, 56.0),
    ("gisette", 0.1): (96.6, 69.9, 67.9, 65.7, 70.6, 66.8, 66.8),
    ("real-sim", 0.1): (93.6, 78.3, 76.7, 73.6, 71.8, 69.7, 78.3),
    ("rcv1", 0.1): (93.8, 74.5, 72.9, 71.3, 70.1, 69.7, 75.8),
}
_AMP_ONE_EPSILON = "; the authors warn that this ε alone misses the trend of their curve"
_AMP_WARNED = (("huber-hinge", "synthetic-h"), ("huber-hinge", "rcv1"))
_AMP_SMALLER = {("huber-hinge", "synthetic-h"): "; 2,000 × 2,000 here, not 5,000 × 5,000"}


def _amp(
    experiment: str, figure: str, loss: str, table: Mapping[tuple[str, float], tuple[float, ...]]
) -> tuple[Published, ...]:
    notes = {"nonprivate": _AMP_PLAIN, "amp-hf": _AMP_FREE}

    def note(data: str, method: str) -> str:
        warned = method != "nonprivate" and (loss, data) in _AMP_WARNED
        more = _AMP_SMALLER.get((loss, data), "") + (_AMP_ONE_EPSILON if warned else "")
        return notes.get(method, _AMP_TUNED) + more

    return tuple(
        Published(
            source=f"Iyengar et al. 2019, {figure}",
            experiment=experiment,
            data=data,
            loss=loss,
            epsilon=None if method == "nonprivate" else epsilon,
            method=method,
            measure="accuracy",
            value=round(percent / 100, 4),
            note=note(data, method),
            relation="" if method == "nonprivate" else "replace_one",
            repeats=10,
        )
        for (data, epsilon), row in table.items()
        for method, percent in zip(_AMP_METHODS, row, strict=True)
    )


_OUTPERT_EPSILONS = (0.1, 0.5, 1.0, 2.0)
_OUTPERT_NOTE = (
    "replace-one, δ = 0.001, mean of 100 runs; scaling of rows and targets and threshold of the "
    "Huber loss not stated"
)
_OUTPERT_MEASURES = (
    ("outpert", "excess_objective", _OUTPERT_NOTE),
    ("sgd-adv", "excess_objective", f"{_OUTPERT_NOTE}; batches of 50 rows"),
    ("outpert", "seconds", "processor seconds on an unnamed machine"),
    ("sgd-adv", "seconds", "processor seconds on an unnamed machine; batches of 50 rows"),
)

# A row for each of the measures above, at the four ε.
_OUTPERT = {
    ("bank", "logistic", 0.0): (
        (0.3983, 0.2231, 0.1459, 0.0838),
        (2.2552, 1.4585, 1.0203, 0.7824),
        (12.613, 36.796, 58.305, 92.501),
        (518.67, 519.33, 519.02, 518.27),
    ),
    ("bank", "logistic", 0.1): (
        (0.2566, 0.0106, 0.0025, 0.0005),
        (0.4829, 0.4090, 0.3387, 0.2475),
        (20.483, 40.541, 49.311, 57.947),
        (518.03, 519.44, 516.73, 520.17),
    ),
    ("adult", "logistic", 0.0): (
        (0.0499, 0.0208, 0.0122, 0.0065),
        (0.6229, 0.6081, 0.4781, 0.3691),
        (23.813, 69.536, 110.20, 175.01),
        (250.50, 254.14, 254.18, 253.72),
    ),
    ("adult", "logistic", 0.1): (
        (3.2039, 0.1287, 0.0309, 0.0080),
        (5.2166, 5.1532, 5.1148, 5.1009),
        (112.09, 193.98, 229.23, 264.23),
        (256.70, 255.36, 255.69, 257.23),
    ),
    ("credit-default", "logistic", 0.0): (
        (0.0293, 0.0102, 0.0053, 0.0024),
        (0.4106, 0.4220, 0.3140, 0.2708),
        (4.9595, 14.591, 22.983, 36.721),
        (190.30, 190.89, 188.67, 188.86),
    ),
    ("credit-default", "logistic", 0.1): (
        (0.3643, 0.0141, 0.0035, 0.0008),
        (1.3271, 1.2973, 1.2792, 1.2501),
        (13.664, 22.012, 25.743, 29.256),
        (190.36, 189.97, 188.81, 187.97),
    ),
    ("wine-quality", "huber", 0.0): (
        (0.6061, 0.2487, 0.1713, 0.1110),
        (6.1755, 4.1900, 3.0972, 1.3609),
        (0.1672, 0.4328, 0.7469, 1.1719),
        (6.3859, 6.3828, 6.4234, 6.3016),
    ),
    ("wine-quality", "huber", 0.5): (
        (1.0842, 0.0364, 0.0101, 0.0024),
        (8.2900, 7.9584, 6.5471, 5.3811),
        (0.0922, 0.1437, 0.1891, 0.1812),
        (6.4328, 6.3625, 6.5391, 6.4484),
    ),
    ("bike-sharing", "huber", 0.0): (
        (5.4659, 4.0404, 3.2768, 2.4081),
        (35.279, 30.822, 27.196, 23.865),
        (0.1531, 0.4375, 0.6922, 1.1766),
        (6.4953, 6.2375, 6.2734, 6.3969),
    ),
    ("bike-sharing", "huber", 0.5): (
        (0.0555, 0.0301, 0.0242, 0.0232),
        (3.0770, 3.0448, 2.1792, 1.0406),
        (0.1031, 0.1578, 0.1625, 0.1984),
        (6.5766, 6.5094, 6.4094, 6.3625),
    ),
}


def _outpert() -> tuple[Published, ...]:
    return tuple(
        Published(
            source="Zhang et al. 2017, table 3",
            experiment="outpert-table3",
            data=data,
            loss=loss,
            epsilon=epsilon,
            method=method,
            measure=measure,
            value=value,
            note=note,
            alpha=alpha,
            relation="replace_one",
            repeats=100,
        )
        for (data, loss, alpha), rows in _OUTPERT.items()
        for (method, measure, note), row in zip(_OUTPERT_MEASURES, rows, strict=True)
        for epsilon, value in zip(_OUTPERT_EPSILONS, row, strict=True)
    )


_DESCENT_NOTE = (
    "one run; ε is not stated, and the root mean square of the noise's norm, 0.50119, is that of "
    "ε = 0.0225 here"
)

# After 0, 1, … 10 updates: norms of the true and of the noisy gradient, and the objective.
_DESCENT = (
    (0.72558, 0.91250, 0.69315),
    (0.20550, 0.52437, 0.53616),
    (0.15891, 0.54590, 0.46428),
    (0.11864, 0.49258, 0.43678),
    (0.09715, 0.50745, 0.41852),
    (0.14050, 0.52271, 0.41122),
    (0.12380, 0.48218, 0.38903),
    (0.06237, 0.53640, 0.38175),
    (0.05717, 0.47605, 0.37865),
    (0.05625, 0.55129, 0.37814),
    (0.05241, 0.51636, 0.37542),
)


def _descent() -> tuple[Published, ...]:
    measures = ("gradient_norm", "noisy_gradient_norm", "objective")
    return tuple(
        Published(
            source="Lee & Kifer 2018, table 1",
            experiment="dpagd-table1",
            data="adult",
            loss="logistic",
            epsilon=0.0225,
            method="noisy-gd",
            measure=measure,
            value=value,
            note=_DESCENT_NOTE,
            at=float(at),
            relation="add_remove",
        )
        for at, row in enumerate(_DESCENT)
        for measure, value in zip(measures, row, strict=True)
    )


_ONE_STEP = Published(
    source="Lee & Kifer 2018, section 6.3",
    experiment="dpagd-fig2",
    data="",
    loss="",
    epsilon=None,
    method="sgd-ma",
    measure="epsilon_spent",
    value=0.5756,
    note="ε of a single update at δ = 1e-8 by the moments accountant, the least it can spend",
    at=1.0,
    relation="add_remove",
)

PUBLISHED: tuple[Published, ...] = (
    *_amp("amp-fig1", "figure 1", "logistic", _AMP_LOGISTIC),
    *_amp("amp-fig3", "figure 3", "huber-hinge", _AMP_SVM),
    *_outpert(),
    *_descent(),
    _ONE_STEP,
)
"""Every number."""
