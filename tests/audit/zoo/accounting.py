"""Bugs in what is counted."""

import math
from functools import cache

import numpy as np
from sklearn.base import clone

from discreet import Budget, Ledger, LogisticRegression
from discreet.core import Account, Curator, Gaussian
from discreet.core.questions import Gradient
from discreet.errors import BudgetExceeded
from discreet.ledger import Dataset
from discreet.objectives import Hinge
from discreet.rows import as_rows
from discreet.solvers import GD

from .planting import Promise, column, gaussian_scale, plant, seeded, total

PROMISE = Promise(1.0, 1e-3)
BUDGET = Budget(1.0, 1e-3, "add_remove")
COPIES = 500


class _Free:
    """A filter that lets everything pass."""

    def charge_all(self, uses):
        """Nothing is written down."""


class Forgetful(Curator):
    """The library's curator, but what refinements cost is forgotten."""

    def refine(self, gradient, *, mechanism):
        kept, self._filter = self._filter, _Free()
        try:
            return super().refine(gradient, mechanism=mechanism)
        finally:
            self._filter = kept


@plant(
    "gradient averaging that forgets what it spent",
    PROMISE,
    "a row at the clip, or one that does nothing",
    trials=40_000,
)
def refinement(rng, world, count, sound):
    """A gradient is measured again until it is good, but paid once: DP-AGD's averaging, ill done.

    The library's own curator, run for real, with a `refine` that does not charge. Each column has a
    row of its own, and noise of its own: one run is as many as there are columns.
    """
    rows = as_rows(world * np.eye(COPIES), np.full(COPIES, -1.0), fit_intercept=False)
    noise, outputs = seeded(rng), []
    for _ in range(-(-count // COPIES)):
        curator = (Curator if sound else Forgetful)(rows, Account(BUDGET), noise)
        half = Gaussian.from_rho(0.499 * curator.open("zcdp"))
        gradient = curator.ask(Gradient(Hinge(), np.zeros(COPIES), clip=1.0), half)
        try:
            for _ in range(12):
                gradient = curator.refine(gradient, mechanism=half)
        except BudgetExceeded:
            pass  # as DP-AGD does: it goes on with what it has
        outputs.append(gradient.values)
    return column(np.concatenate(outputs)[:count])


def remembered():
    """Return a data set of the library's ledger with the limit."""
    return Ledger().create("rows", BUDGET, gaussian_share=1.0)


class Forgettable(Dataset):
    """The library's data set, but a copy is another one that has counted nothing."""

    def __deepcopy__(self, memo):
        return forgettable()


def forgettable():
    """Return a data set that copies forget."""
    made = remembered()
    return Forgettable(made.book, made.name, made.settings)


@cache
def granted(kind):
    """Count the fits, of forty clones with 0.3 of its ε each, that a ledger allows."""
    X, y = np.array([[1.0], [0.0]]), np.array([1, 0])
    model = LogisticRegression(
        epsilon=0.3,
        delta=1e-3,
        solver=GD(iterations=1),
        fit_intercept=False,
        data_norm=1.0,
        classes=[0, 1],
        ledger=kind(),
    )
    fits = 0
    for _ in range(40):
        try:
            clone(model).fit(X, y)
        except BudgetExceeded:
            break
        fits += 1
    return fits


@plant(
    "a ledger lost by clone",
    PROMISE,
    "a row at the clip, or one that does nothing",
    trials=40_000,
)
def lost_ledger(rng, world, count, sound):
    """scikit-learn's clone copies an estimator's parameters, and a copied ledger starts anew.

    The library's own estimator and clone decide how many fits pass; each is one noisy gradient,
    and its mean over the fits is what an attacker sees.
    """
    fits = granted(remembered if sound else forgettable)
    mu = Budget(0.3, 1e-3, "add_remove").to_gdp().mu
    return column(world + rng.standard_normal(count) / (mu * math.sqrt(fits)))


@plant(
    "the whole ε for each class",
    Promise(1.0),
    "a row that moves all five models, or none",
    trials=40_000,
    statistics={"least weight": lambda outputs: outputs.min(axis=1), "their sum": total},
)
def whole_for_each(rng, world, count, sound):
    """One model a class, each fitted with all of ε, which is stated once: a one-vs-rest wrapper."""
    classes = 5
    return world + rng.laplace(0.0, classes if sound else 1.0, (count, classes))


@plant(
    "the √k rule without its δ",
    Promise(1.0),
    "a row counted in each of sixteen answers, or none",
    trials=150_000,
    statistics={"sum of the answers": total},
)
def root_rule(rng, world, count, sound):
    """k answers of ε/√k each are stated as ε-DP: advanced composition without what it costs."""
    answers = 16
    scale = answers if sound else math.sqrt(answers)
    return world + rng.laplace(0.0, scale, (count, answers))


@plant(
    "stopping by the exact loss",
    PROMISE,
    "rows that agree, or one more that does not",
    trials=40_000,
    statistics={"number of steps": lambda outputs: outputs[:, 1], "end": lambda o: o[:, 0]},
)
def exact_stopping(rng, world, count, sound):
    """Gradients are noisy, but descent ends when the exact loss is small: the usual early stop."""
    targets = np.append(np.zeros(3), np.ones(world))
    steps, weights = 10, np.zeros(count)
    running, taken = np.ones(count, dtype=bool), np.zeros(count)
    scale = math.sqrt(steps) * gaussian_scale(PROMISE)
    for _ in range(steps):
        if not sound:
            loss = np.square(weights[:, None] - targets).mean(axis=1)
            running &= loss > 0.01
        gradient = np.clip(weights[:, None] - targets, -1, 1).sum(axis=1)
        gradient += scale * rng.standard_normal(count)
        weights -= 0.1 * running * gradient
        taken += running
    return np.stack([weights, taken], axis=1)
