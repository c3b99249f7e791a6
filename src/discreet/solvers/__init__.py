"""Solvers: ordinary optimisers that talk to a curator and never see a row."""

from discreet.solvers.agd import AGD
from discreet.solvers.base import Progress, Solution, Solver, TraceEntry
from discreet.solvers.registry import names, resolve

__all__ = ["AGD", "Progress", "Solution", "Solver", "TraceEntry", "names", "resolve"]
