import itertools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from discreet import (
    AGD,
    Ledger,
    LinearSVC,
    LogisticRegression,
    NotSupported,
    PrivacyError,
    PrivacyLeakWarning,
)
from discreet.core import Gaussian
from discreet.core.questions import RowSum
from discreet.solvers import AMP, GD

CLASSIFIERS = [LogisticRegression, LinearSVC]


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(classes=["no", "yes"]),
        LinearSVC(classes=["no", "yes"]),
        LinearSVC(loss="hinge", classes=["no", "yes"]),
    ],
    ids=repr,
)
@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_secure_fits_say_what_they_promise(model, relation, binary):
    X, y = binary
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a careful caller sees no warning at all
        fitted = clone(model).set_params(relation=relation, epsilon=4.0).fit(X, y)
    assert fitted.guarantee_.epsilon == 4.0
    assert str(fitted.guarantee_.relation) == relation
    assert fitted.guarantee_.secure
    assert "the class labels" in fitted.guarantee_.public
    assert fitted.coef_.shape == (1, 6)
    assert fitted.intercept_.shape == (1,)
    assert len(fitted.trace_) > 1
    with pytest.warns(PrivacyLeakWarning, match="test mode"):
        seeded = clone(fitted).set_params(random_state=0).fit(X, y)
    assert seeded.score(X, y) > 0.85


def test_two_secure_fits_differ_and_two_seeded_ones_do_not(binary):
    X, y = binary
    model = LogisticRegression(classes=["no", "yes"])
    assert not np.array_equal(clone(model).fit(X, y).coef_, clone(model).fit(X, y).coef_)
    model.set_params(random_state=7)
    with pytest.warns(PrivacyLeakWarning, match="test mode, not private"):
        first = clone(model).fit(X, y)
    with pytest.warns(PrivacyLeakWarning):
        second = clone(model).fit(X, y)
    assert np.array_equal(first.coef_, second.coef_)
    assert first.guarantee_.numeric == "test mode, not private"
    assert "NOT PRIVATE" in str(first.guarantee_)


def test_labels_taken_from_y_warn(binary):
    X, y = binary
    with pytest.warns(PrivacyLeakWarning, match="classes="):
        LogisticRegression().fit(X, y)


@pytest.mark.parametrize("Classifier", CLASSIFIERS)
def test_one_vs_rest_shares_one_budget(Classifier, three_classes):
    X, y = three_classes
    with pytest.warns(PrivacyLeakWarning, match="test mode"):
        model = Classifier(epsilon=3.0, classes=[0, 1, 2], solver="agd", random_state=0).fit(X, y)
    assert model.coef_.shape == (3, 2)
    assert model.score(X, y) > 0.8
    charged = sum(u.count * u.mechanism.loss.rho for u in model.guarantee_.mechanisms)
    assert charged <= model.guarantee_.rho
    assert charged > 0.9 * model.guarantee_.rho
    assert {entry.model for entry in model.trace_} == {0, 1, 2}
    traced = sum(entry.rho_gradient + entry.rho_selection for entry in model.trace_)
    assert traced == pytest.approx(charged)
    assert model.decision_function(X).shape == (9000, 3)


def test_one_vs_rest_models_get_different_noise(three_classes):
    X, y = three_classes
    with pytest.warns(PrivacyLeakWarning):
        model = LogisticRegression(random_state=0, classes=[0, 1, 2]).fit(
            np.zeros_like(X), np.zeros_like(y)
        )
    # Classes 1 and 2 saw the same targets on the same rows: only their noise can differ.
    assert not np.array_equal(model.coef_[1], model.coef_[2])


def test_probabilities(binary, three_classes):
    cases = ((binary, ["no", "yes"]), (three_classes, [0, 1, 2]))
    for solver, ((X, y), classes) in itertools.product(("agd", "auto"), cases):
        model = LogisticRegression(classes=classes, solver=solver).fit(X, y)
        probability = model.predict_proba(X)
        assert probability.shape == (len(X), len(classes))
        np.testing.assert_allclose(probability.sum(axis=1), 1)
        assert np.array_equal(model.classes_[probability.argmax(axis=1)], model.predict(X))
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), probability)
    extreme = LogisticRegression(classes=[0, 1, 2], solver="agd").fit(*three_classes)
    extreme.intercept_ = np.full(3, -1e6)
    np.testing.assert_allclose(extreme.predict_proba(three_classes[0][:2]), 1 / 3)


