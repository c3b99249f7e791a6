"""Repeated noise, which cancels in the difference of two outputs.

Each check runs fits that must have nothing in common but the table, and looks for repeated random
words (of the library's own estimators) and repeated outputs (of any).
"""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import threading
import warnings
from contextlib import AbstractContextManager
from typing import Any, Literal

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import cross_validate

from .fits import (
    CheckResult,
    Observation,
    Table,
    fresh,
    models_of_classes,
    observe,
    observed,
    seen_twice,
)
from .transcript import Transcript, watching

__all__ = [
    "repeated_in_classes",
    "repeated_in_copies",
    "repeated_in_fits",
    "repeated_in_folds",
    "repeated_in_processes",
    "repeated_in_threads",
]

MEANING = "Two such outputs cancel the noise, which no budget covers."
PATIENCE = 120.0
"""Seconds that another process may take."""


def repeated_in_fits(estimator: Any, table: Table, *, fits: int = 5) -> CheckResult:
    """Check fits of one object, one after the other."""
    model = fresh(estimator)
    return _judged("noise repeated by fits", [observe(model, table) for _ in range(fits)])


def repeated_in_copies(estimator: Any, table: Table) -> CheckResult:
    """Check a fitted object and its copies by ``clone``, ``deepcopy`` and pickle."""
    model = fresh(estimator)
    seen = [observe(model, table)]
    copies = [clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    seen += [observe(one, table) for one in (model, *copies)]
    return _judged("noise repeated by copies", seen)


def repeated_in_threads(estimator: Any, table: Table, *, threads: int = 4) -> CheckResult:
    """Check fits in threads that start at the same time."""
    model = fresh(estimator)
    observe(model, table)  # what is set up at the first fit is set up
    barrier = threading.Barrier(threads)
    seen: list[Observation] = []
    errors: list[Exception] = []

    def work(own: Any) -> None:
        try:
            barrier.wait()
            seen.append(observe(own, table))
        except Exception as error:
            errors.append(error)

    # catch_warnings, which `observe` uses, is not safe in threads; this puts filters back
    with warnings.catch_warnings():
        workers = [threading.Thread(target=work, args=(clone(model),)) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    if errors:
        raise errors[0]
    return _judged("noise repeated by threads", seen)


def repeated_in_processes(
    estimator: Any, table: Table, *, method: Literal["fork", "spawn"], processes: int = 2
) -> CheckResult:
    """Check fits in forked or spawned child processes, and one in this process.

    With "spawn" a script that calls this must guard its main part with ``if __name__ ==
    "__main__"``, as for all such workers.
    """
    check = f"noise repeated by processes ({method})"
    if method not in multiprocessing.get_all_start_methods():
        return CheckResult(check, True, "Not checked: this system has no such processes.")
    model = fresh(estimator)
    seen = [observe(model, table)]  # a generator that is made at the first fit is made
    if method == "spawn":
        try:
            pickle.dumps((model, table))
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            text = f"It cannot be pickled, so no spawned process can fit it ({error})."
            return CheckResult(check, True, text)
    context: Any = multiprocessing.get_context(method)
    running = []
    for _ in range(processes):
        here, there = context.Pipe(duplex=False)
        worker = context.Process(target=_work, args=(there, model, table), daemon=True)
        worker.start()
        there.close()
        running.append((worker, here))
    seen.append(observe(model, table))
    for worker, pipe in running:
        answer = _received(pipe)
        worker.join(PATIENCE)
        if isinstance(answer, str):
            raise RuntimeError(f"A fit in a process made by {method!r} failed: {answer}")
        seen.append(answer)
    return _judged(check, seen)


def _work(pipe: Any, model: Any, table: Table) -> None:
    """Fit in a child process and send the observation, or the error, to the parent."""
    try:
        pipe.send(observe(model, table))
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
    finally:
        pipe.close()


def _received(pipe: Any) -> Observation | str:
    try:
        if not pipe.poll(PATIENCE):
            return f"no answer within {PATIENCE:g} seconds"
        received: Observation | str = pipe.recv()
        return received
    except EOFError:
        return "it ended without an answer"


def repeated_in_folds(estimator: Any, table: Table, *, folds: int = 3) -> CheckResult:
    """Check folds of a cross-validation on the same rows, which differ only in their noise."""
    X, y = table
    index = np.arange(np.shape(X)[0])
    transcript = Transcript()
    with _quietly(), watching(transcript):
        models = cross_validate(
            fresh(estimator),
            X,
            y,
            cv=[(index, index[:2])] * folds,
            scoring=_no_score,
            return_estimator=True,
            error_score="raise",
        )["estimator"]
    seen = [observed(model, transcript) for model in models]
    words = seen[0].words
    none = words[:0]
    seen = [Observation(one.output, none if k else words) for k, one in enumerate(seen)]
    return _judged("noise repeated by folds", seen)


def repeated_in_classes(estimator: Any, *, classes: int = 3, copies: int = 8) -> CheckResult | None:
    """Check the classes of one fit, on a table where their models differ only in the noise.

    Every row is there once with each label, so every one-vs-rest problem is the same. None for an
    estimator that is not a classifier.
    """
    if not is_classifier(estimator):
        return None
    check = "noise repeated by classes"
    rows = np.repeat(np.array([[0.6, 0.2], [-0.3, 0.5], [0.1, -0.7]]), copies, axis=0)
    X = np.tile(rows, (classes, 1))
    y = np.repeat(np.arange(classes), len(rows))
    model = fresh(estimator, classes=list(range(classes)))
    transcript = Transcript()
    with _quietly(), watching(transcript):
        model.fit(X, y)
    whole = observed(model, transcript)
    repeated = seen_twice([whole])
    if repeated:
        return CheckResult(check, False, f"{repeated} in one fit of {classes} classes. {MEANING}")
    weights = models_of_classes(model)
    if weights is None or len(weights) < classes or whole.output is None:
        return CheckResult(check, True, "No random word came twice; outputs say nothing here.")
    size = np.abs(weights).max(axis=1)
    for one in range(len(weights)):
        for other in range(one):
            apart = np.abs(weights[one] - weights[other]).max()
            # rows come in another order for each class, and sums are rounded in that order
            if size[one] > 0 and apart <= 1e-6 * size[one]:
                text = f"The models of classes {other} and {one} are equal to 6 digits on a table "
                text += f"on which only their noise could tell them apart. {MEANING}"
                return CheckResult(check, False, text)
    return CheckResult(check, True, f"{classes} classes whose data are alike got different models.")


def _judged(check: str, seen: list[Observation]) -> CheckResult:
    repeated = seen_twice(seen)
    if repeated:
        return CheckResult(check, False, f"{repeated}. {MEANING}")
    words = sum(one.words.size for one in seen)
    outputs = sum(one.output is not None for one in seen)
    said = f"{len(seen)} fits: {outputs} outputs"
    said += f" and {words} random words, all different." if words else ", all different."
    return CheckResult(check, True, said)


def _no_score(*_: Any) -> float:
    return 0.0


def _quietly() -> AbstractContextManager[Any]:
    return warnings.catch_warnings(action="ignore")
