"""A new question is one class and one kernel: no file of core has to know of it."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from discreet.core import Account, Budget, Curator, Gaussian
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.core.questions import SumQuestion
from discreet.rows import Block, Sum, as_rows, partitioned_rows
from tests.rows.questions import Threads


def sign_sum(rows):
    """The kernel: add up the signs of the entries of each row, over the number of columns."""
    columns = [rows.table.column(index) for index in range(rows.n_features)]
    signs = np.sign(np.array(columns)).sum(axis=1)  # whole numbers: the sum is exact
    return Sum(signs / math.sqrt(rows.n_features), 0.0)


@dataclass(frozen=True, eq=False)
class SignSum(SumQuestion):
    """Sum of the signs of the entries of each row."""

    protected: ClassVar[str] = "Σ sign(x_i)/√d"

    @property
    def bound(self):
        return 1.0

    def on(self, rows):
        return sign_sum(rows)


X = np.random.default_rng(0).normal(1.0, 1.0, (4000, 4))


def made(kind):
    if kind == "one table":
        return as_rows(X, np.ones(4000), fit_intercept=False)
    blocks = [Block(k, X[k::4], np.ones(1000)) for k in range(4)]
    return partitioned_rows(Threads(), blocks, public_size=4000, fit_intercept=False)


@pytest.mark.parametrize("kind", ["one table", "four blocks"])
@pytest.mark.parametrize(("relation", "sensitivity"), [("add_remove", 1.0), ("replace_one", 2.0)])
def test_a_question_that_core_does_not_know_is_answered(kind, relation, sensitivity):
    curator = Curator(made(kind), Account(Budget(1.0, 1e-6, relation)), Noise(SeededBits(1)))
    curator.open("gdp")
    answer = curator.ask(SignSum(), Gaussian(20.0))
    assert answer.deviation == pytest.approx(20.0 * sensitivity, rel=1e-6)
    # four normal numbers within 6 deviations: a false alarm in fewer than 1e-8 of runs
    assert np.abs(answer.values - np.sign(X).sum(axis=0) / 2).max() < 6 * answer.deviation
    assert curator.spent_share > 0
    with pytest.raises(TypeError, match="SignSum needs a Gaussian"):
        curator.ask(SignSum(), "Laplace")