@pytest.mark.parametrize("form", ["float32", "fortran", "csr", "pandas", "polars", "list"])
def test_forms_of_input_agree(form, binary):
    X, y = binary
    made = {
        "float32": lambda: X.astype(np.float32),
        "fortran": lambda: np.asfortranarray(X),
        "csr": lambda: sp.csr_array(X),
        "pandas": lambda: pd.DataFrame(X, columns=list("abcdef")),
        "polars": lambda: pl.DataFrame(X, schema=list("abcdef")),
        "list": lambda: X.tolist(),
    }[form]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # the seed is on purpose
        base = LogisticRegression(random_state=3, classes=["no", "yes"]).fit(X, y)
        other = LogisticRegression(random_state=3, classes=["no", "yes"]).fit(made, y)
    if form in ("pandas", "polars"):  # tables with names have a window for each column
        assert other.feature_names_in_.tolist() == list("abcdef")
        assert other.score(made, y) > base.score(X, y) - 0.02
    else:
        np.testing.assert_allclose(other.coef_, base.coef_, atol=0.05)
        assert (other.predict(made) == base.predict(X)).mean() > 0.99


def test_data_norm_clips_rows_in_fit_and_predictions_stay_linear(binary):
    X, y = binary
    far = np.vstack([X, np.full((1, 6), 1e9)])
    model = LogisticRegression(data_norm=0.5, classes=["no", "yes"]).fit(far, [*y, "no"])
    assert "the bound 0.5 on a row's norm" in model.guarantee_.public
    np.testing.assert_allclose(
        model.decision_function(1000 * X[:5]), 1000 * X[:5] @ model.coef_[0] + model.intercept_
    )


def test_without_an_intercept(binary):
    X, y = binary
    model = LogisticRegression(fit_intercept=False, classes=["no", "yes"]).fit(X, y)
    assert model.intercept_.tolist() == [0.0]


def test_a_class_that_does_not_occur_is_fine(binary):
    X, y = binary
    model = LogisticRegression(classes=["no", "perhaps", "yes"]).fit(X, y)
    assert model.coef_.shape == (3, 6)


def test_fitting_reads_nothing_when_settings_are_wrong():
    class Untouchable:
        def __getattr__(self, name):
            raise AssertionError(f"read {name}")

    for settings, error, text in [
        ({"epsilon": 0}, ValueError, "epsilon"),
        ({"epsilon": float("inf")}, ValueError, "epsilon"),
        ({"delta": 1.0}, ValueError, "delta"),
        ({"delta": 0.0}, NotSupported, "delta > 0"),
        ({"relation": "swap"}, ValueError, "relation"),
        ({"solver": "agdd"}, ValueError, r"nearest first\): agd"),
        ({"solver": AGD(calibration="published", splits=1)}, ValueError, "splits="),
        ({"alpha": -1}, ValueError, "alpha"),
        ({"data_norm": 0.0}, ValueError, "data_norm"),
        ({"classes": [1]}, ValueError, "classes"),
        ({"classes": [1, 1, 2]}, ValueError, "classes"),
        ({"ledger": 3}, ValueError, "ledger"),
    ]:
        with pytest.raises(error, match=text):
            LogisticRegression(**settings).fit(Untouchable(), Untouchable())
    with pytest.raises(ValueError, match=r"nearest first\): hinge"):
        LinearSVC(loss="hinges").fit(Untouchable(), Untouchable())


