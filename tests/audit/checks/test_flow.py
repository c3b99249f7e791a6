"""Steps and outputs of a fit may depend on charged answers alone."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from discreet.preparation import Bounds, Centre, Radius, Scale, Spread, Whiten

from .all import control_flow, hidden_inputs, messages
from .flow import first_difference
from .recording import fit_both
from .solvers import FLOWS, MESSAGES, OUTPUTS, Descent
from .streams import Noisy
from .tables import NEIGHBOURS, OTHERS, PRIVATE, SLOW, X, Y, logistic, named

OURS = [*(logistic(name) for name in PRIVATE if name not in SLOW), *OTHERS]
ADAPTIVE = [logistic(name, epsilon=0.3) for name in ("agd", "shrunk-gd", "privgene")]

PREPARED = [
    logistic("gd", preparation=(Bounds([0, 1, 2]), Centre(), Whiten())),
    logistic("outpert", preparation=(Radius(), Centre(0.03), Spread(), Centre(0.03), Scale())),
]


def planted(bug):
    return logistic("gd").set_params(solver=Descent(bug))


@pytest.mark.parametrize("estimator", [*OURS, *ADAPTIVE, *PREPARED, planted("")], ids=named)
def test_ours_do_the_same_on_neighbours(estimator):
    recorded = fit_both(estimator, NEIGHBOURS)
    found = control_flow(estimator, NEIGHBOURS, recorded=recorded)
    assert found.passed, found
    assert "questions" in found.text
    found = hidden_inputs(estimator, NEIGHBOURS, recorded=recorded)
    assert found.passed, found


def test_classes_on_one_budget_do_the_same_on_neighbours():
    three = np.arange(len(Y)) % 3
    other = three.copy()
    other[-1] = 0
    for solver in ("agd", "outpert"):
        estimator = logistic(solver, classes=[0, 1, 2], epsilon=10.0)
        pair = ((X, three), (NEIGHBOURS[1][0], other))
        recorded = fit_both(estimator, pair)
        assert control_flow(estimator, pair, recorded=recorded).passed
        assert hidden_inputs(estimator, pair, recorded=recorded).passed


@pytest.mark.parametrize("bug", FLOWS)
def test_steps_that_depend_on_rows_are_seen(bug):
    found = control_flow(planted(bug), NEIGHBOURS)
    assert not found.passed
    assert "covered by the budget" in found.text


@pytest.mark.parametrize("bug", OUTPUTS)
def test_outputs_that_depend_on_rows_directly_are_seen(bug):
    assert control_flow(planted(bug), NEIGHBOURS).passed
    found = hidden_inputs(planted(bug), NEIGHBOURS)
    assert not found.passed
    assert {"weights": "coef_", "trace": "trace_"}[bug] in found.text


@pytest.mark.parametrize("bug", MESSAGES)
def test_a_leak_in_words_is_no_matter_of_flow_but_of_messages(bug):
    assert control_flow(planted(bug), NEIGHBOURS).passed
    assert not messages(planted(bug), NEIGHBOURS).passed


class Drawing(BaseEstimator):
    """Not one of ours: noise from a random state, more of it where a row is long."""

    def __init__(self, bug="", random_state=None):
        self.bug = bug
        self.random_state = random_state

    def fit(self, X, y):
        largest = np.abs(X).max()
        scale = largest if self.bug == "scale" else 1.0
        self.coef_ = self.random_state.laplace(X.mean(axis=0), scale)
        if self.bug == "count" and largest > 1:
            self.coef_ += self.random_state.normal(size=self.coef_.size)
        return self


def test_draws_of_others_are_compared():
    long = X.copy()
    long[-1] = 5.0
    pair = ((X, Y), (long, Y))
    assert control_flow(Drawing(), pair).passed
    assert not control_flow(Drawing("scale"), pair).passed
    assert not control_flow(Drawing("count"), pair).passed
    assert hidden_inputs(Drawing(), pair) is None


def test_who_draws_unseen_is_not_checked():
    found = control_flow(Noisy(), NEIGHBOURS)
    assert found.passed
    assert "Not checked" in found.text


def test_a_fit_that_fails_anyway_shows_nothing():
    refused = logistic("gd", data_norm=-1.0)
    for check in (control_flow, hidden_inputs):
        with pytest.raises(ValueError, match="data_norm"):
            check(refused, NEIGHBOURS)


def test_first_difference():
    assert first_difference(["a", "b"], ["a", "b"]) is None
    assert first_difference(["a", "b"], ["a"]) == (1, "b", "(nothing)")
