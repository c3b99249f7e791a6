"""Private scores: computed row by row, released with noise for one row's part in them."""

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from discreet import Ledger, LinearRegression, LinearSVC, LogisticRegression, OrdinalClassifier
from discreet.core import Budget
from discreet.errors import BudgetExceeded
from discreet.estimators.scoring import (
    row_scores,
    score_classifier,
    score_histogram,
    score_regressor,
)
from discreet.preparation import Bounds, Centre, FeatureMap, Radius, Scale, Spread, Whiten, pipeline

TRUTH = np.repeat([0, 1, 1], [600, 300, 100])
PREDICTED = np.repeat([0, 1, 0], [600, 300, 100])


def model_of(kind, coef, intercept, **attributes):
    """A fitted model with these coefficients."""
    model = kind()
    model.coef_, model.intercept_ = np.asarray(coef, dtype=float), intercept
    model.n_features_in_ = model.coef_.shape[-1]
    model.features_ = FeatureMap()
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


CLASSIFIER = model_of(LinearSVC, [[1.0]], np.zeros(1), classes_=np.array([0, 1]))
REGRESSOR = model_of(LinearRegression, [1.0], 0.0)


def classes(truth, predicted, budget=None, ledger=None):
    """Scores of a classifier with these predictions."""
    X = np.where(predicted, 1.0, -1.0)[:, None]
    return score_classifier(CLASSIFIER, X, truth, budget, ledger)


def numbers(truth, predicted, bounds, budget=None):
    """Scores of a regressor with these predictions."""
    return score_regressor(REGRESSOR, predicted[:, None], truth, bounds, budget)


def test_exact_scores_are_those_of_the_counts():
    scores = classes(TRUTH, PREDICTED)
    assert scores.guarantee is None
    assert scores.labels == (0, 1)
    assert scores.counts.tolist() == [[600, 0], [100, 300]]
    assert scores.accuracy == pytest.approx(0.9)
    assert scores.recalls == pytest.approx((1.0, 0.75))
    assert scores.balanced_accuracy == pytest.approx(0.875)


@pytest.mark.parametrize(("relation", "scale"), [("add_remove", 1.0), ("replace_one", 2.0)])
def test_noise_on_counts_has_the_scale_of_the_relation(relation, scale):
    # The mean of 400 |noise| of mean 1 has standard deviation 0.05: six of them are 0.3, which a
    # wrong factor of two exceeds. The chance of a false alarm is below 1e-6.
    budget = Budget(1.0, 0.0, relation)
    noise = []
    for _ in range(100):
        counts = classes(TRUTH, TRUTH, budget).counts
        noise += [counts[0, 0] - 600, counts[1, 1] - 400]
        other = classes(TRUTH, 1 - TRUTH, budget).counts
        noise += [other[0, 1] - 600, other[1, 0] - 400]
    assert np.mean(np.abs(noise)) / scale == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_noise_on_errors_has_the_scale_of_two_sums(relation):
    # One row moves both sums by 1, so |noise| has mean 2/ε. The mean of 400 of them has standard
    # deviation 0.1/ε: six of them are below 1/ε. The chance of a false alarm is below 1e-6.
    budget, n = Budget(1.0, 0.0, relation), 1000
    noise = []
    for _ in range(200):
        scores = numbers(np.zeros(n), np.full(n, 5.0), (0.0, 10.0), budget)
        noise.append(scores.mean_absolute_error / 10 * n - 0.5 * n)
        noise.append((scores.root_mean_squared_error / 10) ** 2 * n - 0.25 * n)
    assert np.mean(np.abs(noise)) == pytest.approx(2.0, abs=0.6)


def test_noisy_counts_are_not_negative():
    budget = Budget(0.01, 0.0, "add_remove")
    for _ in range(20):
        assert classes(TRUTH, PREDICTED, budget).counts.min() >= 0
    none = classes(np.zeros(5, int), np.zeros(5, int))
    assert np.isnan(none.recalls[1])  # a class without rows has no recall
    assert none.balanced_accuracy == 1.0


