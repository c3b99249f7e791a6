"""Fit another library's model in a process of its own, and its solver in the benchmark."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from benchopt import BaseSolver
from numpy.typing import NDArray

from discreet_bench.problem import Problem, Result
from discreet_bench.rivals.environments import RIVALS, Rival, python_of, ready

__all__ = [
    "DENSE_BYTES",
    "Answer",
    "Claim",
    "RivalSolver",
    "fit",
    "fit_budgets",
    "recomputed_epsilon",
]

DENSE_BYTES = 4 << 30
"""Sparse rows are refused if they take more than this as a dense array."""

_WORKER = Path(__file__).parent / "scripts" / "worker.py"


@dataclass(frozen=True)
class Claim:
    """Privacy claim of a library; `recomputed_epsilon` checks what can be checked.

    Attributes
    ----------
    epsilon, delta
        The budget that it claims to have spent; None if it claims nothing.
    relation
        ``"add_remove"``, ``"replace_one"``, or None.
    words
        The claim in a sentence, with its conditions.
    mechanisms
        Noise multiplier, sampling rate and number of uses of each Gaussian mechanism of the fit, if
        these are all that it used.
    """

    epsilon: float | None
    delta: float | None
    relation: str | None
    words: str
    mechanisms: Sequence[Sequence[float]] = ()


@lru_cache(maxsize=64)
def _epsilon(mechanisms: tuple[tuple[float, ...], ...], delta: float, grid: float) -> float:
    from dp_accounting.pld import privacy_loss_distribution as pld

    whole = pld.identity(value_discretization_interval=grid)
    for noise, rate, count in mechanisms:
        if rate < 1:
            step = pld.from_gaussian_mechanism(
                noise, sampling_prob=rate, value_discretization_interval=grid
            )
            part = step.self_compose(int(count))
        else:  # exact: one Gaussian of this noise
            part = pld.from_gaussian_mechanism(
                noise / count**0.5, value_discretization_interval=grid
            )
        whole = whole.compose(part)
    return float(whole.get_epsilon_for_delta(delta))


def recomputed_epsilon(claim: Claim) -> float:
    """Bound the ε of a claim's mechanisms at its δ with dp-accounting, for one row more or less.

    NaN if the library used something besides Gaussian noise, for which there is no event.
    """
    if not claim.mechanisms or claim.epsilon is None or not claim.delta:
        return float("nan")
    mechanisms = tuple(tuple(float(each) for each in use) for use in claim.mechanisms)
    return _epsilon(mechanisms, claim.delta, 1e-4 * min(1.0, claim.epsilon))


@dataclass(frozen=True)
class Answer:
    """Result of a fit.

    Attributes
    ----------
    scores
        Probabilities of the test rows, of shape (n_test, K).
    seconds
        Of the fit alone: neither imports nor reading nor prediction.
    peak_mb
        Growth of the library's process at its peak, in MiB; NaN where that is not known.
    versions
        Of Python and the libraries.
    settings
        Its settings, and under ``"warnings"`` its warnings.
    claim
        Its privacy claim.
    """

    scores: NDArray[np.float64]
    seconds: float
    peak_mb: float
    versions: dict[str, str]
    settings: dict[str, Any]
    claim: Claim


def fit(
    rival: Rival | str, X_train: Any, y_train: Any, X_test: Any, *, epsilon: float, **settings: Any
) -> Answer:
    """Fit a library's model on training rows and score test rows, as `fit_budgets` does."""
    return fit_budgets(rival, X_train, y_train, X_test, epsilons=[epsilon], **settings)[0]


