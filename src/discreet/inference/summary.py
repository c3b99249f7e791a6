"""Table of coefficients with intervals: as text, as HTML, as a DataFrame, and as a forest plot.

Everything here is made of released numbers; nothing can read a row.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.inference.covariance import Covariance, p_values, quantile
from discreet.validate import FloatArray

if TYPE_CHECKING:
    from discreet.figures import Figure

__all__ = ["Coefficients", "Summary", "forest_plot"]

WIDTH = 92
"""Columns of text."""

SMALLEST_BIAS = 0.005
"""Share of the variance from which on a bias is shown."""

LONGEST_NAME = 28
"""Characters of a column's name that are shown."""

INTERVAL_COLOUR = "#9aa7b5"
"""Colour of the interval in a forest plot."""

NOISE_COLOUR = "#1f4e79"
"""Colour of the part of the interval that the privacy noise has."""


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Coefficients of one model with what is known of their errors, the intercept first.

    ``label`` is the class that the model is for, if there are several models. ``noise_share`` and
    ``bias_share`` are the shares of privacy noise and of bounded bias in the variance. Errors are
    NaN where there is no interval, and ``reason`` says why.
    """

    names: tuple[str, ...]
    values: FloatArray
    errors: FloatArray
    noise_share: FloatArray
    bias_share: FloatArray
    reason: str
    label: str = ""

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        values: FloatArray,
        covariance: Covariance | None,
        reason: str,
        label: str = "",
    ) -> Coefficients:
        """Collect coefficients, intercept last, and their errors; ``names`` are those of values."""
        last = len(values) - 1
        order = [last, *range(last)] if names[-1] == "intercept" else list(range(last + 1))
        if covariance is None:
            errors = noise = bias = np.full(len(values), np.nan)
        else:
            parts = covariance.parts()
            errors = parts.errors
            noise = parts.noise
            bias = parts.bias
            noise = noise / errors**2
            bias = bias / errors**2
            reason = covariance.reason
        ordered = tuple(names[k] for k in order)
        shares = (noise[order], bias[order])
        return cls(ordered, values[order], errors[order], *shares, reason, label)

    def z(self) -> FloatArray:
        """Return coefficients over their standard errors."""
        with np.errstate(invalid="ignore"):
            return self.values / self.errors

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Return both ends of the confidence intervals."""
        half = quantile(level) * self.errors
        return self.values - half, self.values + half


@dataclass(frozen=True, eq=False)
class Summary:
    """Table of a model's coefficients; print it, show it in a notebook, or call `to_frame`."""

    title: str
    models: tuple[Coefficients, ...]
    footer: tuple[str, ...]
    level: float = 0.95
    odds_ratios: bool = False

    @property
    def headings(self) -> tuple[str, ...]:
        """Names of the columns."""
        tail = (1 - self.level) / 2
        ends = (f"[{tail:.4g}", f"{1 - tail:.4g}]")
        odds = ("odds ratio", *ends) if self.odds_ratios else ()
        bias = ("bias",) if self._biased else ()
        return ("coef", "std err", "z", "P>|z|", *ends, *odds, "noise", *bias)

    @property
    def _biased(self) -> bool:
        """True if some coefficient has a bias that is worth a column."""
        return any((model.bias_share >= SMALLEST_BIAS).any() for model in self.models)

    def _cells(self, model: Coefficients) -> list[tuple[str, ...]]:
        low, high = model.interval(self.level)
        z = model.z()
        p = p_values(z)
        rows = []
        for k in range(len(model.values)):
            error = _number(model.errors[k]) or "–"
            cells = [_number(model.values[k]), error, _fixed(z[k], 2)]
            cells += [_fixed(p[k], 3), _number(low[k]), _number(high[k])]
            if self.odds_ratios:
                with np.errstate(over="ignore"):
                    odds = np.exp([model.values[k], low[k], high[k]])
                shown = model.names[k] != "intercept"
                cells += [_number(each) if shown else "" for each in odds]
            shares = [model.noise_share[k], model.bias_share[k]][: 2 if self._biased else 1]
            cells += ["" if np.isnan(share) else f"{100 * share:.0f} %" for share in shares]
            rows.append(tuple(cells))
        return rows

    def __str__(self) -> str:
        named = max((len(name) for model in self.models for name in model.names), default=0)
        named = min(max(named, 9), LONGEST_NAME)
        blocks = [[self.headings, *self._cells(model)] for model in self.models]
        across = [
            max(len(row[j]) for block in blocks for row in block) for j in range(len(self.headings))
        ]
        width = max(named + sum(across) + 2 * len(across), 60)
        lines = [self.title.center(width).rstrip(), "=" * width]
        for model, block in zip(self.models, blocks, strict=True):
            names = [model.label, *model.names]
            for k, (name, row) in enumerate(zip(names, block, strict=True)):
                cells = "".join(f"  {cell:>{size}}" for cell, size in zip(row, across, strict=True))
                lines.append(f"{_short(name):<{named}}{cells}".rstrip())
                if k == 0:
                    lines.append("-" * width)
        lines.append("=" * width)
        for note in self.footer:
            lines += textwrap.wrap(note, max(width, WIDTH), subsequent_indent="  ")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the table as HTML, for notebooks."""
        body = []
        for model in self.models:
            heads = "".join(f"<th>{escape(cell)}</th>" for cell in self.headings)
            body.append(f"<tr class='head'><th class='name'>{escape(model.label)}</th>{heads}</tr>")
            for name, row in zip(model.names, self._cells(model), strict=True):
                cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
                body.append(f"<tr><th class='name' scope='row'>{escape(name)}</th>{cells}</tr>")
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.footer)
        return (
            f"<div class='discreet-summary'><style>{_STYLE}</style><table>"
            f"<caption>{escape(self.title)}</caption>{''.join(body)}</table><ul>{notes}</ul></div>"
        )

    def _numbers(self, model: Coefficients) -> dict[str, FloatArray]:
        """Return the columns of a model's table."""
        z = model.z()
        (low, high) = model.interval(self.level)
        numbers = {"coef": model.values, "std err": model.errors, "z": z, "p": p_values(z)}
        numbers |= {"low": low, "high": high}
        return numbers | {"noise share": model.noise_share, "bias share": model.bias_share}

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain data; what is not given is None."""
        models = []
        for model in self.models:
            numbers = self._numbers(model)
            rows = [
                {"name": name}
                | {
                    key.replace(" ", "_"): float(v[k]) if np.isfinite(v[k]) else None
                    for key, v in numbers.items()
                }
                for k, name in enumerate(model.names)
            ]
            models.append({"label": model.label, "coefficients": rows, "reason": model.reason})
        return {"level": self.level, "models": models, "notes": list(self.footer)}

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per coefficient, by name (and class)."""
        import pandas as pd

        frames = []
        for model in self.models:
            columns = self._numbers(model)
            if self.odds_ratios:
                names = {"coef": "odds ratio", "low": "odds low", "high": "odds high"}
                with np.errstate(over="ignore"):
                    columns |= {odds: np.exp(columns[name]) for name, odds in names.items()}
            frames.append(pd.DataFrame(columns, index=list(model.names)))
        if len(frames) == 1:
            return frames[0]
        return pd.concat(frames, keys=[model.label for model in self.models])


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _number(value: float) -> str:
    """Return a number of four significant digits, or nothing."""
    if not np.isfinite(value):
        return ""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        digits = 4 if abs(value) < 10 else 3 if abs(value) < 100 else 1
        return f"{value:.{digits}f}"
    return f"{value:.3e}"