def test_the_guarantee_is_pure_and_a_ledger_counts_it():
    spent = Ledger().create("rows", limit=Budget(0.5, 1e-6, "add_remove"))
    scores = classes(TRUTH, PREDICTED, Budget(0.02, 0.0, "add_remove"), spent)
    assert (scores.guarantee.epsilon, scores.guarantee.delta) == (0.02, 0.0)
    (use,) = scores.guarantee.mechanisms
    assert (use.mechanism.name, use.mechanism.epsilon, use.count) == ("laplace", 0.02, 1)
    assert scores.guarantee.secure
    assert spent.entries == 1
    with pytest.raises(BudgetExceeded):
        classes(TRUTH, PREDICTED, Budget(5.0, 0.0, "add_remove"), spent)


def test_unknown_labels_are_refused_without_showing_them():
    with pytest.raises(ValueError, match="not in classes") as caught:
        classes(np.full(1000, 77), PREDICTED)
    assert "77" not in str(caught.value)


BUDGET = Budget(0.1, 0.0, "add_remove")
ROWS = np.ones((1000, 1))
EDGES = np.array([-1.0, 0.0, 1.0])
BAD = {
    "labels": (lambda own: score_classifier(CLASSIFIER, ROWS, np.full(1000, 77), **own), "77"),
    "texts": (lambda own: score_classifier(CLASSIFIER, ROWS, ["ill"] * 1000, **own), "ill"),
    "objects": (
        lambda own: score_classifier(CLASSIFIER, ROWS, np.array([0, "ill"] * 500, object), **own),
        "ill",
    ),
    "histogram": (
        lambda own: score_histogram(CLASSIFIER, ROWS, np.full(1000, 77), EDGES, **own),
        "77",
    ),
    "numbers": (lambda own: score_regressor(REGRESSOR, ROWS, ["ill"] * 1000, (0, 1), **own), "ill"),
    "too few": (lambda own: score_classifier(CLASSIFIER, ROWS, TRUTH[:777], **own), "none"),
    "a column": (lambda own: score_classifier(CLASSIFIER, ROWS, TRUTH[:, None], **own), "none"),
    "too few numbers": (lambda own: score_regressor(REGRESSOR, ROWS, [0.7], (0, 1), **own), "0.7"),
    "rows": (lambda own: score_classifier(CLASSIFIER, np.full((1000, 2), 77), TRUTH, **own), "77"),
    "bounds": (lambda own: score_regressor(REGRESSOR, ROWS, TRUTH, (1, 1), **own), "none"),
}


@pytest.mark.parametrize("name", BAD)
def test_nothing_is_charged_for_targets_and_rows_that_are_refused(name):
    ask, secret = BAD[name]
    spent = Ledger().create("rows", limit=Budget(0.5, 1e-6, "add_remove"))
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (the texts differ)
        ask({"budget": BUDGET, "ledger": spent})
    assert secret not in str(caught.value)
    assert spent.records() == []


@pytest.mark.parametrize("as_objects", [False, True])
def test_classes_in_an_order_of_their_own_are_compared_as_labels(as_objects):
    names = np.array(["low", "mid", "high"])
    rng = np.random.default_rng(7)
    X = rng.normal(size=(900, 2))
    codes = np.digitize(X[:, 0] + 0.3 * rng.normal(size=900), [-0.5, 0.5])
    model = OrdinalClassifier(4.0, 1e-6, classes=names, data_norm=3.0).fit(X, names[codes])
    truth = names[codes].astype(object) if as_objects else names[codes]
    right = model.predict(X) == names[codes]
    found = score_classifier(model, X, truth)
    assert found.labels == ("low", "mid", "high")
    assert found.accuracy == pytest.approx(right.mean())
    assert found.recalls == pytest.approx([right[codes == k].mean() for k in range(3)])
    noisy = score_classifier(model, X, truth, Budget(10.0, 0.0, "add_remove"))
    # nine counts with Laplace noise of scale 1/10: off by 45 in all with chance below 1e-150
    assert noisy.accuracy == pytest.approx(right.mean(), abs=0.05)


# People: a person's rows have weights that add up to at most 1.


