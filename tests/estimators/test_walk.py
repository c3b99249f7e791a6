"""A default fit passes through few files and functions, so that a reader can follow it."""

import sys
import warnings
from pathlib import Path

import numpy as np

import discreet
from discreet import LogisticRegression

FILES, FUNCTIONS = 37, 222
PACKAGE = Path(discreet.__file__).parent
FITS = 8
"""About one fit in eight refines a draw of noise in high precision, which takes more functions.
The least of eight fits is measured, so that all of them do with probability below 1e-6."""


def fit():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (5000, 8))
    y = (X[:, 0] + 0.1 * rng.normal(size=5000) > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        LogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1]).fit(X, y)


def walk():
    """Return the functions of discreet that a fit calls, as pairs of file and qualified name.

    Comprehensions and lambdas count as part of the function that they are written in.
    """
    found = set()

    def note(frame, event, argument):
        path, name = frame.f_code.co_filename, frame.f_code.co_qualname
        if event == "call" and path.startswith(str(PACKAGE)) and not name.endswith(">"):
            found.add((path, name))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        fit()
    finally:
        sys.setprofile(before)
    return found


def test_a_default_fit_passes_through_few_files_and_functions():
    fit()  # caches are filled and kernels compiled
    functions = min((walk() for _ in range(FITS)), key=len)
    assert len(functions) > 50
    assert len({path for path, _ in functions}) <= FILES
    assert len(functions) <= FUNCTIONS
