"""Audit diffprivlib's logistic regression, which documents ε-DP.

Run: python -m bench.studies.audit_diffprivlib [--trials 12000] [--environment FOLDER]

diffprivlib lives in an environment of its own, made here with pip; where that cannot be done the
script says why and ends. Its fits run there, as they are shipped and with the system's noise; the
bounds are computed here. It is objective perturbation (Chaudhuri, Monteleoni, Sarwate 2011): the
weights minimise Σ loss + ½ wᵀAw + b·w with noise b of density ∝ exp(−‖b‖/s). So the density of
the weights is known for any table, and the best statistic is the logarithm of its ratio in the two
worlds. Where minimisation is cut short, the attacker learns one. Neighbours differ in one row; the
number of rows is the same.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.audit import Attack, Audit, run

FloatArray = NDArray[np.float64]

PACKAGES = ("diffprivlib==0.6.6", "scikit-learn<1.7")  # with later ones it cannot be imported

WORKER = """
import json, secrets, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from diffprivlib.models import LogisticRegression

task = json.loads(open(sys.argv[1]).read())
for world in (0, 1):
    X, y = (np.array(part) for part in task["tables"][world])
    outputs = []
    for _ in range(task["count"]):
        settings = dict(task["settings"])
        if task["seeded"]:
            settings["random_state"] = secrets.randbelow(2**32)
        model = LogisticRegression(**settings).fit(X, y)
        numbers = [*np.ravel(model.coef_), *np.ravel(model.intercept_)][: task["width"]]
        numbers += [0.0] * (task["width"] - len(numbers))
        outputs.append([*numbers, model.n_iter_[0], len(model.classes_)])
    np.save(f"{sys.argv[2]}-{world}.npy", np.array(outputs, dtype=float))
