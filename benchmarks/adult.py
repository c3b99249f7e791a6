"""UCI Adult, encoded with what its codebook makes public: bounds and category lists.

Nothing is taken from the data: numbers are cut to public bounds and scaled to [0, 1], categories
are one-hot by the codebook's lists, and an unknown category ("?") is all zeros. 105 columns.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np

# The codebook's order of columns; numbers have bounds, categories a list.
COLUMNS: dict[str, tuple[float, float] | str] = {
    "age": (17, 90),
    "workclass": "Private, Self-emp-not-inc, Self-emp-inc, Federal-gov, Local-gov, State-gov, "
    "Without-pay, Never-worked",
    "fnlwgt": (0, 1_500_000),
    "education": "Bachelors, Some-college, 11th, HS-grad, Prof-school, Assoc-acdm, Assoc-voc, 9th, "
    "7th-8th, 12th, Masters, 1st-4th, 10th, Doctorate, 5th-6th, Preschool",
    "education-num": (1, 16),
    "marital-status": "Married-civ-spouse, Divorced, Never-married, Separated, Widowed, "
    "Married-spouse-absent, Married-AF-spouse",
    "occupation": "Tech-support, Craft-repair, Other-service, Sales, Exec-managerial, "
    "Prof-specialty, Handlers-cleaners, Machine-op-inspct, Adm-clerical, Farming-fishing, "
    "Transport-moving, Priv-house-serv, Protective-serv, Armed-Forces",
    "relationship": "Wife, Own-child, Husband, Not-in-family, Other-relative, Unmarried",
    "race": "White, Asian-Pac-Islander, Amer-Indian-Eskimo, Other, Black",
    "sex": "Female, Male",
    "capital-gain": (0, 100_000),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
    "native-country": "United-States, Cambodia, England, Puerto-Rico, Canada, Germany, "
    "Outlying-US(Guam-USVI-etc), India, Japan, Greece, South, China, Cuba, Iran, Honduras, "
    "Philippines, Italy, Poland, Jamaica, Vietnam, Mexico, Portugal, Ireland, France, "
    "Dominican-Republic, Laos, Ecuador, Taiwan, Haiti, Columbia, Hungary, Guatemala, Nicaragua, "
    "Scotland, Thailand, Yugoslavia, El-Salvador, Trinadad&Tobago, Peru, Hong, "
    "Holand-Netherlands",
}


def load(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read both files of ``folder``/adult; returns X of 105 columns and whether income > 50K."""
    records = []
    for name in ("adult.data.xz", "adult.test.xz"):
        with lzma.open(folder / "adult" / name, "rt") as file:
            for line in file:
                fields = [field.strip() for field in line.strip().rstrip(".").split(",")]
                if len(fields) == len(COLUMNS) + 1:
                    records.append(fields)
    raw = np.array(records)
    parts = [_encode(raw[:, j], known) for j, known in enumerate(COLUMNS.values())]
    return np.column_stack(parts), (raw[:, -1] == ">50K").astype(int)


def _encode(values: np.ndarray, known: tuple[float, float] | str) -> np.ndarray:
    if isinstance(known, str):
        return (values[:, None] == np.array(known.split(", "))).astype(float)
    low, high = known
    return (np.clip(values.astype(float), low, high)[:, None] - low) / (high - low)
