"""The table that drafts are made of, and private drafts with fixed noise."""

import warnings

import numpy as np

from discreet.errors import PrivacyLeakWarning
from discreet.tables.draft import draft_private

N = 6000
CITIES = np.array(["Bern", "Graz", "Lyon"])


def table(n=N):
    """Ages from 20 to 69, incomes of 0 or 9,900, three cities and a rare one, an identifier."""
    place = np.arange(n)
    return {
        "age": 20 + place % 50,
        "income": np.where(place % 10, 0, 9900),
        "city": np.where(place == 17, "Nowhere", CITIES[place % 3]),
        "person": np.array([f"P{index:06d}" for index in place]),
        "label": np.where(place % 4, "no", "yes"),
    }


def private(path, epsilon=50.0, delta=1e-9, relation="add_remove", **settings):
    """A draft with fixed noise, without the warnings about that and about bounds."""
    settings.setdefault("random_state", 0)
    if "names" not in settings:
        settings.setdefault("header", True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        warnings.filterwarnings("ignore", "The budget is too small to keep")
        return draft_private(path, epsilon, delta, relation, **settings)
