"""Other libraries, each in an environment of its own.

    from discreet_bench import rivals
    rivals.install(rivals.RIVALS["diffprivlib"])  # None, or why it could not be done
    rivals.fit("diffprivlib", X_train, y_train, X_test, epsilon=1.0, delta=0.0, ...)

They are used as their documentation recommends, and nothing is tuned. Claims of Gaussian mechanisms
are recomputed (`recomputed_epsilon`), other claims are recorded only. ``python -m
discreet_bench.rivals`` compares them with the default.
"""

from discreet_bench.rivals.environments import RIVALS, Rival, folder, install, ready
from discreet_bench.rivals.solver import (
    Answer,
    Claim,
    RivalSolver,
    fit,
    fit_budgets,
    recomputed_epsilon,
)

__all__ = [
    "RIVALS", "Answer", "Claim", "Rival", "RivalSolver", "fit", "fit_budgets", "folder", "install",
    "ready", "recomputed_epsilon",
]  # fmt: skip