@pytest.mark.parametrize(
    ("X", "y", "text"),
    [
        (np.ones((4, 2)), [0, 0, 0, 0], "one class"),
        (np.ones((4, 2)), [0, 1, 0], "inconsistent numbers of samples"),
        (np.array([[1.0, np.nan], [1.0, 2.0]]), [0, 1], "NaN"),
        (np.array([[1.0, np.inf], [1.0, 2.0]]), [0, 1], "infin"),
        (np.empty((0, 2)), [], "0 sample"),
        (np.ones((4, 2)), [0, 1, 2, np.nan], "NaN"),
    ],
)
def test_bad_data(X, y, text):

    ledger = Ledger().create("rows")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # labels from y are on purpose
        with pytest.raises(ValueError, match=text):
            LogisticRegression(ledger=ledger).fit(X, y)
    assert ledger.entries == 0  # nothing was spent


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("read", [False, True])
def test_a_fit_that_is_stopped_closes_its_account(stop, read, binary, monkeypatch):
    """Ctrl-C before a row was read gives the charge back; after that, it stays."""
    curators = []

    def interrupted(self, problem, curator, plan, record):
        curator.open("gdp")
        curators.append(curator)
        if read:
            curator.ask(RowSum(curator.row_norm), Gaussian(1e3))
        raise stop

    monkeypatch.setattr(GD, "_solve", interrupted)
    ledger = Ledger().create("rows")
    model = LogisticRegression(
        1.0, 1e-6, classes=["no", "yes"], solver="gd", data_norm=1.0, ledger=ledger
    )
    with pytest.raises(stop):
        model.fit(*binary)
    (entry,) = ledger.records()
    assert entry["status"] == ("reserved" if read else "returned")
    with pytest.raises(PrivacyError, match="closed"):
        curators[0].ask(RowSum(curators[0].row_norm), Gaussian(1e3))
    assert not hasattr(model, "coef_")


def test_labels_outside_classes_are_refused_without_showing_them(binary):
    X, _ = binary
    y = np.array(["no", "yes", "a secret"])[np.arange(len(X)) % 3]
    with pytest.raises(ValueError, match="not in classes") as caught:
        LogisticRegression(classes=["no", "yes"]).fit(X, y)
    assert "secret" not in str(caught.value)


def test_text_columns_are_named_and_their_values_are_not():
    secret = ["Jane Doe"] * 3 + ["John Doe"]
    y = [0, 1, 0, 1]
    frame = {"age": [1.0, 2, 3, 4], "name": secret, "city": secret}
    for X in (
        pd.DataFrame(frame),
        pl.DataFrame(frame),
        np.array([[1, s] for s in secret], dtype=object),
        [[1, s] for s in secret],
    ):
        with pytest.raises(
            ValueError, match=r"not declared: name, city|not numbers: column "
        ) as caught:
            LogisticRegression(classes=[0, 1]).fit(X, y)
        chain = caught.value
        while chain is not None:
            assert "Doe" not in str(chain)
            chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)


def test_delta_above_one_over_n_warns(binary):
    X, y = binary
    with pytest.warns(UserWarning, match="1/n"):
        LogisticRegression(delta=0.01, classes=["no", "yes"]).fit(X, y)


def test_predict_before_fit_and_with_other_columns(binary):
    from sklearn.exceptions import NotFittedError

    X, y = binary
    model = LogisticRegression(classes=["no", "yes"])
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X, y)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :3])


@pytest.mark.parametrize(
    "X",
    [
        np.array([123.456, 7.0, 8.0, 9.0]),
        np.full((4, 2), 123.456 + 1j),
        sp.csr_array(np.full((4, 2), 123.456 + 1j)),
        ["123.456 secret", "b", "c", "d"],
        np.full((4, 1, 1), "123.456 secret", dtype=object),
    ],
    ids=["1D", "complex", "complex CSR", "strings", "3D"],
)
def test_input_that_is_no_table_is_refused_without_showing_it(X):
    model = LogisticRegression(classes=[0, 1])
    with pytest.raises(ValueError, match=r"2D|Complex") as caught:
        model.fit(X, [0, 1, 0, 1])
    assert "123.4" not in str(caught.value)
    model.fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"2D|Complex") as caught:
        model.predict(X)
    assert "123.4" not in str(caught.value)


def test_complex_targets_are_refused_without_showing_them():
    with pytest.raises(ValueError, match="Complex") as caught:
        LogisticRegression(classes=[0, 1]).fit(np.eye(4), np.full(4, 123.456 + 1j))
    assert "123.4" not in str(caught.value)


