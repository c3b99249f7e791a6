"""Private tuning: select a setting from a public grid within the budget.

`tune` fits a random number of times, each time with a setting drawn from the grid, and releases
the best run only. The privacy cost of the selection is part of the guarantee.
"""

from discreet.tuning.candidates import GRIDS, check_tunable, solver_grid
from discreet.tuning.recompute import TunedGuarantee
from discreet.tuning.search import Tuned, tune

__all__ = ["GRIDS", "Tuned", "TunedGuarantee", "check_tunable", "solver_grid", "tune"]
