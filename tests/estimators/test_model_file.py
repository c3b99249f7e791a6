import copy
import hashlib
import json
import os
import stat

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression as Ordinary
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from discreet.errors import ModelFileError, NotSupported
from discreet.estimators import HuberRegressor, LinearRegression, LinearSVC, LogisticRegression
from discreet.estimators.model_file import StoredSolver, load, save
from discreet.preparation import Bounds, Centre, Whiten
from discreet.solvers import AGD, ObjPert, names, resolve

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

ROWS = np.random.default_rng(0).normal(size=(60, 3))


def fitted(kind=LogisticRegression, labels=(0, 1), **settings_):
    X = ROWS
    if issubclass(kind, LogisticRegression | LinearSVC):
        y = np.asarray(labels)[np.arange(len(X)) % len(labels)]
        return kind(epsilon=2.0, delta=1e-6, classes=list(labels), **settings_).fit(X, y)
    return kind(epsilon=2.0, delta=1e-6, target_bounds=(-3, 5), **settings_).fit(X, X[:, 0])


def round_trip(model, folder):
    first, second = folder / "first.json", folder / "second.json"
    save(model, first)
    read = load(first)
    save(read, second)
    assert first.read_bytes() == second.read_bytes()
    return read


MODELS = {
    "logistic": lambda: fitted(),
    "svc, three classes": lambda: fitted(LinearSVC, ("a", "bcd", "é")),
    "booleans": lambda: fitted(labels=(False, True)),
    "fractions": lambda: fitted(labels=(0.1, 0.7, 1 / 3)),
    "linear": lambda: fitted(LinearRegression),
    "huber": lambda: fitted(HuberRegressor, threshold=0.3, fit_intercept=False),
    "prepared": lambda: fitted(
        data_norm=1.5, preparation=[Bounds([1], share=0.2), Centre(0.1), Whiten()]
    ),
    "own solver": lambda: fitted(solver=AGD(splits=7)),
    "baseline": lambda: fitted(solver="nonprivate"),
    "seeded": lambda: fitted(random_state=3),
    "objective perturbation": lambda: fitted(solver=ObjPert(noise_reach=14.0), data_norm=1.0),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back_bit_by_bit(name, tmp_path):
    model = MODELS[name]()
    read = round_trip(model, tmp_path)
    assert type(read) is type(model)
    assert np.array_equal(read.coef_, model.coef_)
    assert np.array_equal(read.intercept_, model.intercept_)
    assert type(read.intercept_) is type(model.intercept_)
    assert read.guarantee_ == model.guarantee_
    assert str(read.guarantee_) == str(model.guarantee_)
    assert read.n_features_in_ == 3
    for X in (ROWS, ROWS.astype(np.float32), sp.csr_array(ROWS)):
        predicted, expected = read.predict(X), model.predict(X)
        assert predicted.dtype == expected.dtype
        assert np.array_equal(predicted, expected)
        if hasattr(model, "decision_function"):
            assert np.array_equal(read.decision_function(X), model.decision_function(X))
        if hasattr(model, "predict_proba"):
            assert np.array_equal(read.predict_proba(X), model.predict_proba(X))
    if hasattr(model, "classes_"):
        assert read.classes_.dtype == model.classes_.dtype
        assert read.classes_.tolist() == model.classes_.tolist()
    copied = clone(read)
    assert not hasattr(copied, "coef_")
    told = {"random_state", "ledger", "progress", "preparation", "target_bounds", "classes"}
    for key, value in model.get_params(deep=False).items():
        if key not in told:
            assert getattr(copied, key) == value


def test_a_loaded_model_can_be_fitted_again(tmp_path):
    read = round_trip(MODELS["prepared"](), tmp_path)
    read.fit(ROWS, np.arange(60) % 2)
    assert read.guarantee_.private


@pytest.mark.parametrize("name", [name for name in names() if name != "auto"])
def test_every_solver_comes_back(name, tmp_path):
    model = fitted()
    model.solver = resolve(name)
    assert round_trip(model, tmp_path).solver == resolve(name)


def test_names_of_columns_come_back(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS, columns=["a", "b é", "c"])
    model = LogisticRegression(classes=[0, 1]).fit(frame, np.arange(60) % 2)
    read = round_trip(model, tmp_path)
    assert read.feature_names_in_.tolist() == ["a", "b é", "c"]
    assert np.array_equal(read.predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match=r"lacks columns .*'a'"):
        read.predict(frame.rename(columns={"a": "z"}))


def test_extreme_weights_come_back(tmp_path):
    model = fitted()
    model.coef_ = np.array([[5e-324, -0.0, 1.7976931348623157e308]])
    read = round_trip(model, tmp_path)
    assert read.coef_.tobytes() == model.coef_.tobytes()


def test_nothing_of_the_rows_or_the_process_is_in_it(tmp_path):
    model = fitted(random_state=12345, progress=lambda at: None)
    path = tmp_path / "model.json"
    save(model, path)
    text = path.read_text()
    for word in ("12345", "random_state", "trace", "progress", "ledger", "60"):
        assert word not in json.dumps(json.loads(text)["estimator"]["settings"])
    content = json.loads(text)
    assert set(content["estimator"]["fitted"]) == {
        "coef",
        "intercept",
        "prepared",
        "deviation",
        "design",
        "classes",
        "columns",
        "features",
        "names",
        "preparation",
        "solver",
        "row_norm",
        "multinomial",
        "link",
        "covariances",
        "size",
        "pairs",
    }
    assert not hasattr(load(path), "trace_")


@pytest.mark.parametrize(("name", "word"), [("baseline", "NOT PRIVATE"), ("seeded", "TEST MODE")])
def test_what_is_not_private_is_flagged(name, word, tmp_path):
    path = tmp_path / "model.json"
    save(MODELS[name](), path)
    assert json.loads(path.read_text())["warning"].startswith(word)
    forged = json.loads(path.read_text())
    forged["warning"] = None
    with pytest.raises(ModelFileError, match="warning"):
        load(signed(forged, path))


def test_a_function_in_a_solver_is_left_out(tmp_path):
    model = fitted(data_norm=1.0)
    model.solver = ObjPert(optimizer=lambda *args: None)
    read = round_trip(model, tmp_path)
    assert read.solver.name == "objpert"
    assert np.array_equal(read.predict(ROWS), model.predict(ROWS))
    with pytest.raises(NotSupported, match="objpert"):
        read.fit(ROWS, np.arange(60) % 2)


def test_a_solver_that_is_not_installed_is_kept_by_name(tmp_path):
    path = tmp_path / "model.json"
    model = fitted()
    save(model, path)
    for told in ("far-away", {"name": "far-away", "settings": {"x": 1}, "left_out": []}):
        content = json.loads(path.read_text())
        content["estimator"]["settings"]["solver"] = told
        read = round_trip(load(signed(content, path)), tmp_path)
        assert getattr(read.solver, "name", read.solver) == "far-away"
        assert np.array_equal(read.predict(ROWS), model.predict(ROWS))
        with pytest.raises((ValueError, NotSupported), match="far-away"):
            read.fit(ROWS, np.arange(60) % 2)
    assert read.solver == StoredSolver("far-away", (("x", 1),))


def test_what_cannot_be_saved_is_refused(tmp_path):
    path = tmp_path / "model.json"
    with pytest.raises(NotFittedError):
        save(LogisticRegression(), path)
    with pytest.raises(TypeError, match="only models of discreet"):
        save(Ordinary().fit(ROWS, np.arange(60) % 2), path)
    with pytest.raises(TypeError, match="Pipeline of two steps"):
        save(make_pipeline(StandardScaler(), fitted()).fit(ROWS, np.arange(60) % 2), path)
    model = fitted()
    model.extra_ = 1
    with pytest.raises(TypeError, match="extra_"):
        save(model, path)
    model = fitted()
    model.coef_ = model.coef_ * np.nan
    with pytest.raises(ValueError, match="coef_ must be finite"):
        save(model, path)
    with pytest.raises(ValueError, match="epsilon"):
        save(fitted().set_params(epsilon=-1.0), path)
    assert list(tmp_path.iterdir()) == []


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "model.json"
    save(fitted(), path)
    before = path.read_bytes()
    path.chmod(0o640)

    def broken(*args):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(OSError, match="disk full"):
            save(fitted(LinearRegression), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    save(fitted(LinearRegression), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


# Files that must be refused.


def signed(content, path):
    """Write content with a checksum that matches, however wrong it is."""
    entries = (f"{json.dumps(k)}: {json.dumps(v)}" for k, v in content.items() if k != "sha256")
    return sealed("{\n" + ",\n".join(entries), path)


def sealed(body, path):
    checksum = hashlib.sha256(body.encode()).hexdigest()
    path.write_text(f'{body},\n"sha256": "{checksum}"\n}}\n')
    return path


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.json"
    save(MODELS["prepared"](), path)
    return path.read_bytes()


def test_any_changed_byte_is_found(good, tmp_path):
    path, rng = tmp_path / "changed.json", np.random.default_rng(0)
    end = len(good) - 90  # the checksum and what is around it: all of these bytes
    for at in (*range(0, end, 11), *range(end, len(good))):
        new = (good[at] + int(rng.integers(1, 256))) % 256
        path.write_bytes(good[:at] + bytes([new]) + good[at + 1 :])
        with pytest.raises(ModelFileError):
            load(path)


@pytest.mark.parametrize("cut", [0, 1, 10, 500, -1, -2, -30])
def test_a_cut_file_is_found(cut, good, tmp_path):
    path = tmp_path / "model.json"
    path.write_bytes(good[:cut])
    with pytest.raises(ModelFileError):
        load(path)


def test_other_white_space_is_found(good, tmp_path):
    path = tmp_path / "model.json"
    for text in (good.replace(b"\n", b"\r\n"), json.dumps(json.loads(good)).encode(), good + b" "):
        path.write_bytes(text)
        with pytest.raises(ModelFileError, match="checksum"):
            load(path)


def test_two_entries_of_one_name_are_refused(good, tmp_path):
    body = good.decode().rpartition(',\n"sha256"')[0]
    load(sealed(body, tmp_path / "model.json"))
    with pytest.raises(ModelFileError, match="two entries of one name"):
        load(sealed(body + ',\n"warning": null', tmp_path / "model.json"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"version": 2', b'"version": 2.0'),
        (b"1e-06", b"1E-06"),
        (b"1e-06", b"0.000001"),
        (b'"share"', b'"\\u0073hare"'),
        (b'"epsilon":2.0', b'"epsilon":2.00'),
    ],
)
def test_the_same_number_or_text_written_otherwise_is_found(old, new, good, tmp_path):
    assert old in good
    path = tmp_path / "model.json"
    path.write_bytes(good.replace(old, new, 1))
    with pytest.raises(ModelFileError):
        load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not JSON"),
        (b"\x80\x04K\x01.", "not JSON"),
        (b"\xff\xfe{}", "not JSON"),
        (b"[1, 2]", "format must be"),
        (b"null", "format must be"),
        (b'{"format": "onnx"}', "format must be"),
        (b'{"format": "discreet model"}', "no version"),
        (b'{"format": "discreet model", "version": true}', "no version"),
        (b'{"format": "discreet model", "version": 3}', "Install a newer discreet"),
        (b'{"format": "discreet model", "version": 2}', "checksum does not match"),
        (b'{"format": "discreet model", "version": 1}', "Fit the model again and save it"),
        (b'{"format": "a", "format": "discreet model"}', "two entries of one name"),
        (b'{"format": "discreet model", "version": 2, "x": NaN}', "NaN"),
        (b'{"format": "discreet model", "version": 2, "x": 1e999}', "damaged"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"format": ' + b"9" * 5000 + b"}", "not JSON"),
    ],
)
def test_what_is_no_model_file_is_refused(text, message, tmp_path):
    path = tmp_path / "model.json"
    path.write_bytes(text)
    with pytest.raises(ModelFileError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_far_too_large_is_not_read(tmp_path):
    path = tmp_path / "model.json"
    with path.open("wb") as stream:
        stream.truncate(2**31)
    with pytest.raises(ModelFileError, match="too large"):
        load(path)


def test_a_missing_file_is_an_ordinary_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.json")


FITTED = ("estimator", "fitted")
SETTINGS = ("estimator", "settings")


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("estimator",), []),
        (("estimator", "kind"), "GaussianProcess"),
        (("estimator", "kind"), "LinearRegression"),
        (("estimator", "kind"), ["LinearSVC"]),
        (("table",), {}),
        (("table",), 3),
        (("guarantee",), None),
        (("guarantee", "epsilon"), "1"),
        (("discreet2",), 1),
        ((*SETTINGS, "epsilon"), "1"),
        ((*SETTINGS, "epsilon"), {"a": 1}),
        ((*SETTINGS, "data_norm"), -1.0),
        ((*SETTINGS, "data_norm"), [1.0]),
        ((*SETTINGS, "fit_intercept"), 1),
        ((*SETTINGS, "relation"), "far"),
        ((*SETTINGS, "classes"), [1]),
        ((*SETTINGS, "more"), 1),
        ((*SETTINGS, "solver"), 3),
        ((*SETTINGS, "solver"), {"name": "agd"}),
        ((*SETTINGS, "preparation"), "centre"),
        ((*SETTINGS, "preparation"), [{"step": "cut"}]),
        ((*SETTINGS, "preparation"), [{"step": "centre", "share": 7}]),
        ((*FITTED, "coef"), [[1.0, 2.0]]),
        ((*FITTED, "coef"), [[1.0, 2.0, "3"]]),
        ((*FITTED, "coef"), [[1.0, 2.0, None]]),
        ((*FITTED, "coef"), [[1.0, 2.0, True]]),
        ((*FITTED, "coef"), [1.0, 2.0, 3.0]),
        ((*FITTED, "coef"), [[[1.0], [2.0], [3.0]]]),
        ((*FITTED, "intercept"), 1.0),
        ((*FITTED, "intercept"), [10**400]),
        ((*FITTED, "columns"), 0),
        ((*FITTED, "columns"), 10**30),
        ((*FITTED, "columns"), True),
        ((*FITTED, "names"), ["a"]),
        ((*FITTED, "names"), ["a", "b", 3]),
        ((*FITTED, "classes"), None),
        ((*FITTED, "classes"), {"type": "<i8", "values": [0]}),
        ((*FITTED, "classes"), {"type": "<i8", "values": [0, 0]}),
        ((*FITTED, "classes"), {"type": "<i8", "values": [0, 0.5]}),
        ((*FITTED, "classes"), {"type": "<i8", "values": [0, 10**30]}),
        ((*FITTED, "classes"), {"type": "<i8", "values": [0, 1, 2]}),
        ((*FITTED, "classes"), {"type": "<U99999999", "values": ["a", "b"]}),
        ((*FITTED, "classes"), {"type": "|O", "values": [[1], "b"]}),
        ((*FITTED, "classes"), {"type": "<M8[ns]", "values": [0, 1]}),
        ((*FITTED, "classes"), {"type": "|V8", "values": ["a", "b"]}),
        ((*FITTED, "multinomial"), None),
        ((*FITTED, "multinomial"), 0),
        ((*FITTED, "row_norm"), -1.0),
        ((*FITTED, "row_norm"), True),
        ((*FITTED, "solver"), 3),
        ((*FITTED, "levels"), None),
        ((*FITTED, "levels"), [1.0]),
        ((*FITTED, "link"), None),
        ((*FITTED, "link"), []),
        ((*FITTED, "link"), {"slope": 0.5}),
        ((*FITTED, "link"), {"slope": 0.0, "noise": 0.0}),
        ((*FITTED, "link"), {"slope": 1.0, "noise": -1.0}),
        ((*FITTED, "link"), {"slope": True, "noise": 0.0}),
        ((*FITTED, "link"), {"slope": 0.5, "noise": 0.0, "more": 1}),
        ((*FITTED, "preparation"), None),
        ((*FITTED, "preparation"), [3]),
        ((*FITTED, "preparation"), [{"step": "cut"}]),
        ((*FITTED, "preparation"), [{"step": ["cut"]}]),
        (
            (*FITTED, "preparation"),
            [{"step": "centre", "mean": [1.0], "deviation": 1.0, "row_norm": 1.0}],
        ),
        (
            (*FITTED, "preparation"),
            [{"step": "bounds", "columns": [3], "low": [0.0], "high": [1.0]}],
        ),
    ],
)
def test_wrong_content_with_a_right_checksum_is_refused(where, value, good, tmp_path):
    content = json.loads(good)
    inner = content
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = value
    with pytest.raises(ModelFileError):
        load(signed(content, tmp_path / "model.json"))


