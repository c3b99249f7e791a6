"""Deterministic checks for leaks that statistical attacks do not find.

A bound on ε does not cover repeated noise, predictable seeds, low bits, data-dependent control flow
or messages. Each check returns a `CheckResult`; `check_all` runs all of them on an estimator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.errors import NotSupported

from .counting import ledger_lost
from .entropy import Entropy, entropy, low_entropy, low_entropy_of_fits
from .fits import CheckResult, Table
from .flow import control_flow, hidden_inputs
from .messages import hard_neighbours, messages, messages_on_hard_tables
from .precision import low_bits, off_grid
from .repeats import (
    repeated_in_classes,
    repeated_in_copies,
    repeated_in_fits,
    repeated_in_folds,
    repeated_in_processes,
    repeated_in_threads,
)

__all__ = [
    "CheckResult",
    "Entropy",
    "check_all",
    "control_flow",
    "entropy",
    "hard_neighbours",
    "hidden_inputs",
    "ledger_lost",
    "low_bits",
    "low_entropy",
    "low_entropy_of_fits",
    "messages",
    "messages_on_hard_tables",
    "off_grid",
    "repeated_in_classes",
    "repeated_in_copies",
    "repeated_in_fits",
    "repeated_in_folds",
    "repeated_in_processes",
    "repeated_in_threads",
]


def check_all(
    estimator: Any,
    neighbours: tuple[Table, Table],
    *,
    fits: int = 30,
    processes: bool = False,
) -> tuple[CheckResult, ...]:
    """Run every check that applies to an estimator.

    Parameters
    ----------
    estimator : Any
        With scikit-learn's interface (``get_params``, ``fit``, fitted numbers in ``coef_`` or in
        attributes that end with "_"). Its own random state, ledger and progress are not used.
    neighbours : pair of (X, y)
        Two tables that differ in one row, as dense arrays; what is public (size, labels) must be
        the same in both.
    fits : int
        For the birthday test.
    processes : bool
        Start other processes as well; a spawned one takes a few seconds.

    Returns
    -------
    tuple of CheckResult
        One `CheckResult` per check.
    """
    first, second = ((np.asarray(X), np.asarray(y)) for X, y in neighbours)
    pair = (first, second)
    results: list[CheckResult | None] = [
        repeated_in_fits(estimator, first),
        repeated_in_copies(estimator, first),
        repeated_in_threads(estimator, first),
        repeated_in_folds(estimator, first),
    ]
    if processes:
        results += [
            repeated_in_processes(estimator, first, method=method) for method in ("fork", "spawn")
        ]
    try:
        results.append(repeated_in_classes(estimator))
    except NotSupported as error:
        text = f"Not checked: three classes are refused ({error})"
        results.append(CheckResult("noise repeated by classes", True, text))
    results += [
        low_entropy_of_fits(estimator, first, fits=fits),
        off_grid(estimator, pair),
        control_flow(estimator, pair),
        hidden_inputs(estimator, pair),
        messages(estimator, pair),
        messages_on_hard_tables(estimator, first),
        ledger_lost(estimator, first, fork=processes),
    ]
    return tuple(result for result in results if result is not None)
