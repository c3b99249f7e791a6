"""Messages: exceptions, warnings, log lines, progress and prints must not depend on a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from .fits import CheckResult, Table, places
from .flow import first_difference
from .recording import record_both

__all__ = ["hard_neighbours", "messages", "messages_on_hard_tables"]

MEANING = "Its reader learns something about that row, which the budget does not cover."


def messages(
    estimator: Any, neighbours: tuple[Table, Table], *, check: str = "messages"
) -> CheckResult:
    """Check that fits emit the same messages on both tables.

    With the same seed, and for the library's estimators with the same private answers, so that
    noisy numbers in a message are the same as well. For other estimators, a noisy number that was
    charged would be reported as a leak.
    """
    first, second = record_both(estimator, neighbours)
    apart = first_difference(first.lines, second.lines)
    if apart is None:
        return CheckResult(check, True, f"The same {len(first.lines)} messages on both tables.")
    _, one, other = apart
    return CheckResult(check, False, f"{one!r} on one table, {other!r} on its neighbour. {MEANING}")


def messages_on_hard_tables(estimator: Any, table: Table) -> CheckResult:
    """Check messages on neighbours that are likely to cause errors (`hard_neighbours`)."""
    check = "messages on hard tables"
    names = []
    for name, pair in hard_neighbours(estimator, table):
        found = messages(estimator, pair)
        if not found.passed:
            return CheckResult(check, False, f"{name}: {found.text}")
        names.append(name)
    return CheckResult(check, True, f"The same messages on all pairs: {', '.join(names)}.")


def hard_neighbours(estimator: Any, table: Table) -> Iterator[tuple[str, tuple[Table, Table]]]:
    """Yield pairs of tables that differ in one row and are likely to cause errors.

    That all rows are valid is public, so a row with NaN is compared with another such row. Which
    labels exist is public, too: a label that only one row has is tried where ``classes`` declares
    it, or for numbers.
    """
    X = np.array(table[0], dtype=np.float64)
    y = np.array(table[1])
    last = len(X) - 1
    extremes = {
        "a row of zeros": 0.0,
        "a row near the largest number": 1.7e308,
        "a row whose squares overflow": -1e200,
        "a row of the smallest numbers": 5e-324,
    }
    for name, value in extremes.items():
        yield name, ((X, y), (_with_row(X, last, value), y))
    yield (
        "constant columns but for a row",
        (
            (np.ones_like(X), y),
            (_with_row(np.ones_like(X), last, 2.0), y),
        ),
    )
    yield (
        "columns of zeros but for a row",
        (
            (np.zeros_like(X), y),
            (_with_row(np.zeros_like(X), last, 1.0), y),
        ),
    )
    for name, value in (("NaN in a row or in another", np.nan), ("NaN or infinity", np.inf)):
        at = 0 if np.isnan(value) else last
        yield name, ((_with_row(X, last, np.nan), y), (_with_row(X, at, value), y))
    if not is_classifier(estimator):
        for name, value in (("a huge target", 1.7e308), ("another target", float(np.max(y)) + 1)):
            yield name, ((X, y.astype(float)), (X, _with_row(y.astype(float), last, value)))
        constant = np.full(len(y), 0.5)
        yield "one target but for a row", ((X, constant), (X, _with_row(constant, last, 0.25)))
        return
    declared = [estimator.get_params()[place] for place in places(estimator, "classes")]
    if declared and all(labels is not None for labels in declared):
        only = np.full_like(y, declared[0][0])
        yield "one label but for a row", ((X, only), (X, _with_row(only, last, declared[0][1])))


def _with_row(array: Any, row: int, value: Any) -> Any:
    changed = array.copy()
    changed[row] = value
    return changed
