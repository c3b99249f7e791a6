"""Small neighbouring tables, and the estimators that every check must pass."""

import numpy as np

from discreet import HuberRegressor, LinearRegression, LinearSVC, LogisticRegression, solvers

_rng = np.random.default_rng(0)
X = _rng.uniform(-1, 1, size=(30, 3))
Y = np.tile([0, 1], 15)
X_OTHER, Y_OTHER = X.copy(), Y.copy()
X_OTHER[-1], Y_OTHER[-1] = [0.9, -0.9, 0.9], 0
TABLE = (X, Y)
NEIGHBOURS = (TABLE, (X_OTHER, Y_OTHER))


def logistic(solver, **changes):
    settings = {
        "epsilon": 2.0,
        "delta": 1e-3,
        "data_norm": 1.0,
        "classes": [0, 1],
        "relation": type(solvers.resolve(solver)).relations[0],
    }
    return LogisticRegression(solver=solver, **settings | changes)


PRIVATE = [name for name in solvers.names() if name != "newton" and solvers.describe(name).private]
SLOW = {"sgd-adv", "sgd-ma"}  # the same code as sgd, with another accountant
OTHERS = [
    LinearSVC(loss="hinge", delta=1e-3, classes=[0, 1], fit_intercept=False),
    HuberRegressor(delta=1e-3, target_bounds=(0, 1)),
    LinearRegression(solver="newton", delta=1e-3, target_bounds=(0, 1)),
]
QUICK = [logistic("outpert"), logistic("agd", epsilon=0.5), logistic("frank-wolfe"), *OTHERS]


def named(estimator):
    return f"{type(estimator).__name__}-{estimator.solver}"
