"""
Auditing a model
================

A privacy guarantee is a proof about code. Proofs can have gaps and code can have bugs, and neither
shows in a model's accuracy. An audit attacks: it runs the real code many times on two tables that
differ in one row, and tests whether the results differ more than the promise allows.
"""

from discreet.audit import audit

# %%
# A solver
# --------
# 100,000 runs of noisy gradient descent, on tables that were chosen to be the worst. The result is
# a *lower* bound on the true ε. The promise is an upper bound, which only a proof can give. The
# truth is between them.

honest = audit("gd", epsilon=1.0, delta=1e-3, trials=100_000)
print(honest)

# %%
# *Consistent* means that the attack saw the row, but not more of it than promised. It is no proof.
#
# A method with a mistake
# -----------------------
# Any function can be audited, even one of another package. This one releases a noisy mean of ages
# and forgets that one age may be 120: its noise is for ages up to 10. The function returns one
# result per run.

import numpy as np

rng = np.random.default_rng()


def careless_mean(ages, runs):
    """Return noisy means that claim ε = 1; the noise is twelve times too small."""
    return np.mean(ages) + rng.laplace(scale=10 / len(ages), size=(runs, 1))


with_person = np.array([120.0, 30.0, 40.0, 50.0, 60.0])
without = np.array([0.0, 30.0, 40.0, 50.0, 60.0])
careless = audit(careless_mean, (with_person, without), epsilon=1.0, delta=0.0, trials=20_000)
print(careless)

# %%
# *Refuted* is wrong with probability 0.1 % at most. Do not release such a result.
#
# The two in one picture: an attacker decides from the result whether the row was there. Both axes
# are logarithmic. Under the promise no attack is above the blue curve.

from discreet.audit.figure import draw

picture = draw([honest, careless])

# %%
# An estimator
# ------------
# A whole estimator takes longer, because each run is a fit. Its own settings are the promise. A
# trained model cannot be audited, only the method that trains it.

from discreet import LinearSVC

model = LinearSVC(epsilon=4.0, delta=1e-2, solver="gd", data_norm=1.0, fit_intercept=False)
print(audit(model, trials=200))

# %%
# *Too weak to tell* is an honest answer: it comes with the number of trials that would be enough.
#
# One fit, many canaries
# ----------------------
# A fit that is too large to repeat can be audited once: extreme rows, *canaries*, are put in or
# left out by coin tosses, and the attacker guesses the coins from the one model. That shows less.

from discreet import LogisticRegression
from discreet.audit import audit_one_run

X = rng.normal(size=(3_000, 5))
y = (X[:, 0] > 0).astype(int)
large = LogisticRegression(
    epsilon=8.0, delta=1e-5, classes=[0, 1], solver="gd", data_norm=5.0, fit_intercept=False
)
print(audit_one_run(large, X, y, canaries=1_000))

# %%
# From the command line: ``discreet audit gd --minutes 5``, or ``discreet audit model.json``. Read
# :doc:`/audit` before you draw conclusions: it says what an audit can and cannot show.
