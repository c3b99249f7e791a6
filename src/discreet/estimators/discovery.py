"""Levels of columns that a fit finds within its own budget, before its method is chosen.

`discreet.discover` declares a column of texts whose levels nobody listed. The account of the fit is
opened for a share of μ² and δ, a curator counts texts (`TextCounts`, one row of each unit), and the
texts above a threshold are released. From then on they are as public as declared levels: rows are
encoded by them, and the method is chosen by their number, within what is left of the budget.

The unit is a row, or a person of whom one row is read. Under add or remove one count changes by 1,
under replace two. Nothing here reads a row. Proof: docs/proofs/histogram.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from discreet.accounting.budget import Measure
from discreet.accounting.composition import Division
from discreet.accounting.planning import divide
from discreet.core import Budget
from discreet.core.mechanisms import Gaussian
from discreet.core.session import Session
from discreet.design import Design
from discreet.errors import NotSupported, TableError
from discreet.estimators.familiar import warn
from discreet.estimators.method import Method, Settings, choose
from discreet.estimators.units import Inputs
from discreet.exact.cell_questions import TextCounts
from discreet.exact.histogram import GaussianHistogram
from discreet.log import note
from discreet.solvers import Solver
from discreet.tables.cell_rows import TableCells
from discreet.tables.columns import MISSING, OTHER, Categorical, Column, Discovered, Ignored

GAUSSIAN: tuple[Measure, ...] = ("gdp",)
"""Measure of everything that follows: in it, what is chosen later may depend on the levels."""

_RARE = "no level was frequent enough to be released; list the levels if they are public"


@dataclass(frozen=True, eq=False)
class RawTable:
    """A table whose rows cannot be encoded before levels are found; ``shape`` is provisional."""

    table: Any
    shape: tuple[int, int]

    @classmethod
    def of(cls, table: Any, design: Design) -> RawTable:
        """Return the table as it is; its cells were checked but for those of texts to be found."""
        rows = getattr(table, "num_rows", None)
        return cls(table, (len(table) if rows is None else int(rows), design.schema.width))


@dataclass(frozen=True)
class LevelBudget:
    """A budget that is divided between finding levels and the rest of a fit.

    ``division`` is one of the budget without ``delta``; its parts are the columns, in order, and
    its models are the rest of the fit.
    """

    columns: tuple[tuple[str, Discovered], ...]
    mechanisms: tuple[GaussianHistogram, ...]
    division: Division
    delta: Fraction

    @classmethod
    def of(cls, budget: Budget, design: Design) -> LevelBudget:
        """Divide a budget by the declared shares; a budget without δ is refused."""
        if budget.pure:
            raise NotSupported(
                "discover() finds levels that nobody listed, which needs delta > 0: give one well "
                "below 1/n, for example 1e-6. With delta=0, list the levels."
            )
        columns = tuple(design.discovered.items())
        deltas = [each.share * budget.delta for _, each in columns]
        spent = sum(map(Fraction, deltas), Fraction(0))
        left = float(Fraction(budget.delta) - spent)
        while Fraction(left) + spent > Fraction(budget.delta):
            left = math.nextafter(left, 0.0)
        parts = [(f"levels of {name}", each.share) for name, each in columns]
        division = divide(replace(budget, delta=left), parts, GAUSSIAN)
        mechanisms = tuple(
            GaussianHistogram(
                Gaussian.sharing(float(division.total_of(index))).noise_multiplier,
                delta,
                budget.relation,
            )
            for index, delta in enumerate(deltas)
        )
        return cls(columns, mechanisms, division, spent)

    @property
    def rest(self) -> Budget:
        """Budget of the rest of the fit."""
        return self.division.models

    def asked(self) -> list[tuple[TextCounts, GaussianHistogram]]:
        """Return the question about each column, and its mechanism."""
        return [
            (TextCounts(name, each.prefix), mechanism)
            for (name, each), mechanism in zip(self.columns, self.mechanisms, strict=True)
        ]

    def conditions(self, unit: str) -> tuple[str, ...]:
        """State what was released about each column, and what that rests on."""
        counted = "rows" if unit == "row" else "people, of whom one row each was drawn and read,"
        return tuple(
            f"the levels of {name} were found within the budget: texts whose count of {counted} "
            f"plus Gaussian noise of standard deviation {mechanism.scale:.4g} is at least "
            f"{mechanism.threshold:.4g}, which is {mechanism.loss.mu:.4g}-GDP but for an event of "
            f"probability {mechanism.delta:.3g}"
            for (name, _), mechanism in zip(self.columns, self.mechanisms, strict=True)
        )


def check_solver(solver: Solver) -> None:
    """Refuse a solver whose accounting would have to be fixed before the levels are known."""
    if not solver.private:
        raise NotSupported(
            f"solver={solver.name!r} protects nobody, so levels are not found privately for it. "
            "List them in columns."
        )
    if tuple(solver.composes) != GAUSSIAN:
        raise NotSupported(
            f"solver={solver.name!r} composes in {', '.join(solver.composes)}; levels that are "
            "found in the fit compose in Gaussian DP alone. Use 'auto', 'gd' or 'newton', or list "
            "the levels in columns."
        )


def refuse_unsafe(solver: Solver) -> None:
    """Refuse published constants that spend more than a solver was given."""
    raise NotSupported(
        f"solver={solver.name!r} would spend more than it was given (unsafe=True); levels that are "
        "found in the fit cannot be accounted for together with that. List them in columns."
    )


def planned(settings: Settings, inputs: Inputs) -> tuple[LevelBudget, Settings]:
    """Divide the budget before anything is read, and check the rest of the fit by public numbers.

    Returns the settings of that rest as well. Its method is chosen once for a table with one level
    per column, so that a wrong setting is refused before anything is spent.
    """
    plan = LevelBudget.of(settings.budget, inputs.design)
    method = settings.method
    if method is not None:
        check_solver(method.solver)
        method = Method.divided(plan.rest, settings.steps, method.solver)
        method.solver.check(settings.loss, method.models)
    rest = replace(settings, budget=plan.rest, method=method)
    first = replace(rest, inference=rest.inference is True)
    check_solver(choose(first, inputs).solver)
    return plan, rest


def find(plan: LevelBudget, inputs: Inputs, session: Session) -> Inputs:
    """Find the levels within the first part of the session's budget, and encode the rows by them.

    Privacy
    -------
    The part is opened, and the ledger charged, before the curator is asked, and the curator charges
    all questions before it reads a cell.
    """
    raw = inputs.X
    design = inputs.design
    [choice_bits] = session.bits.spawn(1)
    cells = TableCells(raw.table, design.schema, inputs.units.units, choice_bits)
    curator = session.curator(cells)
    curator.open_first(plan.division, plan.delta)
    note("Levels of %d columns are found within the budget of the fit.", len(plan.columns))
    answers = curator.ask_all(plan.asked())
    found: dict[str, Column] = {}
    for (name, declared), counts in zip(plan.columns, answers, strict=True):
        found[name] = _levels(declared, counts)
    rare = [name for name, column in found.items() if isinstance(column, Ignored)]
    if rare:
        warn(
            f"No level of {', '.join(rare)} was frequent enough to be found at this budget, so "
            "the model does not use it. Give discover() a larger share or a prefix, or list the "
            "levels if they are public."
        )
    if len(rare) == len(design.schema.used):
        raise TableError(
            "No column is left for the model: none of the columns had a frequent level at this "
            "budget, which is spent. List levels that are public, or use more rows."
        )
    design = design.with_columns(found)
    return replace(
        inputs,
        X=design.encode(raw.table),
        design=design,
        names=design.feature_names,
        booleans=design.indicators,
        is_own=True,
    )


def _levels(declared: Discovered, counts: dict[str, float]) -> Column:
    """Return the kind that released texts and their noisy counts make of a column."""
    left_out = ("", MISSING, OTHER)
    texts = [text for text in counts if text not in left_out and "\x00" not in text]
    if declared.most is not None:
        largest = sorted(texts, key=lambda text: -counts[text])[: declared.most]
        texts = sorted(largest)
    if not texts:
        return Ignored(_RARE)
    return Categorical(tuple(texts), unseen="average", prefix=declared.prefix)
