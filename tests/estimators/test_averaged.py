"""A cell that no row of the fit carried is scored as the average, whatever the model."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from discreet import (
    Budget,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    load,
    save,
)
from discreet.errors import AveragedCellsWarning
from discreet.estimators.scoring import score_classifier
from discreet.solvers import Newton

RNG = np.random.default_rng(3)
N = 20_000
WARD = RNG.choice(4, size=N, p=[0.5, 0.3, 0.15, 0.05])
NUMBERS = RNG.normal(size=(N, 4))
EMPTY = [8, 9]
X = np.column_stack([NUMBERS, WARD[:, None] == np.arange(4), np.zeros((N, 2))]).astype(float)
SCORE = NUMBERS @ [0.8, -0.5, 0.3, 0.0] + np.array([0.0, 0.4, -0.4, 0.8])[WARD]
LABEL = (SCORE + RNG.logistic(size=N) > 0.2).astype(int)
MODELS = {
    "logistic": (LogisticRegression, {"classes": [0, 1]}, LABEL),
    "three classes": (LogisticRegression, {"classes": [0, 1, 2]}, LABEL + (NUMBERS[:, 2] > 0.5)),
    "svm": (LinearSVC, {"classes": [0, 1]}, LABEL),
    "numbers": (LinearRegression, {"target_bounds": (-5, 5)}, SCORE + RNG.normal(size=N)),
    "counts": (PoissonRegressor, {"target_bounds": (0, 10)}, RNG.poisson(np.exp(SCORE / 3))),
}


def fitted(kind, epsilon, seed):
    model, settings, y = MODELS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model(epsilon=epsilon, delta=1e-6, random_state=seed, **settings).fit(X, y)


@pytest.mark.parametrize("epsilon", [1.0, 10.0])
@pytest.mark.parametrize("kind", MODELS)
def test_columns_that_no_row_carries_have_no_say(kind, epsilon):
    """With seeded noise. Without the rule, weights of 1 to 10 in most of these fits."""
    sizes = [np.abs(fitted(kind, epsilon, seed).coef_[..., EMPTY]).max() for seed in range(6)]
    assert np.max(sizes) == 0.0


@pytest.mark.parametrize("kind", ["logistic", "numbers"])
def test_columns_that_rows_carry_keep_their_weights(kind):
    """The rarest has 5 % of the rows; 0.9 less than the most frequent one's without privacy."""
    for seed in range(6):
        coef = fitted(kind, 1.0, seed).coef_.reshape(-1)
        assert np.count_nonzero(coef) == 8
        assert coef[7] - coef[4] == pytest.approx(0.8, abs=0.5)


@pytest.mark.parametrize("kind", MODELS)
def test_weights_of_wards_have_no_common_part(kind):
    """It would be the score of a row of no ward, and it is noise: every row has one of them."""
    for seed in range(6):
        coef = fitted(kind, 1.0, seed).coef_.reshape(-1, 10)[:, 4:8]
        middle = np.abs(coef.mean(axis=1) / np.ptp(coef, axis=1)).max()
        assert middle < 0.5


def new_rows(form):
    rows = X[:50].copy()
    rows[:3, 8] = 1.0
    rows[7, 9] = -2.0
    return form(rows)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_predictions_say_how_many_cells_they_averaged(form):
    model = fitted("logistic", 1.0, 0)
    for predict in (model.predict, model.predict_proba, model.decision_function):
        with pytest.warns(AveragedCellsWarning, match=r"^4 cells do not .* noise: x8, x9\.$"):
            with_cells = predict(new_rows(form))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            without = predict(form(X[:50]))
        np.testing.assert_array_equal(with_cells, without)


def test_a_saved_model_says_so_too(tmp_path):
    save(fitted("numbers", 1.0, 0), tmp_path / "model.json")
    model = load(tmp_path / "model.json")
    with pytest.warns(AveragedCellsWarning, match="4 cells"):
        model.predict(new_rows(np.asarray))


def test_names_are_named_and_few():
    wide = np.column_stack([X[:, :8], np.zeros((N, 7))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(1.0, 1e-6, classes=[0, 1], random_state=0).fit(wide, LABEL)
    new = wide[:2].copy()
    new[:, 8] = 1.0
    with pytest.warns(AveragedCellsWarning, match=r"x8, .* and 2 more\.") as caught:
        model.predict(new)
    assert caught[0].filename == __file__


def test_nothing_is_said_about_private_rows():
    """A score is paid for; the number of averaged cells in its rows is not."""
    model = fitted("logistic", 1.0, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", AveragedCellsWarning)
        score_classifier(model, new_rows(np.asarray), LABEL[:50], Budget(1.0, 0.0, "add_remove"))


def test_a_constant_model_averages_all_and_says_nothing():
    with pytest.warns(UserWarning, match="All coefficients are 0"):
        model = LogisticRegression(0.01, 1e-6, classes=[0, 1]).fit(X[:300], LABEL[:300])
    assert not model.coef_.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(new_rows(np.asarray))


def test_a_fit_without_a_preparation_is_taken_as_it_is():
    """Newton's own moment, of rows that nothing but a public bound is known of."""
    model = LinearRegression(1.0, 1e-6, target_bounds=(-5, 5), data_norm=6.0, random_state=0)
    model.set_params(solver=Newton(shrink=True)).fit(X, MODELS["numbers"][2])
    assert model.preparation_ == ()
    assert model.coef_[0] == pytest.approx(0.8, abs=0.1)