def fit_budgets(
    rival: Rival | str,
    X_train: Any,
    y_train: Any,
    X_test: Any,
    *,
    epsilons: Sequence[float],
    delta: float,
    relation: str,
    bounds: Any,
    loss: str = "logistic",
    alpha: float = 0.0,
    max_norm: float | None = None,
    intercept: bool = True,
    seed: int | None = None,
    classes: int | None = None,
    groups: Sequence[tuple[int, int]] = (),
    timeout: float = 600.0,
) -> list[Answer]:
    """Fit a library's model once per ε, all in one process, and score test rows.

    Parameters
    ----------
    rival : Rival or str
        The library, which must be installed.
    X_train, X_test : array or sparse array
        Rows. Sparse ones are made dense, up to `DENSE_BYTES`.
    y_train : array
        Codes 0, …, K - 1.
    epsilons, delta, relation
        The budgets that the library is given.
    bounds : array of shape (d, 2)
        Public bounds of the columns.
    loss : str
        Loss of the objective.
    alpha : float
        Penalty of the objective: mean loss + alpha/2 ‖w‖². The private libraries are left at their
        own defaults; their settings say so.
    max_norm : float, optional
        Public bound on the norm of a row; without it, or if it is infinite, the bounds give one.
    intercept : bool
        Whether to fit one.
    seed : int, optional
        Makes the fit repeatable and its noise known: for measurements only.
    classes : int, optional
        K, if some class may have no training row.
    groups : sequence of pairs
        First and last column (exclusive) of each list of categories that is one-hot encoded.
    timeout : float
        Seconds for the whole process.

    Raises
    ------
    RuntimeError
        If the library is not installed or a fit failed.
    TimeoutError
        If it took too long.
    ValueError
        If the library cannot be given the problem, or sparse rows are too large.
    """
    known = RIVALS[rival] if isinstance(rival, str) else rival
    y = np.asarray(y_train, dtype=np.int64)
    n_classes = int(y.max()) + 1 if classes is None else classes
    limits = np.asarray(bounds, dtype=np.float64)
    problem = {"delta": delta, "relation": relation, "loss": loss}
    refused = known.refusal({**problem, "n_classes": n_classes})
    if refused is not None:
        raise ValueError(refused)
    if limits.shape != (X_train.shape[1], 2) or not np.isfinite(limits).all():
        raise ValueError(
            f"bounds: {X_train.shape[1]} pairs of finite numbers are needed, one per column; "
            f"got an array of shape {limits.shape}."
        )
    missing = ready(known)
    if missing is not None:
        raise RuntimeError(missing)
    if max_norm is None or not np.isfinite(max_norm):
        max_norm = float(np.linalg.norm(np.abs(limits).max(axis=1)))
    request = {
        **problem,
        "alpha": alpha,
        "seed": seed,
        "classes": n_classes,
        "bounds": limits.tolist(),
        "max_norm": max_norm,
        "intercept": intercept,
        "groups": [list(group) for group in groups],
    }
    arrays = {"X_train": _dense(X_train), "y_train": y, "X_test": _dense(X_test)}
    return _ask(known, arrays, [{**request, "epsilon": each} for each in epsilons], timeout)


