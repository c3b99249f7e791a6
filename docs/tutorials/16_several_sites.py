"""
Several sites
=============

Four clinics want one model of readmission, and none may hand its rows to another. Each keeps its
rows, its own ledger and its own privacy filter; sums over the rows travel, with noise. The
clinics are simulated here, in one process: they exchange the messages that four processes would.
:doc:`/sites` has the commands for real ones.
"""

import numpy as np

rng = np.random.default_rng(4)


def visits_of(n, frailty):
    """Return the rows of a clinic, whose patients are more or less frail, and who came back."""
    age = rng.uniform(18, 95, n)
    emergencies = np.minimum(rng.poisson(0.5 + frailty, n), 5)
    days = np.clip(rng.poisson(4, n), 1, 14)
    score = 0.02 * (age - 60) + 0.7 * emergencies + 0.1 * (days - 4) - 0.8
    back = rng.uniform(size=n) < 1 / (1 + np.exp(-score))
    return np.column_stack([age, emergencies, days]), back.astype(int)


clinics = {
    "north": visits_of(6000, 0.2),
    "south": visits_of(2500, 0.0),
    "east": visits_of(1500, 0.6),
    "west": visits_of(300, 0.1),
}
X_new, y_new = visits_of(20_000, 0.2)

# %%
# Four sites
# ----------
# Each site names the trust models under which it takes part, and has a ledger with a limit of its
# own. With secure aggregation the coordinator sees noisy sums over all sites, and no site's own.

from discreet import Budget, Ledger, LogisticRegression
from discreet.sites import Federation, Policy, Site

sites = []
for name, (X, y) in clinics.items():
    ledger = Ledger().create("visits", limit=Budget(1.5, 1e-6, "add_remove"), unit="row")
    sites.append(Site(name, X, y, ledger=ledger, policy=Policy(accepts=("secure",))))
federation = Federation(sites, trust="secure", colluding=1)

model = LogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1])
model.fit(*federation.open())
print(model.guarantee_)

# %%
# What the promise rests on is among the conditions of the guarantee: the trust model, the number of
# colluding sites that it covers, and that the unit is one row at one site.

print(*(text for text in model.guarantee_.conditions if "site" in text), sep="\n")

# %%
# What it is worth
# ----------------
# The smallest clinic alone has too few rows for the same budget.

alone = LogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1]).fit(*clinics["west"])
print(f"accuracy of the common model: {model.score(X_new, y_new):.3f}")
print(f"accuracy of west's own:       {alone.score(X_new, y_new):.3f}")

# %%
# What each site has on record
# ----------------------------
# Every ledger was charged before anything was read. The trust section of a site's privacy card says
# what the site released, to whom, and under which trust model.

from discreet.sites import trust_section

print(sites[3].ledger)
print(trust_section("west", sites[3].record))

# %%
# A site may refuse
# -----------------
# A second fit of ε = 1.5 does not fit the limits. It ends before a row is read, and nobody's budget
# is spent.

from discreet.sites import SiteError

try:
    LogisticRegression(epsilon=1.5, delta=1e-6, classes=[0, 1]).fit(*federation.open())
except SiteError as error:
    print(error)
print([round(site.ledger.spent, 3) for site in sites])
