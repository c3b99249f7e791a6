"""What the papers' public code does, so that their figures can be drawn again. NOT PRIVATE.

The figures of the papers were made with code that does not keep its promise. The modules here do
what that code is known to do wrong, written anew for NumPy. They use ordinary random numbers and
keep no account. Nothing in here may be used to protect anybody: the solvers of `discreet.solvers`
with the same names are made private, and stand next to these in the benchmark.

Each module has ``RELATION``, ``LOSSES`` and ``fit(X, y, *, epsilon, delta, loss, alpha, seed,
**settings)``, which returns `Released`. Settings that neither paper nor errata give are said to be
a choice of ours in the docstring of ``fit``.
"""

from discreet_bench.released import agd, amp, frank_wolfe, objpert, outpert, sgd
from discreet_bench.released.result import Released

__all__ = ["RELEASED", "Released"]

RELEASED = {
    "agd": agd,
    "amp": amp,
    "frank-wolfe": frank_wolfe,
    "objpert": objpert,
    "outpert": outpert,
    "sgd-ma": sgd,
}
"""The modules, by the name of the solver that is made private."""