def _fixed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if np.isfinite(value) else ""


_STYLE = """
.discreet-summary{font:14px/1.45 system-ui,sans-serif;color:#1c2733;max-width:64rem;
  overflow-x:auto}
.discreet-summary table{border-collapse:collapse;font-variant-numeric:tabular-nums;
  border-top:2px solid #1c2733;border-bottom:2px solid #1c2733}
.discreet-summary caption{font-weight:600;text-align:left;padding:.3rem .6rem}
.discreet-summary td,.discreet-summary th{padding:.15rem .7rem;text-align:right;border:0;
  white-space:nowrap}
.discreet-summary th.name{text-align:left;font-weight:400}
.discreet-summary tr.head th{border-bottom:1px solid #1c2733;font-weight:600}
.discreet-summary tr:nth-of-type(odd){background:#f4f6f8}
.discreet-summary tr.head{background:#fff}
.discreet-summary ul{margin:.5rem 0 0;padding:0 0 0 1.3rem;font-size:12.5px;color:#44525f}
"""


def forest_plot(summary: Summary) -> Figure:
    """Draw each coefficient with its interval: all of it, and the privacy noise alone inside.

    The axis is in units of the coefficients, and the intercept is left out. Coefficients without an
    interval are drawn hollow.
    """
    from discreet.figures import Figure

    models = summary.models
    longest = max(len(model.names) for model in models)
    figure = Figure(figsize=(6.4 * len(models), 0.27 * longest + 1.7), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(models), sharey=True, squeeze=False)).ravel()
    for panel, model in zip(panels, models, strict=True):
        kept = [k for k, name in enumerate(model.names) if name != "intercept"]
        at = np.arange(len(kept))
        values = model.values[kept]
        errors = quantile(summary.level) * model.errors[kept]
        noise = errors * np.sqrt(model.noise_share[kept])
        given = np.isfinite(errors)
        panel.axvline(0.0, color="0.6", lw=0.8)
        for half, width, colour in ((errors, 5, INTERVAL_COLOUR), (noise, 1.6, NOISE_COLOUR)):
            line: Any = {"xerr": half[given], "lw": width, "color": colour, "capsize": 0}
            panel.errorbar(values[given], at[given], fmt="none", **line)
        panel.plot(values[given], at[given], "o", ms=4, color=NOISE_COLOUR)
        panel.plot(values[~given], at[~given], "o", ms=4, mfc="white", color="0.6")
        panel.set_yticks(at, [_short(model.names[k]) for k in kept], fontsize=8)
        panel.set_ylim(len(kept) - 0.4, -0.6)
        panel.tick_params(axis="x", labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_xlabel("coefficient" + (f" ({model.label})" if model.label else ""), fontsize=9)
    figure.suptitle(
        f"{summary.title}: {100 * summary.level:g} % intervals\n"
        "(thick: all; thin and dark: privacy noise alone; hollow: no interval)",
        fontsize=9,
    )
    return figure