def test_missing_entries_are_refused_wherever_they_are(good, tmp_path):
    def without(content):
        for key, value in content.items():
            if key == "sha256":
                continue
            yield {other: content[other] for other in content if other != key}
            if isinstance(value, dict):
                for smaller in without(value):
                    yield {**content, key: smaller}

    content = json.loads(good)
    tried = 0
    for broken in without(copy.deepcopy(content)):
        tried += 1
        with pytest.raises(ModelFileError):
            load(signed(broken, tmp_path / "model.json"))
    assert tried > 40


# With a schema.


@pytest.fixture
def pipeline():
    pytest.importorskip("pyarrow")
    from discreet.tables.columns import Categorical, Numeric
    from discreet.tables.schema import Schema, Spent, Target

    schema = Schema(
        columns={"zeta": Numeric(0, 10), "alpha": Categorical(["x", "y"]), "income": Numeric()},
        target=Target("ill", classes=["no", "yes"]),
        spent=Spent(0.5, 0.0, "add_remove", ("lists of values",)),
    )
    table = {
        "zeta": np.arange(60) % 11,
        "alpha": [("x", "y", "z")[k % 3] for k in range(60)],
        "income": ROWS[:, 0] * 1000,
    }
    model = LogisticRegression(classes=["no", "yes"], preparation=[Bounds(schema.unbounded)])
    whole = Pipeline([("table", schema.transformer()), ("model", model)])
    return whole.fit(table, np.array(["no", "yes"])[np.arange(60) % 2]), table


