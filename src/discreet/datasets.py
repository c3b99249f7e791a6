"""An example table: generated visits to a hospital whose effects are known.

Nobody is in this table. Each cell is made by the code below from a seed, so the table is the same
everywhere, and the effects that made its outcome are `VISITS_EFFECTS`. It has what tables of
hospitals have: several rows per patient, texts, dates, gaps, and amounts with a heavy tail.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.files import replacing

__all__ = ["VISITS_EFFECTS", "VISITS_LEVELS", "load_visits", "write_visits"]

VISITS_LEVELS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "sex": ("f", "m"),
        "ward": ("medicine", "cardiology", "surgery", "neurology"),
        "diagnosis": ("E11", "I10", "I25", "I50", "J18", "J44", "K80", "M54", "N17", "S72"),
        "insulin": ("no", "steady", "changed"),
        "readmitted": ("no", "yes"),
    }
)
"""Levels of the columns of texts, as a codebook of the hospital would list them."""

VISITS_EFFECTS: Mapping[str, float] = MappingProxyType(
    {
        "age": 0.02,
        "days": 0.06,
        "emergencies": 0.5,
        "ward=surgery": -0.5,
        "diagnosis=I50": 0.6,
        "diagnosis=J44": 0.4,
        "insulin=changed": 0.4,
    }
)
"""Effects on the log odds of a readmission: of one unit more, or of a level. All others are 0, but
for the curved effect of *bmi*, which is 0.012 (bmi - 27)²."""

_SHARES = {
    "sex": (0.53, 0.47),
    "ward": (0.45, 0.2, 0.25, 0.1),
    "diagnosis": (0.18, 0.2, 0.13, 0.1, 0.08, 0.09, 0.07, 0.08, 0.04, 0.03),
    "insulin": (0.5, 0.3, 0.2),
}
_FIRST_DAY = date(2023, 1, 1)
_DAYS = 730  # to 2024-12-30
_MOST_VISITS = 20  # of one patient
_GAPS = 0.07  # share of visits without a body mass index
_BMI_CURVE = 0.012
_INTERCEPT = -3.3  # about a third of the visits are followed by a readmission


def load_visits(
    n_patients: int = 20_000,
    *,
    seed: int = 4,
    form: Literal["pandas", "arrow", "columns"] | None = None,
) -> Any:
    """Generate the visits of patients to a hospital, one row per visit.

    Parameters
    ----------
    n_patients : int
        Number of patients; they have 1.8 visits on average, and at most 20.
    seed : int
        Seed of the table. Another seed makes other patients, with the same effects. With the
        default, estimates without privacy are within 1.5 standard errors of the truth.
    form : {"pandas", "arrow", "columns"}, optional
        A pandas DataFrame, a pyarrow Table, or a dict of NumPy arrays and lists. By default the
        first of them whose library is installed.

    Returns
    -------
    DataFrame, Table or dict
        ``patient`` (id), ``admitted`` (date in 2023 or 2024), ``age`` (18 to 100 years), ``sex``,
        ``ward``, ``diagnosis`` (ICD-10), ``insulin``, ``bmi`` (kg/m², missing in 7 % of the rows),
        ``emergencies`` (in the year before, 0 to 12), ``days`` (length of the stay, 1 to 30),
        ``cost`` (euros, heavy tail) and ``readmitted`` ("no" or "yes"). In pandas, the columns of
        `VISITS_LEVELS` have the type category.

    Notes
    -----
    Visits of one patient resemble each other in age, sex, body mass index and emergencies. Given
    the columns, outcomes are independent, so `VISITS_EFFECTS` are the effects that a model of all
    columns estimates.

    Examples
    --------
    >>> from discreet.datasets import load_visits
    >>> visits = load_visits(100, form="columns")
    >>> visits["ward"][:3], visits["readmitted"][:3]
    (['neurology', 'surgery', 'medicine'], ['yes', 'yes', 'no'])
    """
    if n_patients < 1:
        raise ValueError(f"n_patients must be at least 1; got {n_patients}.")
    if form not in (None, "pandas", "arrow", "columns"):
        raise ValueError(f'form must be "pandas", "arrow" or "columns"; got {form!r}.')
    cells = _generate(n_patients, seed)
    if form == "pandas" or (form is None and find_spec("pandas") is not None):
        return _as_pandas(cells)
    if form == "arrow" or (form is None and find_spec("pyarrow") is not None):
        return _as_arrow(cells)
    return cells


def write_visits(
    path: str | os.PathLike[str],
    n_patients: int = 20_000,
    *,
    seed: int = 4,
    european: bool = False,
) -> None:
    """Write the table of `load_visits` to a CSV file, which is replaced if it exists.

    With ``european``, the file is what a spreadsheet in central Europe exports: semicolons, decimal
    commas, dots between thousands, dates like 31.12.2024, and the Windows-1252 encoding.
    """
    cells = _generate(n_patients, seed)
    columns = [_texts(name, values, european) for name, values in cells.items()]
    names = ["cost €" if european and name == "cost" else name for name in cells]
    text = io.StringIO()
    writer = csv.writer(text, delimiter=";" if european else ",", lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*columns, strict=True))
    with replacing(path, encoding="cp1252" if european else "utf-8") as stream:
        stream.write(text.getvalue())


def _generate(n_patients: int, seed: int) -> dict[str, Any]:
    """Return the columns of the table.

    All cells are made from uniform numbers by inverse distribution functions: NumPy's own samplers
    may change from version to version.
    """
    from scipy.special import ndtri
    from scipy.stats import geom, poisson

    rng = np.random.default_rng(seed)

    def uniform(count: int) -> NDArray[np.float64]:
        return np.clip(rng.random(count), 1e-12, 1 - 1e-12)

    visits = np.minimum(geom.ppf(uniform(n_patients), 0.55), _MOST_VISITS).astype(int)
    of = np.repeat(np.arange(n_patients), visits)  # the patient of each row
    n = of.size
    own_age = 62 + 16 * ndtri(uniform(n_patients))
    own_bmi = 27 + 4 * ndtri(uniform(n_patients))
    frailty = ndtri(uniform(n_patients))[of]
    sexes = _levels("sex", uniform(n_patients))

    admitted = np.floor(uniform(n) * _DAYS).astype(int)
    age = np.clip(np.round(own_age[of] + admitted / 365), 18, 100).astype(int)
    ward = _levels("ward", uniform(n))
    diagnosis = _levels("diagnosis", uniform(n))
    insulin = _levels("insulin", uniform(n))
    bmi = np.clip(np.round(own_bmi[of] + 1.5 * ndtri(uniform(n)), 1), 14, 48)
    emergencies = np.minimum(poisson.ppf(uniform(n), np.exp(0.7 * frailty - 0.9)), 12).astype(int)
    days = np.clip(1 + poisson.ppf(uniform(n), 3.5 + np.maximum(frailty, 0)), 1, 30).astype(int)
    cost = np.round(days * np.exp(6.2 + 0.7 * ndtri(uniform(n))), 2)

    score = _INTERCEPT + _BMI_CURVE * (bmi - 27) ** 2
    numbers = {"age": age, "days": days, "emergencies": emergencies}
    codes = {"ward": ward, "diagnosis": diagnosis, "insulin": insulin}
    for name, effect in VISITS_EFFECTS.items():
        column, _, level = name.partition("=")
        if level:
            score += effect * (codes[column] == VISITS_LEVELS[column].index(level))
        else:
            score += effect * numbers[column]
    readmitted = uniform(n) < 1 / (1 + np.exp(-score))
    missing = uniform(n) < _GAPS
    order = np.argsort(admitted, kind="stable")
    made: dict[str, Any] = {
        "patient": [f"P{seed}-{k + 1:05d}" for k in of[order]],
        "admitted": [_FIRST_DAY + timedelta(int(day)) for day in admitted[order]],
        "age": age[order],
        "sex": _texts_of("sex", sexes[of][order]),
        "ward": _texts_of("ward", ward[order]),
        "diagnosis": _texts_of("diagnosis", diagnosis[order]),
        "insulin": _texts_of("insulin", insulin[order]),
        "bmi": np.where(missing, np.nan, bmi)[order],
        "emergencies": emergencies[order],
        "days": days[order],
        "cost": cost[order],
        "readmitted": _texts_of("readmitted", readmitted[order].astype(int)),
    }
    return made


def _levels(name: str, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return codes of levels with the shares of a column."""
    return np.searchsorted(np.cumsum(_SHARES[name])[:-1], uniform, side="right")


