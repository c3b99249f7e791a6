"""One fit with many canaries: ours keeps its promise, and what does not is found out at once."""

import json
import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression as Plain
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from discreet import LinearRegression, LinearSVC, LogisticRegression
from discreet.audit import Verdict, audit_one_run
from discreet.audit.one_run import _right

from .internals import SeededBits

rng = np.random.default_rng(0)
N = 2000
X = rng.uniform(-1, 1, size=(N, 4))
SCORE = X @ [1.0, -2.0, 0.5, 0.0] + 0.2
Y = np.where(SCORE > 0, "yes", "no")
THREE = np.digitize(SCORE, [-0.5, 0.8])

pytestmark = pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyLeakWarning")


class TooLittleNoise(LogisticRegression):
    """Claims its ε, and fits with ten times as much."""

    def fit(self, X, y):
        truth = {**self.get_params(), "epsilon": 10 * self.epsilon}
        self.coef_ = LogisticRegression(**truth).fit(X, y).coef_
        return self


class Recorder(BaseEstimator):
    """Keeps the table it was fitted on; its weights are given by a function of table and target."""

    def __init__(self, weights=None, fit_intercept=True):
        self.weights = weights
        self.fit_intercept = fit_intercept

    seen = None

    def fit(self, X, y):
        Recorder.seen = (X, y, self.fit_intercept)
        self.coef_ = np.zeros(X.shape[1]) if self.weights is None else self.weights(X, y)
        return self


def audit(model, y=Y, **settings):
    return audit_one_run(model, X, y, **{"seed": 1, **settings})


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("solver", ["auto", "gd", "agd", "objpert", "outpert", "sgd"])
def test_our_solvers_keep_their_promise(solver, relation):
    norm = None if solver == "auto" else 1.0
    model = LogisticRegression(
        4.0, 1e-5, relation=relation, solver=solver, data_norm=norm, alpha=1e-2, random_state=0
    )
    found = audit(model, canaries=500)
    assert found.verdict is not Verdict.REFUTED
    assert found.relation == relation
    assert solver in found.subject
    assert 0 <= found.epsilon_bound < 2.5


def test_other_models_keep_their_promise():
    for model, target in (
        (LogisticRegression(4.0, 1e-5, random_state=0), THREE),
        (LogisticRegression(4.0, 1e-5, solver="agd", random_state=0), THREE),
        (LinearSVC(4.0, 1e-5, solver="gd", random_state=0), Y),
        (LinearRegression(4.0, 1e-5, solver="gd", target_bounds=(-4, 4), random_state=0), SCORE),
    ):
        found = audit(model, target, canaries=500)
        assert found.verdict is not Verdict.REFUTED
        assert found.epsilon_bound < 2.5


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_much_of_what_descent_gives_away_is_seen(relation):
    """A Gaussian of ε = 8 at δ = 1e-5 has μ = 1.66, and descent is no worse than that."""
    model = LogisticRegression(8.0, 1e-5, solver="gd", relation=relation, random_state=0)
    found = audit(model, canaries=3000)
    assert 1.4 < found.epsilon_bound < 4
    assert 0.9 < found.mu_bound < 1.67
    assert found.epsilon_if_gaussian < 8


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_a_tenth_of_the_noise_is_refuted(relation):
    model = TooLittleNoise(1.0, 1e-5, solver="gd", relation=relation, random_state=0)
    honest = LogisticRegression(1.0, 1e-5, solver="gd", relation=relation, random_state=0)
    found = audit(model, canaries=3000)
    assert found.verdict is Verdict.REFUTED
    assert found.epsilon_bound > 1.3
    assert "refuted" in str(found)
    assert audit(honest, canaries=3000).verdict is not Verdict.REFUTED


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("model", [Plain(), Ridge()])
def test_no_noise_is_refuted(model, relation):
    target = SCORE if isinstance(model, Ridge) else Y
    found = audit(model, target, epsilon=4.0, delta=1e-6, relation=relation)
    assert found.verdict is Verdict.REFUTED
    assert found.correct == found.guesses == 1000
    assert found.epsilon_bound == pytest.approx(4.87, abs=0.05)


def test_sparse_tables_and_dense_ones():
    for table in (X, sp.csr_matrix(X), sp.csr_array(X)):
        for sparse_table in (True, False):
            found = audit_one_run(
                Plain(), table, Y, epsilon=1, delta=0, canaries=200, sparse_table=sparse_table
            )
            assert found.verdict is Verdict.REFUTED


def test_under_add_remove_an_absent_canary_is_a_row_of_zeros():
    audit(Recorder(), epsilon=1, delta=0, canaries=50)
    table, target, intercept = Recorder.seen
    coins = (SeededBits(1).words(50) >> np.uint64(63)).astype(bool)
    assert not intercept
    assert table.shape == (N + 50, 4 + 50)
    np.testing.assert_array_equal(table[:N, :4].toarray(), X)
    assert table[:N, 4:].nnz == table[N:, :4].nnz == 0
    np.testing.assert_array_equal(table[N:, 4:].toarray(), np.diag(5.0 * coins))
    np.testing.assert_array_equal(target[:N], Y)
    np.testing.assert_array_equal(target[N:], ["no", "yes"] * 25)  # whatever the coins say
    assert 10 < coins.sum() < 40


