"""A data set of one file: two half circles.

discreet bench run auto-table --quick --data-file bench/examples/two_moons.py
"""

from sklearn.datasets import make_moons

from discreet_bench.data import table_of


def load():
    """Return the table; the bounds are public numbers, not extremes of the rows."""
    X, y = make_moons(2000, noise=0.2, random_state=0)
    return table_of("two-moons", X, y, bounds=[[-3, 3], [-3, 3]], max_norm=4.3)
