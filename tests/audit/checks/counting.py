"""Check that a ledger is charged for every fit, also of copies of its estimator."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import warnings
from collections.abc import Callable
from typing import Any

from sklearn.base import clone
from sklearn.model_selection import cross_validate

from discreet import Ledger
from discreet.errors import PrivacyError

from .fits import CheckResult, Table, fresh, places

__all__ = ["ledger_lost"]

PATIENCE = 120.0


def ledger_lost(
    estimator: Any, table: Table, *, ledger: Any = None, fork: bool = False
) -> CheckResult | None:
    """Check that fits of clones, copies, pickles, folds and forks are counted or refused.

    Parameters
    ----------
    estimator : Any
        With a parameter ``ledger``; None is returned for one without.
    table : (X, y)
        Any table.
    ledger : Any, optional
        A data set whose ``entries`` is the number of fits counted; by default one in memory
        without a limit. The check charges it.
    fork : bool
        Try a fit in a forked process as well.
    """
    check = "ledger"
    if not places(estimator, "ledger"):
        return None
    counter = Ledger().create("rows", relation="replace_one") if ledger is None else ledger
    model = fresh(estimator, ledger=counter)
    ways: dict[str, Callable[[], Any]] = {
        "a fit": lambda: model.fit(*table),
        "a fit of a clone": lambda: clone(model).fit(*table),
        "a fit of a copy": lambda: copy.copy(model).fit(*table),
        "a fit of a deep copy": lambda: copy.deepcopy(model).fit(*table),
        "a fit of a pickled copy": lambda: pickle.loads(pickle.dumps(model)).fit(*table),
        "a fold": lambda: _fold(model, table),
    }
    refused = []
    with warnings.catch_warnings(action="ignore"):
        for name, way in ways.items():
            before = counter.entries
            try:
                way()
            except Exception as error:  # whatever the reason: nothing was fitted uncounted
                if name == "a fit":
                    if isinstance(error, PrivacyError):
                        return CheckResult(
                            check, True, f"A fit that is counted is refused ({error})"
                        )
                    raise
                refused.append(f"{name} ({type(error).__name__})")
                continue
            if counter.entries != before + 1:
                text = f"{name} was counted {counter.entries - before} times instead of once: what "
                text += "it spent is missing in the total."
                return CheckResult(check, False, text.capitalize())
        if fork and not _refused_in_fork(model, table):
            text = "A fit in a forked process went through without charging this process's "
            text += "ledger: what it spent is missing in the total."
            return CheckResult(check, False, text)
    text = f"All of {', '.join(ways)} were counted or refused."
    text += f" Refused: {', '.join(refused)}." if refused else ""
    text += " A fit in a forked process was refused." if fork else ""
    return CheckResult(check, True, text)


def _fold(model: Any, table: Table) -> None:
    X, y = table
    every = list(range(len(y)))
    cross_validate(
        model, X, y, cv=[(every, every[:2])], scoring=lambda *_: 0.0, error_score="raise"
    )


def _refused_in_fork(model: Any, table: Table) -> bool:
    """Return True if a forked child is refused a fit that its parent would not count."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return True
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    worker = context.Process(target=_try, args=(there, model, table), daemon=True)
    worker.start()
    there.close()
    if not here.poll(PATIENCE):
        raise RuntimeError(f"A forked fit did not answer within {PATIENCE:g} seconds.")
    refused = bool(here.recv())
    worker.join(PATIENCE)
    return refused


def _try(pipe: Any, model: Any, table: Table) -> None:
    try:
        model.fit(*table)
    except Exception:
        pipe.send(True)
    else:
        pipe.send(False)
