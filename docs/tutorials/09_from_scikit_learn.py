"""
Moving from scikit-learn
========================

The estimators have scikit-learn's interface: ``fit``, ``predict``, ``score``, pipelines, searches.
Three things are new: there is a budget, what is public must be said, and preprocessing counts.

What each parameter becomes
---------------------------

============================  ====================================================================
scikit-learn                  discreet
============================  ====================================================================
(none)                        ``epsilon``, ``delta``, ``relation``: the budget
(none)                        ``classes``: all labels; taken from y only with a warning
``C``                         ``alpha = 1 / (n * C)``, as the loss is a mean and not a sum
``penalty``, ``l1_ratio``     L2 only; for sparse weights ``solver="frank-wolfe"``
``fit_intercept``             the same; the intercept is part of the penalty
``class_weight``              the same; ``"balanced"`` is paid for by the budget
``solver``                    ``solver="auto"``, or another private method (:doc:`/solvers`)
``tol``, ``max_iter``         settings of a solver object, such as ``GD(iterations=100)``
``warm_start``, ``n_jobs``    (none)
``verbose``                   the same: a bar of passes and spent budget
``random_state``              the same, for tests only: predictable noise protects nobody
``sample_weight`` of ``fit``  the same, as public numbers
(none)                        ``groups`` of ``fit``: whose row each row is (:doc:`/units`)
============================  ====================================================================

====================  ==========================================
scikit-learn          discreet
====================  ==========================================
LogisticRegression    ``LogisticRegression``
LinearSVC             ``LinearSVC``
LinearRegression      ``LinearRegression(target_bounds=…)``
Ridge                 ``LinearRegression(alpha=…)``
HuberRegressor        ``HuberRegressor``
SplineTransformer     ``columns={…}`` (:doc:`/features`)
RBFSampler            ``features="kernel"``
GridSearchCV          ``discreet.tuning.tune``
====================  ==========================================
"""

import numpy as np
from sklearn.linear_model import LogisticRegression as NotPrivate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

rng = np.random.default_rng(1)
X = rng.normal([40.0, 2.0, 300.0], [12.0, 1.0, 80.0], size=(20_000, 3))
y = ((X - [40, 2, 300]) @ [0.1, -0.8, 0.01] + rng.logistic(size=20_000) > 0).astype(int)
X_new, y_new, X, y = X[:5_000], y[:5_000], X[5_000:], y[5_000:]

# %%
# The same objective
# ------------------
# Does ``alpha = 1 / (n * C)`` hold? Without privacy both find the same minimum. (The baseline
# ``"nonprivate"`` warns that it protects nobody.)

import warnings

from discreet import LogisticRegression

C = 1e-3
Z = StandardScaler().fit_transform(X)
theirs = NotPrivate(C=C, fit_intercept=False).fit(Z, y)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    ours = LogisticRegression(
        solver="nonprivate", alpha=1 / (len(Z) * C), fit_intercept=False, classes=[0, 1]
    ).fit(Z, y)
print("scikit-learn:", theirs.coef_[0].round(3))
print("discreet:    ", ours.coef_[0].round(3))

# %%
# Preprocessing
# -------------
# A typical pipeline learns means and scales from the rows. No budget covers that release:

before = make_pipeline(StandardScaler(), NotPrivate())

# %%
# Leave the scaler out. The default centres and scales the rows itself, on the budget of the fit:

after = LogisticRegression(epsilon=1.0, delta=1e-7, classes=[0, 1])
print(f"before: {before.fit(X, y).score(X_new, y_new):.3f}")
print(f"after:  {after.fit(X, y).score(X_new, y_new):.3f}")

# %%
# Where bounds and categories are known to everybody, a schema is a transformer that learns nothing,
# and a pipeline with it is private because its last step is:

import pandas as pd

from discreet.tables import Numeric, Schema

frame = pd.DataFrame(X, columns=["age", "rooms", "rent"])
schema = Schema({"age": Numeric(0, 100), "rooms": Numeric(0, 10), "rent": Numeric(0, 1000)})
pipeline = make_pipeline(schema.transformer(), after).fit(frame, y)
print(f"schema: {pipeline.score(pd.DataFrame(X_new, columns=frame.columns), y_new):.3f}")

# %%
# Searching for a setting
# -----------------------
# ``GridSearchCV`` works, but each of its fits is a release: with a ledger (:doc:`/ledger`) all of
# them are counted. ``tune`` has the estimator's budget for the search and the model together.

from discreet.solvers import GD
from discreet.tuning import tune

model = LogisticRegression(epsilon=1.0, delta=1e-7, classes=[0, 1], solver="gd", data_norm=3.0)
bounded = (X - [50, 5, 500]) / [50, 5, 500]  # by public bounds
tuned = tune(model, bounded, y, grid=[{"solver": GD(step_size=s)} for s in (1.0, 3.0, 10.0)])
print(tuned.setting)
print(tuned.guarantee)