def test_under_replace_a_coin_is_a_label():
    audit(Recorder(), epsilon=1, delta=0, canaries=50, relation="replace_one", norm=3.0)
    table, target, intercept = Recorder.seen
    coins = (SeededBits(1).words(50) >> np.uint64(63)).astype(bool)
    assert intercept
    np.testing.assert_array_equal(table[N:, 4:].toarray(), np.diag(np.full(50, 3.0)))
    np.testing.assert_array_equal(target[N:], np.where(coins, "yes", "no"))


def test_coins_are_fresh_unless_they_are_fixed():
    tables = []
    for seed in (None, None, 3, 3):
        audit(Recorder(), epsilon=1, delta=0, canaries=100, seed=seed)
        tables.append(Recorder.seen[0].toarray())
    assert np.any(tables[0] != tables[1])  # alike with probability 2^-100
    assert np.all(tables[2] == tables[3])


def test_canaries_have_the_norm_of_the_bound_or_exceed_the_clip():
    long = 100 * X
    for model, rows, length in (
        (LogisticRegression(4.0, 1e-5, solver="gd", data_norm=0.7), X, 0.7),
        (LogisticRegression(4.0, 1e-5, solver="gd"), X, 5.0),
        (LogisticRegression(4.0, 1e-5, solver="gd"), long, None),
    ):
        recorder = Recorder()
        recorder.data_norm = model.data_norm
        audit_one_run(recorder, rows, Y, epsilon=1, delta=0, canaries=20)
        expected = length or 2 * np.median(np.linalg.norm(long, axis=1))
        assert Recorder.seen[0][N:].max() == pytest.approx(expected)


def test_a_model_that_says_nothing_is_too_weak_to_tell():
    found = audit(Recorder(), epsilon=1, delta=1e-6)
    assert found.verdict is Verdict.TOO_WEAK
    assert found.epsilon_bound == found.mu_bound == found.epsilon_if_gaussian == 0
    assert "canaries would be enough" in str(found)
    broken = Recorder(lambda X, y: np.full(X.shape[1], np.nan))
    assert audit(broken, epsilon=1, delta=1e-6).epsilon_bound == 0


def test_a_coin_for_each_canary_is_consistent_with_its_epsilon():
    """Randomised response on every canary, with no δ: as sharp as an audit can be."""

    def answers(table, target):
        flips = np.random.default_rng(5).random(table.shape[1]) < 1 / (1 + math.exp(1.0))
        inside = np.asarray(table[N:].sum(axis=0)).ravel() > 0
        signs = np.concatenate([np.ones(4), np.where(np.arange(2000) % 2, 1.0, -1.0)])
        return signs * np.where(inside ^ flips, 1.0, 0.0)

    found = audit(Recorder(answers), epsilon=1.0, delta=0.0, canaries=2000)
    assert found.verdict is Verdict.CONSISTENT
    assert 0.7 < found.epsilon_bound <= 1
    assert found.epsilon_if_gaussian == math.inf
    assert audit(Recorder(answers), epsilon=0.5, delta=0.0, canaries=2000).verdict is (
        Verdict.REFUTED
    )


def test_it_can_be_written_down():
    found = audit(Plain(), epsilon=1.0, delta=1e-5, canaries=200, guesses=100)
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["guesses"] == plain["correct"] == found.guesses == 100
    assert plain["trials"] == 200
    assert plain["verdict"] == "refuted"
    assert (found.curve[0].fpr, found.curve[-1].tpr) == (0, 1)
    assert any(point.tpr == 1 and point.fpr == 0 for point in found.curve)
    assert "one run with 200 canaries: 100 of 100 guesses were correct" in str(found)


def test_guesses_are_the_scores_far_from_the_middle():
    scores = np.array([-5.0, 0.1, 4.0, -0.1, 6.0, -4.5])
    coins = np.array([False, False, True, True, True, True])
    assert _right(scores, coins, 2) == 2
    assert _right(scores, coins, 4) == 3
    assert _right(scores, coins, 6) == 3
    assert _right(np.zeros(6), coins, 4) == 2  # a tie: all are guessed to be out


def test_the_caller_is_told_what_is_missing():
    for model, settings, words in (
        (Plain(), {}, "pass the guarantee"),
        (Plain(), {"epsilon": -1.0, "delta": 0.0}, "epsilon must be a finite number"),
        (Plain(), {"epsilon": 1.0, "delta": 1.0}, "delta"),
        (Plain(), {"epsilon": 1.0, "delta": 0.0, "relation": "other"}, "relation"),
        (
            Plain(),
            {"epsilon": 1.0, "delta": 0.0, "canaries": 5},
            "an integer from 10",
        ),
        (Plain(), {"epsilon": 1.0, "delta": 0.0, "guesses": 5000}, "guesses must be"),
        (Plain(), {"epsilon": 1.0, "delta": 0.0, "confidence": 1.0}, "confidence"),
        (Recorder(lambda X, y: np.zeros(3)), {"epsilon": 1.0, "delta": 0.0}, "not a pipeline"),
    ):
        with pytest.raises(ValueError, match=words):
            audit(model, **settings)
    with pytest.raises(AttributeError):
        audit(make_pipeline(Plain()), epsilon=1.0, delta=0.0)


def test_the_callers_estimator_stays_as_it_was():
    model = LogisticRegression(1.0, 1e-5, solver="gd", random_state=0)
    before = model.get_params()
    audit(model, canaries=50)
    assert model.get_params() == before
    assert not hasattr(model, "coef_")