def _texts_of(name: str, codes: Iterable[int]) -> list[str]:
    return [VISITS_LEVELS[name][code] for code in codes]


def _as_pandas(cells: dict[str, Any]) -> Any:
    """Return a DataFrame; columns whose levels a codebook lists are categories."""
    import pandas as pd

    frame = pd.DataFrame(cells)
    frame["admitted"] = pd.to_datetime(frame["admitted"])
    for name, levels in VISITS_LEVELS.items():
        frame[name] = pd.Categorical(frame[name], categories=list(levels))
    return frame


def _as_arrow(cells: dict[str, Any]) -> Any:
    """Return a Table; a missing body mass index is null."""
    import pyarrow as pa

    arrays = {name: pa.array(values, from_pandas=True) for name, values in cells.items()}
    return pa.table(arrays)


def _texts(name: str, values: Any, european: bool) -> list[str]:
    """Return the cells of a column as a CSV file has them."""
    if name == "admitted":
        return [day.strftime("%d.%m.%Y") if european else day.isoformat() for day in values]
    if name in ("bmi", "cost"):
        digits = 1 if name == "bmi" else 2
        texts = ["" if np.isnan(value) else f"{value:,.{digits}f}" for value in values]
        if european:
            return [text.translate(str.maketrans(",.", ".,")) for text in texts]
        return [text.replace(",", "") for text in texts]
    return [str(value) for value in values]