def test_counts_and_sums_are_weighted_by_person():
    """Three people of 1, 2 and 4 rows, all of whose predictions are wrong by 1."""
    ids = np.array([1, 2, 2, 3, 3, 3, 3])
    X, truth = np.ones((7, 1)), np.zeros(7)
    found = score_classifier(CLASSIFIER, X, truth.astype(int), groups=ids)
    assert found.counts.tolist() == [[0, 3], [0, 0]]
    errors = score_regressor(REGRESSOR, X, truth, (0.0, 1.0), groups=ids)
    assert errors.mean_absolute_error == 1.0
    own = score_regressor(REGRESSOR, X[3:], truth[3:], (0.0, 4.0), groups=np.array([1, 2, 2, 2]))
    assert own.mean_absolute_error == pytest.approx(1.0, abs=1e-8)


def test_terms_of_a_person_are_rounded_down():
    """4096 rows of weight 2^18 steps each: 0.7 of it is 183,500.8 steps, of which 183,500 count."""
    ids = np.append(np.zeros(4096, dtype=int), [1])
    X, truth = np.append(np.full(4096, 0.7), 0.0)[:, None], np.zeros(4097)
    scores = score_regressor(REGRESSOR, X, truth, (0.0, 1.0), groups=ids)
    assert scores.mean_absolute_error * 2 == 183_500 / 2**18


def test_errors_of_numbers_are_clipped_to_the_bounds():
    truth = np.array([0.0, 5.0, 10.0, 1e9])
    predicted = np.array([-1e9, 5.0, 4.0, 10.0])
    scores = numbers(truth, predicted, (0.0, 10.0))
    assert scores.mean_absolute_error == pytest.approx(6 / 4)
    assert scores.root_mean_squared_error == pytest.approx(3.0)


def test_sums_move_by_no_more_than_one_row_may_move_them():
    # Floating sums of the same rows differ by the position of a row; these must not.
    rng = np.random.default_rng(0)
    truth, predicted = rng.random(100_001), rng.random(100_001)
    truth[500], predicted[500] = 0.0, 1.0
    with_row = numbers(truth, predicted, (0.0, 1.0))
    rest = np.delete(np.arange(len(truth)), 500)
    without = numbers(truth[rest], predicted[rest], (0.0, 1.0))
    n = len(truth)
    moved = with_row.mean_absolute_error * n - without.mean_absolute_error * (n - 1)
    assert moved == pytest.approx(1.0, abs=1e-9)
    odd = numbers(np.array([np.nan, 0.5]), np.array([0.5, 0.5]), (0.0, 1.0))
    assert odd.mean_absolute_error == 0.5


def test_noisy_errors_of_many_rows_are_near_the_exact_ones():
    # Laplace noise of scale 2 on sums over 100,000 rows: off by more than 60 with chance e^-30.
    rng = np.random.default_rng(0)
    truth = rng.uniform(0, 10, 100_000)
    predicted = truth + 1.0
    exact = numbers(truth, predicted, (0.0, 10.0))
    noisy = numbers(truth, predicted, (0.0, 10.0), Budget(1.0, 0.0, "replace_one"))
    assert noisy.mean_absolute_error == pytest.approx(exact.mean_absolute_error, abs=0.006)
    assert noisy.guarantee.epsilon == 1.0


# A row's score depends on that row alone.

D = 37
WEIGHTS = np.random.default_rng(1).normal(size=(1, D))


def at_a_tie(seed):
    """A row whose score is 0 up to rounding."""
    row = np.random.default_rng(seed).normal(size=D)
    row[-1] = -(row[:-1] @ WEIGHTS[0, :-1]) / WEIGHTS[0, -1]
    return row


def test_one_row_more_at_a_tie_moves_one_count_by_one():
    """The attack: matrix products round equal rows by their position, and so flip several."""
    model = model_of(LinearSVC, WEIGHTS, np.zeros(1), classes_=np.array([0, 1]))
    blas_moved = 0
    for seed in range(40):
        row, counts, by_blas = at_a_tie(seed), [], []
        for n in (1003, 1004):
            X, y = np.tile(row, (n, 1)), np.zeros(n, dtype=int)
            counts.append(score_classifier(model, X, y).counts)
            by_blas.append(np.bincount(model.predict(X), minlength=2))
        assert np.abs(counts[1] - counts[0]).sum() == 1
        blas_moved = max(blas_moved, np.abs(by_blas[1] - by_blas[0]).sum())
    if blas_moved <= 1:
        pytest.skip("this BLAS rounds a row the same at every position; the attack has no target")


LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "float32": lambda X: X.astype(np.float32),
    "F float32": lambda X: np.asfortranarray(X, dtype=np.float32),
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "csr": sp.csr_array,
    "csr float32": lambda X: sp.csr_array(X.astype(np.float32)),
}
MODELS = {
    "plain": {},
    "clipped": {"data_norm": 3.0, "solver": "agd"},
    "affine": {"preparation": [Radius(), Centre(), Scale(), Whiten()], "solver": "gd"},
    "bounds": {"preparation": [Bounds([1, 5]), Radius(), Spread(), Centre()], "solver": "gd"},
    "not affine": {
        "preparation": [Scale(), Centre(), Radius()],
        "data_norm": 9.0,
        "solver": "outpert",
    },
}


@pytest.fixture(scope="module")
def fitted():
    X = np.random.default_rng(2).normal(size=(400, D))
    y = np.arange(400) % 2
    return {
        name: LogisticRegression(4.0, 1e-6, classes=[0, 1], **settings).fit(X, y)
        for name, settings in MODELS.items()
    }


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_equal_rows_have_equal_scores(name, layout, fitted, monkeypatch):
    monkeypatch.setattr(pipeline, "BLOCK_ENTRIES", 12 * D)  # several blocks, cut by n
    model, form = fitted[name], LAYOUTS[layout]
    row, other = np.random.default_rng(3).normal(size=(2, D))
    (alone,) = row_scores(model, form(row[None, :]))
    for n in (2, 3, 4, 7, 12, 13, 24, 25, 31):
        scores = row_scores(model, form(np.tile(row, (n, 1))))
        assert (scores == alone).all()
        mixed = np.tile(other, (n, 1))
        mixed[n // 2] = row
        assert (row_scores(model, form(mixed))[n // 2] == alone).all()


def test_one_kernel_serves_all_blocks_of_a_table(fitted, monkeypatch):
    """Slices of a column-major table are contiguous or not, depending on the number of rows."""
    made, seen = pipeline.as_rows, []

    def spied(X, *args, **settings):
        seen.append(X.flags.c_contiguous)
        return made(X, *args, **settings)

    monkeypatch.setattr(pipeline, "as_rows", spied)
    X = np.asfortranarray(np.random.default_rng(6).normal(size=(30, D)))
    for blocks in (1, 3):
        monkeypatch.setattr(pipeline, "BLOCK_ENTRIES", 30 // blocks * D)
        row_scores(fitted["affine"], X)
    assert len(seen) == 4
    assert all(seen)


def test_scores_do_not_depend_on_threads(fitted, monkeypatch):
    X = np.random.default_rng(4).normal(size=(30_000, D))
    found = []
    for count in (1, 2, 3):
        monkeypatch.setenv("OMP_NUM_THREADS", str(count))
        with threadpool_limits(count):
            found.append(row_scores(fitted["affine"], X))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_scores_are_those_of_predict(fitted):
    X = np.random.default_rng(5).normal(size=(500, D))
    for model in fitted.values():
        for form in (np.asarray, sp.csr_array):
            scores = model.decision_function(form(X))
            assert row_scores(model, form(X))[:, 0] == pytest.approx(scores, rel=1e-9, abs=1e-9)
    y = np.arange(500) % 3
    several = LogisticRegression(4.0, 1e-6, classes=[0, 1, 2]).fit(X, y)
    assert row_scores(several, X) == pytest.approx(several.decision_function(X), rel=1e-9)
    assert score_classifier(several, X, y).accuracy == pytest.approx(several.score(X, y))
    line = LinearRegression(4.0, 1e-6, target_bounds=(-1, 1)).fit(X, np.tanh(X[:, 0]))
    error = np.abs(np.tanh(X[:, 0]) - line.predict(X)).mean()
    scores = score_regressor(line, X, np.tanh(X[:, 0]), (-1.0, 1.0))
    assert scores.mean_absolute_error == pytest.approx(error, abs=1e-5)
