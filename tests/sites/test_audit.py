"""The views of a coordinator and of colluding sites are attacked; planted faults are refuted.

Two worlds differ in one row of one honest site. A view is what the attacker sees of one answer,
less what it knows itself; for a Gaussian the best test is a threshold on it. An attack bounds both
error rates by Clopper-Pearson and refutes μ-GDP if they lie below its trade-off curve; a sound view
is refuted with a probability below 1e-6.

Trials are the columns of one answer: the row is 1/√d in each of d columns, and the noise of each
column is that of μ-GDP for a change of 1/√d.
"""

import math
import threading

import numpy as np
import pytest
from scipy.stats import beta, norm

from discreet import Budget
from discreet.core import Gaussian
from discreet.core.questions import RowSum
from discreet.sites import Federation, Policy, Site
from discreet.sites import site as site_module
from discreet.sites.federation import Local, introduce
from discreet.sites.shares import Share

TRIALS = 4000
ALARM = 1e-7  # of each of six bounds
MU = 2.0  # of one column
MULTIPLIER = 1 / MU / math.sqrt(TRIALS)
LOCK = threading.Lock()


class Faulty(Site):
    """A site whose noise is multiplied by a factor, or that sends each number twice."""

    factor = 1.0
    twice = False
    seen = None

    def _share(self, visit, handle, asked):
        with LOCK:
            honest = site_module.share_of

            def share_of(exact, *arguments, **settings):
                found = honest(exact, *arguments, **settings)
                plain = np.rint(exact.values / 2.0**found.grid).astype(np.int64)
                drawn = np.rint((found.values - plain) * self.factor).astype(np.int64)
                values = (plain + drawn) * (2 if self.twice else 1)
                self.seen = values * 2.0**found.grid
                return Share(values, found.grid, found.scale)

            site_module.share_of = share_of
            try:
                return super()._share(visit, handle, asked)
            finally:
                site_module.share_of = honest


def attack(trust, colluding, factors=(1.0,) * 4, twice=(), known=()):
    """Return the attacker's numbers in both worlds: sums, less what the ``known`` sites sent."""
    found = []
    for world in (0.0, 1.0):
        sites = []
        for k, factor in enumerate(factors):
            table = np.zeros((2, TRIALS))
            table[0] = (world if k == 0 else 0.0) / math.sqrt(TRIALS)
            site = Faulty(f"s{k}", table, np.ones(2), policy=Policy(accepts=(trust,)))
            site.factor, site.twice = factor, k in twice
            sites.append(site)
        if trust == "secure":
            introduce(sites)
        federation = Federation(map(Local, sites), trust=trust, colluding=colluding)
        table, _, _ = federation.open()
        session = table.session(Budget(1e9, 1e-6, "add_remove"), "row", None, None)
        curator = session.curator(table.rows(fit_intercept=False, row_norm=1.0))
        curator.open("gdp")
        total = curator.ask(RowSum(1.0), Gaussian(MULTIPLIER)).values
        found.append((total - sum(sites[k].seen for k in known)) * math.sqrt(TRIALS))
    return found


def refuted(views, mu=MU):
    """Return True if a threshold on the views tells the worlds apart better than μ-GDP allows."""
    zeros, ones = views
    for threshold in (0.25, 0.5, 0.75):
        false = beta.ppf(1 - ALARM, (zeros > threshold).sum() + 1, (zeros <= threshold).sum())
        missed = beta.ppf(1 - ALARM, (ones <= threshold).sum() + 1, (ones > threshold).sum())
        if missed < norm.cdf(norm.ppf(1 - false) - mu):
            return True
    return False


@pytest.mark.parametrize(
    ("trust", "colluding", "known"),
    [
        ("secure", 1, ()),  # the coordinator alone
        ("secure", 1, (3,)),  # with one site
        ("secure", 2, (2, 3)),
        ("secure", 3, (1, 2, 3)),
        ("local", 0, ()),
        ("local", 0, (1, 2, 3)),
    ],
)
def test_no_sound_view_is_refuted(trust, colluding, known):
    views = attack(trust, colluding, known=known)
    assert not refuted(views)
    if len(known) == max(colluding, 3 * (trust == "local")):
        assert refuted(views, mu=0.8 * MU)  # the attack has power: the bound is nearly met


def test_more_colluders_than_agreed_are_refuted():
    assert refuted(attack("secure", 1, known=(1, 2, 3)))


@pytest.mark.parametrize("factor", [0.0, 0.5])
def test_sites_without_noise_are_covered_by_t_and_refuted_beyond(factor):
    """One site with no noise, or half of it, counts as colluding; three are too many for t = 1."""
    assert not refuted(attack("secure", 1, factors=(1.0, 1.0, 1.0, factor)))
    few = (1.0, factor, factor, factor)
    assert refuted(attack("secure", 1, factors=few))
    assert not refuted(attack("secure", 3, factors=few))


def test_a_site_that_sends_its_numbers_twice_spoils_the_sum_and_no_promise():
    """Noise is doubled with the numbers; other rows are hidden by more noise."""
    assert not refuted(attack("secure", 3, twice=(0,), known=(1, 2, 3)))
    assert not refuted(attack("secure", 1, twice=(3,)))


def test_a_site_without_noise_of_its_own_is_refuted_where_each_adds_all():
    views = attack("local", 0, factors=(0.0, 1.0, 1.0, 1.0), known=(1, 2, 3))
    assert refuted(views)