def test_a_pipeline_comes_back(pipeline, tmp_path):
    whole, table = pipeline
    read = round_trip(whole, tmp_path)
    assert isinstance(read, LogisticRegression)
    assert read.schema == read.design_.schema == whole[0].schema
    assert read.feature_names_in_.tolist() == ["zeta", "alpha", "income"]
    frame = pd.DataFrame(table)
    assert np.array_equal(read.predict_proba(frame), whole.predict_proba(table))
    assert np.array_equal(read.predict(frame), whole.predict(table))
    assert read.guarantee_ == whole[-1].guarantee_
    assert whole[-1].design_ is None  # the pipeline is as it was


def test_a_schema_of_another_width_or_order_is_refused(pipeline, tmp_path):
    path = tmp_path / "model.json"
    save(pipeline[0], path)
    content = json.loads(path.read_text())
    narrow = copy.deepcopy(content)
    del narrow["estimator"]["fitted"]["design"]["columns"]["zeta"]
    with pytest.raises(ModelFileError, match="columns of the design"):
        load(signed(narrow, tmp_path / "narrow.json"))
    columns = content["estimator"]["fitted"]["design"]["columns"]
    content["estimator"]["fitted"]["design"]["columns"] = dict(reversed(columns.items()))
    path.write_text(json.dumps(content))
    with pytest.raises(ModelFileError, match="checksum"):
        load(path)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        (("fitted", "design"), []),
        (("fitted", "design"), None),
        (("fitted", "design", "unit"), "zeta"),
        (("fitted", "design", "target"), {"column": "alpha", "classes": ["no", "yes"]}),
        (("fitted", "design", "columns", "zeta", "low"), 20),
        (("settings", "schema"), "visits.toml"),
        (("settings", "schema"), {}),
        (("settings", "columns"), [["zeta", {"kind": "ignored"}]]),
    ],
)
def test_a_wrong_design_is_refused_when_it_is_read(entry, value, pipeline, tmp_path):
    path = tmp_path / "model.json"
    save(pipeline[0], path)
    content = json.loads(path.read_text())
    at = content["estimator"]
    for key in entry[:-1]:
        at = at[key]
    at[entry[-1]] = value
    with pytest.raises(ModelFileError):
        load(signed(content, path))


def test_a_large_model_comes_back(tmp_path):
    model = fitted(solver="agd")
    model.coef_ = np.random.default_rng(1).normal(size=(1, 100_000))
    model.n_features_in_ = 100_000
    read = round_trip(model, tmp_path)
    assert read.coef_.tobytes() == model.coef_.tobytes()