def _ask(
    rival: Rival, arrays: dict[str, NDArray[Any]], requests: list[dict[str, Any]], timeout: float
) -> list[Answer]:
    with tempfile.TemporaryDirectory(prefix="discreet-rival-") as name:
        place = Path(name)
        for key, array in arrays.items():
            np.save(place / f"{key}.npy", array)
        files = {key: str(place / f"{key}.npy") for key in arrays}
        for j, request in enumerate(requests):
            out = {"scores": str(place / f"scores-{j}.npy"), "answer": str(place / f"{j}.json")}
            text = json.dumps({**request, **files, **out})
            (place / f"request-{j}.json").write_text(text, encoding="utf-8")
        # -I: only the library's own environment, nothing from here
        command = [str(python_of(rival)), "-I", str(_WORKER), str(rival.script)]
        try:
            done = subprocess.run(
                [*command, *(str(place / f"request-{j}.json") for j in range(len(requests)))],
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError(
                f"{rival.name} took more than {timeout:g} seconds and was ended; "
                "allow more with timeout=… or give it fewer rows."
            ) from None
        if done.returncode != 0:
            said = done.stderr.strip().splitlines()
            last = said[-1] if said else f"it ended with code {done.returncode} and no message"
            raise RuntimeError(f"{rival.name} failed: {last}")
        expected = (arrays["X_test"].shape[0], requests[0]["classes"])
        return [
            _answer(rival, place / f"{j}.json", np.load(place / f"scores-{j}.npy"), expected)
            for j in range(len(requests))
        ]


def _answer(rival: Rival, path: Path, scores: NDArray[Any], expected: tuple[int, int]) -> Answer:
    if scores.shape != expected or not np.isfinite(scores).all():
        raise RuntimeError(
            f"{rival.name} gave scores of shape {scores.shape} for {expected}, or not all finite."
        )
    answer = json.loads(path.read_text(encoding="utf-8"))
    peak = answer["peak_mb"]
    return Answer(
        scores=scores,
        seconds=answer["seconds"],
        peak_mb=float("nan") if peak is None else peak,
        versions=answer["versions"],
        settings=answer["settings"],
        claim=Claim(**answer["claim"]),
    )


def _dense(X: Any) -> NDArray[np.float64]:
    size = X.shape[0] * X.shape[1] * 8
    if sp.issparse(X) and size > DENSE_BYTES:
        raise ValueError(
            f"{X.shape[0]:,} × {X.shape[1]:,} sparse rows are {size / 2**30:.1f} GiB as a dense "
            f"array, which other libraries need; up to {DENSE_BYTES / 2**30:g} GiB is allowed. "
            "Use fewer rows or columns."
        )
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


PASSED_ON = (
    "epsilon", "delta", "relation", "loss", "alpha", "intercept", "bounds", "max_norm",
)  # fmt: skip
"""Fields of the problem that the library is given besides the rows."""


class RivalSolver(BaseSolver):
    """Fit another library's model in a process of its own.

    Attributes
    ----------
    rival : str
        A name of `discreet_bench.rivals.RIVALS`.
    timeout : float
        Seconds for a fit.
    """

    sampling_strategy = "run_once"
    requirements: ClassVar[list[str]] = []
    rival: ClassVar[str] = ""
    timeout: ClassVar[float] = 600.0

    def skip(self, **objective: Any) -> tuple[bool, str | None]:
        """Skip problems that the library does not support, and a library that is not installed."""
        rival = self._rival()
        reason = rival.refusal(objective) or ready(rival)
        return reason is not None, reason

    def set_objective(self, **objective: Any) -> None:
        """Keep the problem; nothing is read yet."""
        self.problem = Problem(**objective)

    def run(self, _: Any) -> None:
        """Fit; an error becomes the run's result, so that a table can show it."""
        self.answer: Answer | None = None
        self.error = ""
        problem = self.problem
        try:
            self.answer = fit(
                self._rival(),
                problem.X,
                problem.y,
                problem.X_test,
                classes=problem.n_classes,
                seed=problem.repeat,
                timeout=self.timeout,
                **{name: getattr(problem, name) for name in PASSED_ON},
            )
        except (RuntimeError, TimeoutError) as error:
            self.error = (str(error).splitlines() or [""])[0]
        except Exception as error:
            self.error = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"

    def get_result(self) -> dict[str, Any]:
        """Return what the objective evaluates."""
        variant = "rival" if self._rival().private else "not private"
        answer = self.answer
        if answer is None:
            return Result(problem=self.error, variant=variant).as_dict()
        chances = answer.scores
        spent = answer.claim.epsilon
        return Result(
            scores=chances[:, 1] - chances[:, 0] if chances.shape[1] == 2 else chances,
            probabilities=chances,
            variant=variant,
            claim=_description(answer),
            epsilon_spent=float("nan") if spent is None else spent,
            seconds=answer.seconds,
            peak_mb=answer.peak_mb,
        ).as_dict()

    def _rival(self) -> Rival:
        return RIVALS[self.rival]


def _description(answer: Answer) -> str:
    """Describe the library's claim, settings and versions."""
    settings, versions = (
        ", ".join(f"{name} = {value}" for name, value in found.items())
        for found in (answer.settings, answer.versions)
    )
    return f"{answer.claim.words} Settings: {settings}. Versions: {versions}."
