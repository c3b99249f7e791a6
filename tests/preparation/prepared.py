"""A table in odd units, preparations, and a model that takes them: for tests of both."""

import numpy as np

from discreet import LogisticRegression, solvers
from discreet.preparation import Bounds, Centre, FittedBounds, Radius, Scale, Spread, Whiten
from discreet.preparation.pipeline import Written
from discreet.rows import AffineMap

rng = np.random.default_rng(0)
N = 6000
RAW = rng.normal(size=(N, 4)) * [1.0, 0.1, 20.0, 1.0] + [0.0, 3.0, 50.0, -1.0]
SCORE = RAW[:, 0] + 8 * (RAW[:, 1] - 3) + (RAW[:, 2] - 50) / 20
Y = np.where(SCORE > 0, "yes", "no")
ALL = (Bounds([0, 1, 2, 3]), Centre(), Whiten())
FULL = (Radius(), Centre(), Scale(), Whiten())
TWICE = (Radius(), Centre(0.03), Spread(), Centre(0.03), Scale(0.03), Scale(0.03))


def model(solver="agd", preparation=ALL, **settings):
    known = solvers.resolve(solver).relations
    relation = settings.pop("relation", known[0])
    settings = {"epsilon": 3.0, "random_state": 0, "data_norm": 1.0, **settings}
    return LogisticRegression(
        solver=solver,
        relation=relation,
        preparation=preparation,
        classes=["no", "yes"],
        **settings,
    )


def applied(step, X):
    """Return a table of the rows as one fitted step maps them, by what a fit writes tables with."""
    if isinstance(step, FittedBounds):
        return step.apply(X)
    any_norm = AffineMap.to_norm(1e21, X.shape[1])
    before = None if getattr(step, "clips", True) else any_norm
    affine = step.affine_map(before, X.shape[1])
    return X if affine is None else Written(affine).apply(X)
