import gc

import numpy as np
import pytest
from hypothesis import settings

from discreet.estimators import familiar

# The same examples on every run: a test that passed yesterday fails today only if code changed.
settings.register_profile("fixed", derandomize=True, print_blob=True)
settings.load_profile("fixed")

# Thousands of collected tests and imported modules live to the end: going through them again and
# again for garbage took a tenth of the time.
gc.disable()

LONG = ("slow", "process", "spark", "browser")
LONG_SECONDS = 1800
"""Marks of tests that are slow or start other programs, and their limit in place of the usual."""


def pytest_collection_modifyitems(items):
    for item in items:
        long = any(item.get_closest_marker(name) for name in LONG)
        if long and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LONG_SECONDS))


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


# The advice on a default ε comes once per process: no test may depend on which fit is the first.
familiar._POINTED_OUT.set()


@pytest.fixture(scope="session")
def binary():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(6000, 6))
    y = np.where(X @ [3, -2, 1, 0, 0, 1] + 0.3 * rng.normal(size=6000) > 0, "yes", "no")
    return X, y


@pytest.fixture(scope="session")
def three_classes():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, size=9000)
    X = rng.normal(scale=0.3, size=(9000, 2)) + np.array([[1, 0], [-1, 1], [-1, -1]])[y]
    return X, y


@pytest.fixture(scope="session")
def regression():
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, size=(8000, 4))
    y = 50 + 20 * (X @ [1, -1, 0.5, 0]) + rng.normal(size=8000)
    return X, y
