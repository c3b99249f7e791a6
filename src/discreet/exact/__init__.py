"""Methods that run on exact rows inside the curator, with their proofs.

Trusted, with one proof page per module: `perturbed` with its `certificate`
(docs/proofs/objective_perturbation.md), `output_perturbation` (docs/proofs/outpert.md,
docs/proofs/permutation_sgd.md) and `noisy_descents` (docs/proofs/descents.md). `minimise` is not:
what it proposes must pass the certificate. Nor is `calibration`: an account checks what it plans.
`cell_questions` and `histogram` are what private drafts of schemas ask (docs/proofs/histogram.md).

Solvers hold settings and plans, and pass these computations to `Curator.run`, `Curator.release` or,
for baselines, `Curator.reveal`; a `Descent` is passed to `Curator.descend`.
"""

from discreet.exact.calibration import Headroom
from discreet.exact.minimise import (
    MeanObjective,
    Optimizer,
    check_optimizer,
    mean_target,
    nonprivate_minimum,
)
from discreet.exact.noisy_descents import Descent
from discreet.exact.output_perturbation import (
    GradientDescent,
    PermutationPasses,
    check_evaluated,
    check_step,
    smoothness_of,
)
from discreet.exact.perturbed import (
    SMALLEST_BOUND,
    Constants,
    Perturbation,
    PerturbedMinimum,
    check_corners,
    curvature_of,
)
from discreet.rows import Rows

__all__ = [
    "SMALLEST_BOUND",
    "Constants",
    "Descent",
    "GradientDescent",
    "Headroom",
    "MeanObjective",
    "Optimizer",
    "PermutationPasses",
    "Perturbation",
    "PerturbedMinimum",
    "Rows",
    "check_corners",
    "check_evaluated",
    "check_optimizer",
    "check_step",
    "curvature_of",
    "mean_target",
    "nonprivate_minimum",
    "smoothness_of",
]
