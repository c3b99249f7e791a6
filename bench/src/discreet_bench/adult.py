"""Coefficients of Adult with and without privacy: ``python -m discreet_bench.adult``.

Arguments are the two files of the data set, as published or compressed. The page is for a browser
(``chromium --headless --screenshot=summary-adult.png --window-size=1500,700 summary-adult.html``
makes the picture of docs/inference.md), and the forest plot is written beside it. With repetitions,
it counts how often signs and significance agree for all coefficients whose |z| is above 10 without
privacy.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from discreet import LogisticRegression

__all__ = ["main"]

NUMBERS = {"age": 1, "education-num": 1, "capital-gain": 1000, "capital-loss": 1000}
NUMBERS |= {"hours-per-week": 1}
"""Columns of numbers, and their units."""

CATEGORIES = ("sex", "race", "marital-status")
COLUMNS = "age workclass fnlwgt education education-num marital-status occupation relationship race"
COLUMNS += " sex capital-gain capital-loss hours-per-week native-country income"
LARGE = 10.0

STYLE = """
body{margin:16px;font:14px system-ui,sans-serif;display:flex;gap:32px}
.statsmodels table{border-collapse:collapse;font-size:13px}
.statsmodels th,.statsmodels td{padding:1px 9px;text-align:right;border:0;white-space:nowrap}
.statsmodels tbody th{text-align:left;font-weight:400}
h3{margin:0 0 8px;font-size:15px}
"""


def table(paths: Sequence[Path]) -> tuple[pd.DataFrame, np.ndarray]:
    """Return columns in units of a report, and whether income is above 50,000 dollars.

    Rows with unknown entries are left out; the most frequent category is the reference.
    """
    settings: Any = {"names": COLUMNS.split(), "skipinitialspace": True, "na_values": "?"}
    parts = [pd.read_csv(path, comment="|", **settings) for path in paths]
    rows = pd.concat(parts).dropna()
    X = pd.DataFrame(
        {
            name if unit == 1 else f"{name} ({unit} $)": rows[name].astype(float) / unit
            for name, unit in NUMBERS.items()
        }
    )
    for name in CATEGORIES:
        for category in rows[name].value_counts().index[1:].sort_values():
            X[f"{name}={category}"] = (rows[name] == category).astype(float)
    X.columns = [name.replace("Married-spouse-absent", "Spouse-absent") for name in X]
    return X, rows["income"].str.startswith(">").to_numpy().astype(int)


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit, write the page and the forest plot, and count agreements."""
    import statsmodels.api as sm

    parser = argparse.ArgumentParser(prog="python -m discreet_bench.adult", description=__doc__)
    parser.add_argument("files", type=Path, nargs=2, help="adult.data and adult.test")
    parser.add_argument("--output", type=Path, default=Path(), help="folder")
    parser.add_argument("--repetitions", type=int, default=1, help="fits; the first is shown")
    given = parser.parse_args(arguments)
    X, y = table(given.files)
    plain = sm.Logit(y, sm.add_constant(X)).fit(disp=False)
    large = plain.tvalues.drop("const").loc[lambda z: z.abs() > LARGE]
    missed: list[list[str]] = []
    for repetition in range(given.repetitions):
        model = LogisticRegression(1.0, 1e-6, classes=[0, 1], inference=True).fit(X, y)
        found = model.summary().to_frame().loc[large.index]
        agrees = (np.sign(found["coef"]) == np.sign(large)) & (found["p"] < 0.05)
        missed.append(list(large.index[~agrees]))
        if repetition == 0:
            other = plain.summary2(float_format="%.3f").tables[1]
            other.columns = ["coef", "std err", "z", "P>|z|", "[0.025", "0.975]"]
            page = (
                f"<!doctype html><meta charset='utf-8'><style>{STYLE}</style>"
                f"<div><h3>discreet, ε = 1: model.summary()</h3>{model.summary()._repr_html_()}"
                "</div><div class='statsmodels'><h3>statsmodels, without privacy</h3>"
                f"{other.to_html(border=0, float_format=lambda value: f'{value:.3f}')}</div>"
            )
            (given.output / "summary-adult.html").write_text(page, encoding="utf-8")
            figure = model.plot_coefficients()
            figure.savefig(given.output / "coefficients-adult.png", dpi=110)
    print(f"{len(X):,} rows; {len(large)} coefficients have |z| above {LARGE:g} without privacy")
    for names in missed:
        print("all agree" if not names else f"not: {', '.join(names)}")


if __name__ == "__main__":
    main()