def test_no_warning_depends_on_the_labels_that_occur():
    X = np.random.default_rng(0).normal(size=(40, 2))
    for distinct in (20, 21, 40):  # scikit-learn warns above half the number of rows
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "All coefficients are 0")  # by noise, not by labels
            LogisticRegression(classes=range(40)).fit(X, np.arange(40) % distinct)


def test_declared_labels_may_be_any_numbers():
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = LogisticRegression(classes=[0.5, 1.5]).fit(X, np.tile([0.5, 1.5], 20))
    assert set(model.predict(X)) <= {0.5, 1.5}


def test_progress_says_which_model_it_hears_of(three_classes):
    seen = []
    model = LogisticRegression(classes=[0, 1, 2], progress=seen.append).fit(*three_classes)
    assert [at.entry for at in seen] == list(model.trace_)


def test_a_failed_refit_leaves_nothing_of_the_old_fit(binary):
    from sklearn.exceptions import NotFittedError

    X, y = binary
    model = LogisticRegression(classes=["no", "yes"]).fit(X, y)
    with pytest.raises(ValueError, match="not in classes"):
        model.fit(X[:, :3], np.full(len(X), "perhaps"))
    assert not hasattr(model, "guarantee_")
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_a_loss_that_is_not_convex_goes_to_solvers_that_take_it():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(3000, 3))
    y = np.where(X @ [2.0, -1.0, 0.5] > 0, 1, 0)
    model = LinearSVC(20.0, loss="sigmoid", classes=[0, 1], random_state=0)
    with pytest.warns(PrivacyLeakWarning):
        assert model.fit(X, y).score(X, y) > 0.8
    with pytest.raises(NotSupported, match="convex loss"):
        model.set_params(solver="outpert", data_norm=1.0).fit(X, y)


def test_classes_can_be_renamed_after_a_fit_to_codes():
    codes = np.repeat([0, 1, 2], 200)
    X = np.eye(3)[codes]
    settings = {"epsilon": 5.0, "delta": 1e-6, "random_state": 0}
    texts = np.array(["blue", "green", "red"])
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        model = LogisticRegression(classes=[0, 1, 2], **settings).fit(X, codes)
    with pytest.warns(PrivacyLeakWarning, match="random_state"):
        direct = LogisticRegression(classes=texts, **settings).fit(X, texts[codes])
    before = model.predict(X)
    assert model.rename_classes(("blue", "green", "red")) is model
    assert np.array_equal(model.predict(X), texts[before])
    assert np.array_equal(model.predict(X), direct.predict(X))
    assert model.get_params()["classes"] == ["blue", "green", "red"]
    for wrong in (["a", "b"], ["b", "a", "c"], ["a", "a", "b"]):
        with pytest.raises(ValueError, match="labels must be 3 different ones"):
            model.rename_classes(wrong)
    with pytest.raises(NotFittedError):
        LogisticRegression().rename_classes([0, 1])


def test_the_smoothing_of_the_huber_hinge_is_a_setting(binary):
    """AMP's least ridge is r·β/(ε₁ − ε₃) with β = 1/(2h): a fifth for five times the h."""
    X, y = binary
    settings = {"epsilon": 1.0, "delta": 1e-6, "relation": "replace_one", "data_norm": 1.0}
    settings |= {"solver": AMP(calibration="published"), "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        ridges = [LinearSVC(smoothing=h, **settings).fit(X, y).trace_[0].ridge for h in (0.1, 0.5)]
        default = LinearSVC(**settings).fit(X, y).trace_[0].ridge
    assert ridges[0] == default
    assert ridges[0] == pytest.approx(5 * ridges[1], rel=1e-9)
    for refused, text in [
        ({"smoothing": 0.0}, "smoothing must be"),
        ({"loss": "hinge", "smoothing": 0.3}, r"smoothing=0\.3 is for loss='huber'"),
    ]:
        with pytest.raises(ValueError, match=text):
            LinearSVC(1.0, 1e-6, **refused).fit(X, y)
