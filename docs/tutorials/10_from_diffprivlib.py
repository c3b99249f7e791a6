"""
Moving from diffprivlib
=======================

Both libraries follow scikit-learn, and most names are the same. The main difference: the default
here needs no ``data_norm``, because it finds the scale of the rows within the budget. The names on
the left are those of diffprivlib 0.6.

LogisticRegression
------------------

====================  ===========================================================================
diffprivlib           discreet
====================  ===========================================================================
``epsilon``           ``epsilon``, with ``delta`` (0 for a pure guarantee) and ``relation``
``data_norm``         ``data_norm``; the default needs none
``C``                 ``alpha = 1 / (n * C)``
``fit_intercept``     ``fit_intercept``
``tol``               (none): a certificate decides whether a minimum is good enough
``max_iter``          (none)
``verbose``           ``verbose``, a bar; ``progress`` takes a function
``warm_start``        (none)
``n_jobs``            (none)
``random_state``      ``random_state``, for tests only: such a fit is not private, and says so
``accountant``        ``ledger``
(labels of y)         ``classes``
====================  ===========================================================================

LinearRegression and StandardScaler
-----------------------------------

========================================  ========================================================
diffprivlib                               discreet
========================================  ========================================================
``LinearRegression(bounds_y=…)``          ``LinearRegression(target_bounds=…)``
``LinearRegression(bounds_X=…)``          no bounds needed; or a schema (:doc:`/tables`)
``StandardScaler(epsilon=…, bounds=…)``   in the default; or ``preparation=[Centre(), Scale()]``
========================================  ========================================================

BudgetAccountant
----------------

============================================  ===================================================
diffprivlib                                   discreet
============================================  ===================================================
``BudgetAccountant(epsilon, delta)``          ``Ledger(file).create(name, limit=Budget(…))``
``slack``                                     (none): costs are composed in Gaussian DP or zCDP
``accountant.total()``                        ``dataset.spent``
``accountant.remaining(k)``                   ``dataset.remaining``, ``dataset.fits_left(budget)``
``accountant.spend(epsilon, delta)``          ``dataset.add(epsilon=…, delta=…)``
``set_default()``, ``with accountant:``       pass ``ledger=dataset``
============================================  ===================================================

There is nothing here for ``GaussianNB``, ``KMeans``, ``PCA``, the trees and forests, and the
functions of ``diffprivlib.tools``. Keep using them, and enter what they spend (below).
"""

import numpy as np

rng = np.random.default_rng(8)
X = rng.normal([50.0, 3.0, -1.0], [10.0, 2.0, 0.5], size=(20_000, 3))
y = ((X - [50, 3, -1]) @ [0.1, 0.6, -1.0] + rng.logistic(size=20_000) > 0).astype(int)
X_new, y_new, X, y = X[:5_000], y[:5_000], X[5_000:], y[5_000:]

# %%
# The same method
# ---------------
# diffprivlib's logistic regression::
#
#     from diffprivlib.models import LogisticRegression
#     model = LogisticRegression(epsilon=1.0, data_norm=100.0, C=1.0).fit(X, y)
#
# is objective perturbation after Chaudhuri, Monteleoni and Sarwate (2011): pure, for one replaced
# row. Here that is ``solver="objpert"``, with a certificate for the minimum that is released and
# exact noise:

from discreet import LogisticRegression

same = LogisticRegression(
    epsilon=1.0,
    delta=0.0,
    relation="replace_one",
    data_norm=100.0,
    alpha=1 / len(X),  # C = 1
    solver="objpert",
    classes=[0, 1],
).fit(X, y)
print(same.guarantee_)
print(f"accuracy {same.score(X_new, y_new):.3f}")

# %%
# Its noise has to hide a row of norm 100, while the columns that matter vary by less than 10. Let
# the default find centre and scale instead. It needs δ > 0:

model = LogisticRegression(epsilon=1.0, delta=1e-7, relation="replace_one", classes=[0, 1])
print(f"accuracy {model.fit(X, y).score(X_new, y_new):.3f}")

# %%
# A common ledger
# ---------------
# A limit for everything that is released about these people, by either library. A mean of the
# first column, clipped to 0 and 100, was released with diffprivlib at ε = 0.1:

from discreet import Budget, Ledger

people = Ledger().create("people", limit=Budget(2.0, 1e-6, "replace_one"))
people.add(epsilon=0.1)
LogisticRegression(
    epsilon=1.0, delta=1e-7, relation="replace_one", classes=[0, 1], ledger=people
).fit(X, y)
print(people)

# %%
# What else differs
# -----------------
# - **Relation.** It is a setting, and every guarantee names it. ``"replace_one"`` is the one to
#   compare with diffprivlib's logistic regression.
# - **Labels.** ``classes`` is public knowledge. Without it, labels are taken from y with a
#   ``PrivacyLeakWarning``, a name that both libraries have.
# - **Several classes.** One softmax model in place of one model per class with ε/K each.
# - **The guarantee is an object.** ``model.guarantee_.recompute()`` checks it with an independent
#   accountant, and ``discreet.card.card(model)`` states it for other readers.
