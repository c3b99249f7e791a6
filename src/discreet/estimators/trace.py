"""Trace of a fit for people: as a table, as a figure, and as a bar while the fit runs.

Everything shown is released already, and paid for: entries of the trace, the share of the budget
that is spent, and time. A loss on the rows is never shown.
"""

from __future__ import annotations

import importlib
import math
import sys
import time
from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING, Any, TextIO

from sklearn.utils.validation import check_is_fitted

from discreet.page import table
from discreet.solvers import Progress, TraceEntry

if TYPE_CHECKING:
    import pandas as pd

    from discreet.estimators.base import PrivateLinearModel
    from discreet.figures import Figure

SHOWN = 12
"""Entries of a trace that a notebook shows: the first half and the last of them."""

WIDTH = 24
"""Characters of a bar."""

PAUSE = 0.1
"""Seconds between two states of a bar."""


class Trace(tuple[TraceEntry, ...]):
    """Entries of a trace, one per iteration of the solver; a tuple that notebooks display."""

    __slots__ = ()

    def records(self) -> list[dict[str, Any]]:
        """Return the entries as plain data, with the number of the iteration of each model."""
        counts: dict[int, int] = {}
        found = []
        for entry in self:
            plain = asdict(entry)
            model = plain.pop("model")
            counts[model] = counts.get(model, 0) + 1
            found.append({"model": model, "iteration": counts[model], **plain})
        return found

    def to_frame(self) -> pd.DataFrame:
        """Return the entries as a DataFrame (needs pandas)."""
        import pandas as pd

        return pd.DataFrame(self.records())

    def _repr_html_(self) -> str:
        records = self.records()
        if not records:
            return "<p>The solver recorded no iteration.</p>"
        header = list(dict.fromkeys(name for record in records for name in record))
        rows = [[_cell(record.get(name, "")) for name in header] for record in records]
        if len(rows) > SHOWN:
            rows = [*rows[: SHOWN // 2], ["…"] * len(header), *rows[-SHOWN // 2 :]]
        times = "1 iteration" if len(records) == 1 else f"{len(records):,} iterations"
        return table(header, rows, caption=f"Trace of a fit: {times}, safe to publish")


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def plot_trace(model: PrivateLinearModel) -> Figure:
    """Draw each number of the trace that changes, one panel each, against the iteration."""
    from discreet.figures import Figure

    check_is_fitted(model, "coef_")
    records = Trace(model.trace_).records()
    numbers = [
        name
        for name in (records[0] if records else ())
        if name not in ("model", "iteration")
        and all(isinstance(record[name], int | float) for record in records)
    ]
    drawn = [name for name in numbers if len({r[name] for r in records}) > 1] or numbers
    if not drawn:
        raise ValueError(
            f"solver={model.solver_!r} recorded nothing to draw. See guarantee_ and trace_."
        )
    across = min(3, len(drawn))
    down = math.ceil(len(drawn) / across)
    figure = Figure(figsize=(3.6 * across, 2.6 * down + 0.6), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    several = sorted({record["model"] for record in records})
    for panel, name in zip(panels, drawn, strict=False):
        for one in several:
            own = [(r["iteration"], r[name]) for r in records if r["model"] == one]
            panel.plot(*zip(*own, strict=True), "o-", ms=2.5, lw=1.2, label=f"model {one}")
        panel.set_title(name.replace("_", " "), fontsize=9)
        panel.set_xlabel("iteration", fontsize=8)
        panel.tick_params(labelsize=7)
    for panel in panels[len(drawn) :]:
        panel.set_axis_off()
    if len(several) > 1:
        panels[0].legend(fontsize=7)
    title = f"Trace of {model.solver_!r} at ε = {model.guarantee_.epsilon:g}"
    figure.suptitle(f"{title}: released numbers only", fontsize=10)
    return figure


class Bar:
    """A bar of the share of the budget that is spent, for a terminal or a notebook.

    ``prepared`` is the share that was spent before the models. If no person watches the stream,
    which is standard error by default, one line is written at the end.
    """

    def __init__(
        self, title: str, n_models: int, prepared: float, stream: TextIO | None = None
    ) -> None:
        self.title = title
        self.n_models = n_models
        self.prepared = prepared
        self.share = 0.0
        self.iterations = 0
        self._stream = sys.stderr if stream is None else stream
        self._start = time.monotonic()
        self._shown = -math.inf
        self._display = _notebook_display()
        self._handle: Any = None
        self._live = self._display is not None or self._stream.isatty()

    def __call__(self, at: Progress) -> None:
        """Show the state after an iteration."""
        self.iterations += 1
        models = (at.entry.model + at.spent_share) / self.n_models
        self.share = min(1.0, self.prepared + (1 - self.prepared) * models)
        now = time.monotonic()
        if self._live and now >= self._shown + PAUSE:
            self._shown = now
            self._show()

    def finish(self) -> None:
        """Show the last state: all of the budget counts as spent when a fit ends."""
        self.share = 1.0
        self.stop()

    def stop(self) -> None:
        """Show the state in which the fit ended, and leave it there."""
        self._show(end="\n")

    def __repr__(self) -> str:
        filled = round(WIDTH * self.share)
        return f"{self.title} {'█' * filled}{'░' * (WIDTH - filled)} {self._text}"

    def _repr_html_(self) -> str:
        return (
            f'<div>{escape(self.title)} <progress max="100" value="{100 * self.share:.1f}" '
            f'aria-label="{escape(self.title)}: budget spent"></progress> {self._text}</div>'
        )

    @property
    def _text(self) -> str:
        times = "1 iteration" if self.iterations == 1 else f"{self.iterations:,} iterations"
        seconds = time.monotonic() - self._start
        return f"{100 * self.share:.0f} % of the budget spent, {times}, {seconds:.1f} s"

    def _show(self, end: str = "") -> None:
        if self._handle is not None:
            self._handle.update(self)
        elif self._display is not None:
            self._handle = self._display(self, display_id=True)
        else:
            start = "\r" if self._live else ""
            self._stream.write(f"{start}{self!r}{end}")
            self._stream.flush()


def _notebook_display() -> Any:
    """Return the function that displays objects in a notebook, or None elsewhere."""
    interactive = sys.modules.get("IPython")
    shell = None if interactive is None else interactive.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    return importlib.import_module("IPython.display").display
