"""An attack on a person with one row or forty, against fits for rows and fits for people.

A table of 2,000 rows, ε = 1. The attacker knows all other rows and the rows of the person in
question, sees the weights of a model, and accuses 5 % of those who are not in the table:

    python -m bench.studies.person_attack --fits 1500

The largest share of those in the table that an attack may find is what the privacy card states.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from discreet import LogisticRegression
from discreet.card.risk import STATED_RATE, attack_success, percent
from discreet.solvers import GD

ROWS, FEATURES, FALSE_ALARMS = 2_000, 4, STATED_RATE
EPSILON, DELTA = 1.0, 1e-6
SIZES = (1, 40)


def table(rows_of_person: int, present: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, targets and ids; a person who is not in the table has one row of zeros."""
    rng = np.random.default_rng(0)
    others = rng.standard_normal((ROWS - SIZES[-1], FEATURES))
    others[:, 0] = 0.0
    others /= np.linalg.norm(others, axis=1)[:, None]
    labels = np.where(others @ np.arange(FEATURES) + rng.logistic(size=len(others)) > 0, 1, -1)
    person = np.zeros((rows_of_person if present else 1, FEATURES))
    person[:, 0] = 1.0 if present else 0.0
    X, y = np.concatenate([person, others]), np.append(np.ones(len(person), int), labels)
    return X, y, np.append(np.zeros(len(person), int), np.arange(1, len(others) + 1))


def scores(rows_of_person: int, present: bool, *, people: bool, fits: int) -> np.ndarray:
    """Return the weight of the person's column in many fits."""
    X, y, ids = table(rows_of_person, present)
    model = LogisticRegression(
        EPSILON, DELTA, solver=GD(20), data_norm=1.0, classes=[-1, 1], fit_intercept=False
    )
    found = [model.fit(X, y, ids if people else None).coef_[0, 0] for _ in range(fits)]
    return np.array(found)


def main() -> None:
    """Run the attack and print how often it finds the person."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--fits", type=int, default=1500, help="fits with and without the person")
    fits = parser.parse_args().fits
    warnings.simplefilter("ignore")
    print("| guarantee for | rows of the person | found | at most, by the card |")
    print("|---|---:|---:|---:|")
    for people in (False, True):
        model = LogisticRegression(EPSILON, DELTA, solver=GD(20), data_norm=1.0, classes=[-1, 1])
        X, y, ids = table(1, True)
        guarantee = model.fit(X, y, ids if people else None).guarantee_
        for size in SIZES:
            absent = scores(size, False, people=people, fits=fits)
            present = scores(size, True, people=people, fits=fits)
            threshold = np.quantile(absent, 1 - FALSE_ALARMS)
            found = float(np.mean(present > threshold))
            units = 1 if people else size
            bound = attack_success(guarantee, FALSE_ALARMS, units=units)
            unit = "one person" if people else "one row"
            # of the share found, and of the false alarms through the threshold
            error = np.sqrt((found * (1 - found) + FALSE_ALARMS * (1 - FALSE_ALARMS)) / fits)
            print(f"| {unit} | {size} | {found:.1%} ± {error:.1%} | {percent(bound)} |", flush=True)


if __name__ == "__main__":
    main()