"""


@dataclass(frozen=True)
class Case:
    """A setting of the model, and two tables that differ in one row.

    Attributes
    ----------
    name
        What is tried, in words.
    tables
        (X, y) of either world.
    epsilon
        What is promised.
    settings
        Arguments of diffprivlib's LogisticRegression.
    share
        Of the trials that were asked for, how many are enough here; some fits are slow.
    seeded
        Whether every fit gets a fresh secret seed instead of the system's noise.
    look
        What to look at; the ratio of densities if it is None.
    learn
        Whether the attacker also learns what to look at.
    """

    name: str
    tables: tuple[tuple[Any, Any], tuple[Any, Any]]
    epsilon: float
    settings: dict[str, Any]
    share: float = 1.0
    seeded: bool = False
    look: Callable[[FloatArray], FloatArray] | None = None
    learn: bool = False

    @property
    def numbers(self) -> int:
        """How many weights there are in the larger of the two models."""
        sizes = []
        for X, y in self.tables:
            classes = len(set(y))
            features = len(X[0]) + self.settings.get("fit_intercept", True)
            sizes.append(features * (1 if classes == 2 else classes))
        return max(sizes)


def density_ratio(case: Case) -> Callable[[FloatArray], FloatArray]:
    """Log of the density of weights in world 1 over that in world 0, from its formulas.

    Weights that ran off, because the minimum does not exist, count as undecided.
    """
    intercept = case.settings.get("fit_intercept", True)
    norm, alpha = case.settings["data_norm"], 1 / case.settings.get("C", 1.0)
    norm = np.hypot(norm, 1.0) if intercept else norm
    extra, left = 0.0, case.epsilon - 2 * np.log(1 + 0.25 * norm / alpha)
    if left <= 0:
        extra, left = 0.25 * norm / np.expm1(case.epsilon / 4) - alpha, case.epsilon / 2
    scale = 2 * norm / left

    def log_density(weights: FloatArray, table: tuple[Any, Any]) -> FloatArray:
        X, y = np.array(table[0], dtype=float), np.array(table[1])
        ridge = np.full(X.shape[1], alpha + extra)
        if intercept:  # scikit-learn's penalty leaves the intercept out
            X, ridge = np.column_stack([X, np.ones(len(X))]), np.append(ridge, extra)
        chance = 1 / (1 + np.exp(-weights @ X.T))
        noise = (chance - (y == 1)) @ X + weights * ridge
        curvature = np.einsum("ri,ij,ik->rjk", chance * (1 - chance), X, X) + np.diag(ridge)
        return -np.linalg.norm(noise, axis=1) / scale + np.linalg.slogdet(curvature)[1]

    def ratio(outputs: FloatArray) -> FloatArray:
        weights = outputs[:, : case.numbers]
        with np.errstate(all="ignore"):
            found = log_density(weights, case.tables[1]) - log_density(weights, case.tables[0])
        known = np.isfinite(found) & (np.abs(weights).max(axis=1) < 1e4)
        return np.where(known, found, 0.0)

    return ratio


def column(*values: float) -> list[list[float]]:
    return [[value] for value in values]


def cases() -> list[Case]:
    """Settings from the default on, each with the worst tables that were found for it."""
    labels = [1, 0, 1]

    def second(outputs: FloatArray) -> FloatArray:  # the intercept, which may have run off
        return outputs[:, 1]

    flipped = ((column(1, 0, 0), [0, 0, 1]), (column(1, 0, 0), labels))

    def alone(norm: float) -> Any:
        return ((column(0, 0, 0), labels), (column(norm, 0, 0), labels))

    def apart(norm: float) -> Any:
        return (
            (column(-norm, -norm, -norm), labels),
            (column(norm, -norm, -norm), labels),
        )

    short = ((column(0.01, 0, 0), [0, 0, 1]), (column(0.01, 0, 0), labels))
    plain = {"fit_intercept": False, "data_norm": 1.0}
    rare = ((column(1, 0, 0), [0, 0, 1]), (column(1, 0, 0), [2, 0, 1]))
    three = [1, 0, 1, 2]
    moved = ((column(1, 0, 0, 0), [0, *three[1:]]), (column(1, 0, 0, 0), three))
    return [
        Case("no intercept, data_norm=1", flipped, 1.0, plain),
        Case("no intercept, data_norm=1, max_iter=2", flipped, 1.0, plain | {"max_iter": 2},
             look=lambda outputs: outputs[:, 0], learn=True),
        Case("no intercept, data_norm=30", alone(30.0), 1.0, plain | {"data_norm": 30.0}),
        Case("no intercept, data_norm=100", alone(100.0), 1.0, plain | {"data_norm": 100.0}),
        Case("as shipped, data_norm=100", alone(100.0), 1.0, {"data_norm": 100.0}),
        Case("as shipped, data_norm=1", apart(1.0), 1.0, {"data_norm": 1.0}),
        Case("as shipped, data_norm=0.01", short, 1.0, {"data_norm": 0.01}, look=second),
        Case("C=100, data_norm=0.01", short, 1.0, {"data_norm": 0.01, "C": 100.0}, look=second),
        Case("a label that one row has", rare, 1.0, plain, share=0.05,
             look=lambda outputs: outputs[:, -1]),
        Case("3 labels, secret seed", moved, 1.0, plain, seeded=True,
             look=lambda outputs: outputs[:, 0] - outputs[:, 1]),
        Case("3 labels, secret seed, n_jobs=2", moved, 1.0, plain | {"n_jobs": 2}, share=0.05,
             seeded=True, look=lambda outputs: outputs[:, 0] - outputs[:, 1]),
    ]  # fmt: skip


def environment(folder: Path) -> Path | str:
    """The Python of an environment that holds diffprivlib, or why there is none."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    test = [str(python), "-c", "import diffprivlib.models"]
    try:
        if not python.exists():
            venv.create(folder, with_pip=True)
        if subprocess.run(test, capture_output=True, check=False).returncode:
            install = [str(python), "-m", "pip", "install", "--quiet", *PACKAGES]
            done = subprocess.run(install, capture_output=True, text=True, check=False, timeout=900)
            if done.returncode:
                return "pip: " + (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        tried = subprocess.run(test, capture_output=True, text=True, check=False)
    except (OSError, subprocess.SubprocessError) as reason:
        return f"{type(reason).__name__}: {reason}"
    if tried.returncode:
        return "it cannot be imported: " + tried.stderr.strip().splitlines()[-1]
    return python


def audit(case: Case, python: Path, trials: int) -> Audit:
    """Run the fits over there and judge them here."""
    each = max(200, int(case.share * trials)) // 2
    task = {
        "tables": case.tables,
        "settings": {"epsilon": case.epsilon, **case.settings},
        "count": each,
        "width": case.numbers,
        "seeded": case.seeded,
    }
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "worker.py").write_text(WORKER)
        (Path(folder) / "task.json").write_text(json.dumps(task))
        place = f"{folder}/outputs"
        drawn: list[FloatArray] = []
        used = [0, 0]

        def draw(world: int, count: int) -> FloatArray:
            if not drawn:  # here, so that the audit's clock counts it
                command = [str(python), f"{folder}/worker.py", f"{folder}/task.json", place]
                subprocess.run(command, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
                drawn.extend(np.load(f"{place}-{which}.npy") for which in (0, 1))
            start = used[world]
            used[world] += count
            return drawn[world][start : start + count]

        look = density_ratio(case) if case.look is None else case.look
        attack = Attack(
            subject=case.name,
            pair="one row differs",
            epsilon=case.epsilon,
            delta=0.0,
            relation="replace_one",
            draw=draw,
            statistics={"density ratio" if case.look is None else "a chosen number": look},
            learn=case.learn,
        )
        return run(attack, trials=2 * each)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=12_000, help="fits in each setting")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    parser.add_argument("--environment", type=Path, default=cache / "discreet" / "diffprivlib")
    parser.add_argument("--only", default="", help="the name of one setting")
    options = parser.parse_args()
    python = environment(options.environment)
    if isinstance(python, str):
        print(f"skipped: diffprivlib cannot be installed ({python})")
        return 0
    versions = "import diffprivlib, sklearn; print(diffprivlib.__version__, sklearn.__version__)"
    found = subprocess.run(
        [str(python), "-c", versions], capture_output=True, text=True, check=True
    )
    print("diffprivlib {} with scikit-learn {}; confidence 99.9 %".format(*found.stdout.split()))
    print(f"{'setting':40s}{'promised':>9s}{'at least':>9s}{'trials':>8s}{'seconds':>8s}  verdict")
    for case in cases():
        if options.only not in ("", case.name):
            continue
        result = audit(case, python, options.trials)
        print(
            f"{case.name:40s}{result.epsilon:9.3g}{result.epsilon_bound:9.3g}"
            f"{result.trials:8,d}{result.seconds:8.0f}  {result.verdict}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
