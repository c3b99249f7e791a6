"""Private tuning: a setting chosen from a public grid, and paid for.

`tune` runs a private fit a random number of times, each with a setting drawn from the grid, and
releases the best run only. `GRIDS` are the grids of the benchmark.
"""

from discreet.tuning.grids import GRIDS, check_tunable, solver_with
from discreet.tuning.laws import LAWS, Law, NegativeBinomial, Poisson, law_of
from discreet.tuning.search import Plan, Tuned, tune
from discreet.tuning.selection import (
    BestOfMany,
    TunedGuarantee,
    largest_rho,
    recomputed_epsilon,
)

__all__ = [
    "GRIDS",
    "LAWS",
    "BestOfMany",
    "Law",
    "NegativeBinomial",
    "Plan",
    "Poisson",
    "Tuned",
    "TunedGuarantee",
    "check_tunable",
    "largest_rho",
    "law_of",
    "recomputed_epsilon",
    "solver_with",
    "tune",
]
