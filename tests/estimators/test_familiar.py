"""Keywords of other libraries, a default ε, and fitted steps before a private model."""

import inspect
import pickle
import threading
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from discreet import (
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PrivacyLeakWarning,
    PrivateImputer,
    PrivateScaler,
)
from discreet.estimators import familiar

ESTIMATORS = [LogisticRegression, LinearSVC, LinearRegression, HuberRegressor]


def model(**settings):
    return LogisticRegression(1.0, classes=["no", "yes"], **settings)


def caught(fit):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        fit()
    return [(each.category, str(each.message)) for each in found]


# ---- keywords


@pytest.mark.parametrize("kind", [*ESTIMATORS, PrivateScaler, PrivateImputer])
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("C", r"alpha = 1/\(C·n\)"),
        ("penalty", "L2"),
        ("max_iter", r"GD\(iterations=50\)"),
        ("n_jobs", "OMP_NUM_THREADS"),
        ("accountant", "ledger="),
        ("noise_multiplier", "epsilon and delta"),
        ("max_grad_norm", "gradient_clip"),
        ("target_epsilon", "Use epsilon"),
    ],
)
def test_keywords_of_other_libraries_are_refused_with_advice(kind, name, says):
    with pytest.raises(TypeError, match=says) as error:
        kind(**{name: 1})
    assert str(error.value).startswith(f"{kind.__name__} has no parameter {name!r}.")


def test_every_advice_names_parameters_and_solvers_that_exist():
    known = set(inspect.signature(LogisticRegression).parameters)
    for name, text in familiar._ADVICE.items():
        assert name not in known, f"{name} is a parameter: no advice is needed"
        assert not text.endswith(".")
        assert text[0].islower() or text.startswith("scikit-learn")


def test_a_misspelt_keyword_names_the_nearest():
    with pytest.raises(TypeError, match=r"Did you mean epsilon\?"):
        LogisticRegression(epsilom=1.0)
    with pytest.raises(TypeError, match="Its parameters are epsilon, delta"):
        LogisticRegression(zzz=1.0)


def test_a_search_over_an_unknown_parameter_has_the_same_advice(binary):
    with pytest.raises(ValueError, match="Use alpha"):
        LogisticRegression().set_params(C=1.0)
    with pytest.raises(ValueError, match="Use alpha"):
        GridSearchCV(model(), {"C": [1.0]}, error_score="raise").fit(*binary)


@pytest.mark.parametrize("kind", [*ESTIMATORS, PrivateScaler, PrivateImputer])
def test_the_signature_stays(kind):
    names = list(inspect.signature(kind).parameters)
    assert names[:2] == ["epsilon", "delta"]
    assert "args" not in names
    assert set(kind().get_params()) == set(names)
    again = clone(kind(epsilon=0.25))
    assert again.epsilon == 0.25


# ---- an ε that nobody chose


@pytest.fixture
def unseen(monkeypatch):
    monkeypatch.setattr(familiar, "_POINTED_OUT", threading.Event())


def test_a_default_epsilon_is_pointed_out_once(unseen, binary):
    X, y = binary
    fit = LogisticRegression(classes=["no", "yes"]).fit
    first, second = caught(lambda: fit(X, y)), caught(lambda: fit(X, y))
    ((category, text),) = first
    assert category is UserWarning
    assert "epsilon was not given" in text
    assert second == []


def test_a_clone_keeps_that_nobody_chose(unseen, binary):
    copy = clone(LogisticRegression(classes=["no", "yes"]))
    assert [text for _, text in caught(lambda: copy.fit(*binary)) if "not given" in text]


@pytest.mark.parametrize("given", [1.0, 1, 0.5])
def test_a_chosen_epsilon_is_not_pointed_out(unseen, binary, given):
    assert caught(lambda: LogisticRegression(given, classes=["no", "yes"]).fit(*binary)) == []
    changed = LogisticRegression(classes=["no", "yes"]).set_params(epsilon=given)
    assert caught(lambda: changed.fit(*binary)) == []


def test_the_default_is_a_usual_number():
    value = LogisticRegression().epsilon
    assert type(value) is float
    assert value == 1.0
    assert pickle.loads(pickle.dumps(LogisticRegression())).epsilon == 1.0
    assert repr(LogisticRegression()) == "LogisticRegression()"


# ---- fitted steps


@pytest.mark.parametrize(
    ("step", "name", "instead"),
    [
        (StandardScaler(), "StandardScaler", "PrivateScaler"),
        (SimpleImputer(), "SimpleImputer", "PrivateImputer"),
        (SelectKBest(k=2), "SelectKBest", "shrunk-gd"),
        (PCA(2), "PCA", r"Whiten\(\)"),
        (OneHotEncoder(), "OneHotEncoder", "schema.transformer"),
        (make_pipeline(MinMaxScaler()), "MinMaxScaler", "PrivateScaler"),
        (FeatureUnion([("a", MinMaxScaler())]), "MinMaxScaler", "PrivateScaler"),
        (ColumnTransformer([("a", PCA(1), [0, 1])]), "PCA", "auto"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_fitted_step_before_a_private_model_is_a_leak(binary, step, name, instead):
    X, y = np.round(binary[0]), binary[1]
    with pytest.warns(PrivacyLeakWarning, match=f"{name} in this pipeline.*{instead}"):
        make_pipeline(step, model()).fit(X, y)


@pytest.mark.parametrize(
    "step",
    [
        FunctionTransformer(np.tanh),
        PolynomialFeatures(2),
        OneHotEncoder(categories=[[-1.0, 0.0, 1.0]] * 6),
        SimpleImputer(strategy="constant"),
        PrivateScaler(epsilon=1.0, bounds=(-1, 1)),
        "passthrough",
        ColumnTransformer([("a", "passthrough", [0, 1])]),
    ],
    ids=lambda step: type(step).__name__,
)
def test_a_step_that_learns_nothing_from_exact_rows_is_silent(binary, step):
    X, y = np.round(binary[0]), binary[1]
    assert caught(lambda: make_pipeline(step, model()).fit(X, y)) == []


def test_a_search_warns_as_well(binary):
    pipeline = make_pipeline(StandardScaler(), model())
    search = GridSearchCV(pipeline, {"logisticregression__alpha": [1e-4]}, cv=2)
    found = [text for _, text in caught(lambda: search.fit(*binary)) if "StandardScaler" in text]
    assert len(found) == 3  # two folds and the refit


def test_a_model_without_a_pipeline_is_silent(binary):
    StandardScaler().fit(binary[0])
    assert caught(lambda: model().fit(*binary)) == []
