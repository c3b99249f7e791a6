"""Fits on Dask arrays and dataframes, on the threads of this process."""

import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from discreet import (
    Bounds,
    Centre,
    HuberRegressor,
    Ledger,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PrivacyError,
    Radius,
    Whiten,
)
from discreet.engines import dask as engine_module
from discreet.engines import is_lazy, open_table
from discreet.engines.blocks import Held
from discreet.errors import EngineError, NotSupported
from discreet.estimators.scoring import score_classifier
from discreet.tables import Categorical, Numeric, Schema, Target

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

N, D = 6000, 5
LABELS = ["no", "yes"]
SECRET = 31415.926


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) + 1
    z = X @ [2.0, -1.0, 1.0, 0.0, 0.5]
    return X, z, np.where(z > z.mean(), "yes", "no"), rng.integers(0, 3, N)


def quiet_fit(model, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


def logistic(**settings):
    return LogisticRegression(**({"classes": LABELS, "random_state": 0} | settings))


def weights_of(model):
    return np.append(np.ravel(model.coef_), np.ravel(model.intercept_))


class TestAgreement:
    @pytest.mark.parametrize(
        ("model", "target"),
        [
            (logistic(), 2),
            (logistic(classes=[0, 1, 2]), 3),
            (LinearSVC(1.0, 1e-6, classes=[0, 1, 2], random_state=0), 3),
            (LinearRegression(1.0, 1e-6, target_bounds=(-5, 8), random_state=0), 1),
            (HuberRegressor(1.0, 1e-6, target_bounds=(-5, 8), random_state=0), 1),
            (logistic(solver="agd"), 2),
            (logistic(solver="objpert", data_norm=3.0), 2),
            (logistic(solver="objpert", preparation=[Radius(), Centre()]), 2),
            (logistic(preparation=[Bounds([0, 2]), Radius(), Whiten()], solver="gd"), 2),
            (logistic(solver="shrunk-gd"), 2),
        ],
        ids=lambda value: str(value)[:60],
    )
    def test_the_model_is_that_of_an_array(self, data, model, target):
        X, y = data[0], data[target]
        expected = weights_of(quiet_fit(model, X, y))
        found = weights_of(quiet_fit(model, da.from_array(X, chunks=(1700, D)), y))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)

    def test_how_rows_are_divided_does_not_matter(self, data):
        X, _, y, _ = data
        expected = weights_of(quiet_fit(logistic(), X, y))
        for chunks in ((N, D), (1000, 2), ((1, 2, N - 3), D)):
            found = weights_of(quiet_fit(logistic(), da.from_array(X, chunks=chunks), y))
            np.testing.assert_allclose(found, expected, rtol=1e-9)

    def test_single_precision_and_sparse_blocks(self, data):
        X, _, y, _ = data
        single = X.astype(np.float32)
        expected = weights_of(quiet_fit(logistic(), single, y))
        lazy = da.from_array(single, chunks=(1700, D))
        np.testing.assert_allclose(weights_of(quiet_fit(logistic(), lazy, y)), expected, rtol=1e-9)
        assert open_table(lazy, y).dtype == np.float32
        rare = np.where(np.abs(X) > 1, X, 0.0)
        expected = weights_of(quiet_fit(logistic(), sp.csr_array(rare), y))
        lazy = da.from_array(rare, chunks=(1700, D)).map_blocks(sp.csr_array)
        np.testing.assert_allclose(weights_of(quiet_fit(logistic(), lazy, y)), expected, rtol=1e-9)


@pytest.fixture(scope="module")
def frame(data):
    return pd.DataFrame(data[0], columns=list("abcde")).assign(label=data[2])


class TestFrames:
    def test_names_and_labels(self, frame):
        columns = list("abcde")
        rows = frame[columns].to_numpy()  # frames of Dask are arrays with names
        expected = quiet_fit(logistic(), rows, frame["label"])
        lazy = dd.from_pandas(frame, npartitions=4)
        found = quiet_fit(logistic(), lazy[columns], lazy["label"])
        assert list(found.feature_names_in_) == columns
        np.testing.assert_allclose(weights_of(found), weights_of(expected), rtol=1e-9)
        np.testing.assert_array_equal(found.predict(lazy[columns]), expected.predict(rows))

    def test_unknown_sizes_and_parts_without_rows(self, frame):
        columns = list("abcde")
        kept = frame.sort_values("a")
        kept = kept[kept["a"] > 1]
        lazy = dd.from_pandas(frame.sort_values("a"), npartitions=6, sort=False)
        lazy = lazy[lazy["a"] > 1]  # the first parts have no rows left
        table = open_table(lazy[columns], lazy["label"])
        assert table.shape == (len(kept), D)
        assert 0 < len(table.parts) < 6
        expected = quiet_fit(logistic(), kept[columns].to_numpy(), kept["label"])
        found = quiet_fit(logistic(), lazy[columns], lazy["label"])
        np.testing.assert_allclose(weights_of(found), weights_of(expected), rtol=1e-9)
        array = lazy[columns].to_dask_array()
        found = quiet_fit(logistic(), array, lazy["label"].to_dask_array())
        np.testing.assert_allclose(weights_of(found), weights_of(expected), rtol=1e-9)
        assert found.predict(array).compute().shape == (len(kept),)

    def test_columns_that_are_not_numbers_are_named_before_reading(self, frame):
        lazy = dd.from_pandas(frame, npartitions=2)
        with pytest.raises(ValueError, match="not numbers: label"):
            quiet_fit(logistic(), lazy, lazy["label"])


class TestPrediction:
    def test_it_is_lazy_and_the_same(self, data):
        X, z, y, k = data
        lazy = da.from_array(X, chunks=(1700, D))
        models = [
            quiet_fit(logistic(), X, y),
            quiet_fit(logistic(classes=[0, 1, 2]), X, k),
            quiet_fit(LinearRegression(target_bounds=(-5, 8), random_state=0), X, z),
        ]
        for model in models:
            for name in ("predict", "decision_function", "predict_proba", "predict_log_proba"):
                if not hasattr(model, name):
                    continue
                found, expected = getattr(model, name)(lazy), getattr(model, name)(X)
                assert isinstance(found, da.Array)
                assert found.shape == expected.shape
                assert found.dtype == expected.dtype
                if expected.dtype.kind == "f":
                    np.testing.assert_allclose(found.compute(), expected, rtol=1e-12)
                else:
                    np.testing.assert_array_equal(found.compute(), expected)

    def test_private_scores_do_not_load_a_table(self, data):
        X, _, y, _ = data
        model = quiet_fit(logistic(), X, y)
        with pytest.raises(TypeError, match="compute it first"):
            score_classifier(model, da.from_array(X), y)


class TestRefusals:
    """Everything that can be refused without rows is refused before a block is read."""

    @pytest.fixture
    def unread(self):
        def read():
            raise AssertionError("a block was read")

        part = da.from_delayed(dask.delayed(read)(), (10, D), dtype=float)
        return da.concatenate([part, part])

    @pytest.mark.parametrize(
        ("model", "kind", "text"),
        [
            (logistic(classes=None), ValueError, "list all of them in classes"),
            (logistic(solver="sgd"), NotSupported, "'gd'"),
            (logistic(solver="permutation-sgd", relation="replace_one"), NotSupported, "'gd'"),
            (logistic(solver="rrpsgd", relation="replace_one"), NotSupported, "'gd'"),
            (logistic(solver="laplace-sgd", delta=0, relation="replace_one"), NotSupported, "'gd'"),
        ],
    )
    def test_settings(self, unread, model, kind, text):
        ledger = Ledger().create("rows")
        model.set_params(ledger=ledger, data_norm=1.0)
        with pytest.raises(kind, match=text):
            model.fit(unread, unread[:, 0])
        assert ledger.entries == 0

    def test_targets_that_do_not_fit(self, unread):
        with pytest.raises(ValueError, match="X has 20 and y 7"):
            quiet_fit(logistic(), unread, np.zeros(7))
        with pytest.raises(ValueError, match="2D"):
            quiet_fit(logistic(), unread[:, 0], np.zeros(20))
        frame = dd.from_dask_array(unread)
        with pytest.raises(TypeError, match="like X"):
            quiet_fit(logistic(), frame, [0] * 20)
        with pytest.raises(ValueError, match="same blocks"):
            quiet_fit(logistic(), frame, da.zeros(20, chunks=20))

    def test_other_rows_in_a_block_of_y(self, data):
        X, _, y, _ = data
        frame = pd.DataFrame(X[:, :2], columns=["a", "b"])
        lazy = dd.from_pandas(frame, npartitions=2)
        target = dd.from_pandas(pd.Series(y[:-10]), npartitions=2)
        with pytest.raises(ValueError, match="another number of rows"):
            quiet_fit(logistic(), lazy, target)

    def test_bad_cells_are_not_shown_and_cost_nothing(self, data):
        X, _, y, _ = data
        bad = X.copy()
        bad[4321, 2] = np.nan
        labels = y.astype(object)
        labels[17] = f"{SECRET}"
        ledger = Ledger().create("rows")
        for table, target in ((bad, y), (X, labels)):
            lazy = da.from_array(table, chunks=(1700, D))
            with pytest.raises(ValueError, match=r"finite|classes") as caught:
                quiet_fit(logistic(ledger=ledger), lazy, da.from_array(target, chunks=1700))
            assert str(SECRET) not in str(caught.value)
        assert ledger.entries == 0

    def test_errors_of_a_source_are_withheld(self, data):
        def fail(block):
            raise KeyError(f"cell {SECRET}")

        lazy = da.from_array(data[0], chunks=(1700, D)).map_blocks(fail, dtype=float, meta=data[0])
        with pytest.raises(EngineError, match="KeyError") as caught:
            quiet_fit(logistic(), lazy, data[2])
        assert str(SECRET) not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__

    def test_no_rows(self, data):
        lazy = dd.from_pandas(pd.DataFrame(data[0], columns=list("abcde")), npartitions=2)
        lazy = lazy[lazy["a"] > 1e9]
        with pytest.raises(ValueError, match="0 sample"):
            quiet_fit(logistic(classes=[0, 1]), lazy, lazy["a"])


class _Planted(engine_module.DaskEngine):
    """An engine that goes wrong in the middle of a fit."""

    after = 12
    asked = 0
    before = ()

    def _ask(self, task, blocks):
        type(self).asked += 1
        answers = list(super()._ask(task, blocks))
        if self.asked <= self.after:
            type(self).before = answers
            return answers
        return self.wrong(answers)


class Correct(_Planted):
    def wrong(self, answers):
        return answers[::-1]  # no fault: the order of answers is free


class Twice(_Planted):
    def wrong(self, answers):
        return [*answers, answers[0]]


class Missing(_Planted):
    def wrong(self, answers):
        return answers[1:]


class TwiceForAnother(_Planted):
    def wrong(self, answers):
        return [answers[0], *answers[:1], *answers[2:]]


class Renamed(_Planted):
    def wrong(self, answers):
        return [answers[0]._replace(id=1), answers[1]._replace(id=0), *answers[2:]]


class Forged(_Planted):
    """Returns the answer of one block as that of another, mark and all."""

    def wrong(self, answers):
        other = answers[1]._replace(result=answers[0].result)
        return [answers[0], other, *answers[2:]]


class EarlierQuestion(_Planted):
    def wrong(self, answers):
        return [self.before[0], *answers[1:]]


class EarlierVersion(_Planted):
    """Asks a block from before the last derivation."""

    def derive(self, task, parts):
        new = super().derive(task, parts)
        return new if self.asked <= self.after else [parts[0], *new[1:]]

    def wrong(self, answers):
        return answers


class OtherRows(_Planted):
    """Reads a block again, and gets the rows in another order."""

    def _ask(self, task, blocks):
        if self.asked >= self.after:
            first = dask.delayed(_reread)(blocks[0], self.marks.key)
            blocks = [first, *blocks[1:]]
        return super()._ask(task, blocks)

    def wrong(self, answers):
        return answers


def _reread(held, key):
    from discreet.rows import as_rows
    from discreet.rows.partitions import Block

    rows = held.content.rows
    X = rows.table.array[::-1]
    fresh = Held.read(held.id, key, lambda: Block(held.id, X, rows.targets[::-1]))
    own = as_rows(np.ascontiguousarray(X), rows.targets[::-1], public_size=rows.public_size)
    return replace(fresh, content=held.content._replace(rows=own))


class TestPlantedFaults:
    """Each block counts exactly once, for this question, with its own rows (partitions.md)."""

    def fit(self, monkeypatch, data, engine, **settings):
        monkeypatch.setattr(engine, "asked", 0)
        monkeypatch.setattr(engine_module, "DaskEngine", engine)
        X, _, y, _ = data
        model = logistic(solver="gd", **settings)
        return quiet_fit(model, da.from_array(X, chunks=(1700, D)), y)

    def test_the_order_of_answers_does_not_matter(self, monkeypatch, data):
        found = self.fit(monkeypatch, data, Correct)
        assert Correct.asked > Correct.after
        expected = quiet_fit(logistic(solver="gd"), data[0], data[2])
        np.testing.assert_allclose(weights_of(found), weights_of(expected), rtol=1e-9)

    @pytest.mark.parametrize(
        "engine", [Twice, Missing, TwiceForAnother, Renamed, Forged, EarlierQuestion, OtherRows]
    )
    def test_wrong_answers_are_refused_and_the_budget_is_spent(self, monkeypatch, data, engine):
        ledger = Ledger().create("rows")
        with pytest.raises(PrivacyError):
            self.fit(monkeypatch, data, engine, ledger=ledger)
        assert engine.asked == engine.after + 1  # at the first wrong answer
        assert ledger.entries == 1

    def test_an_earlier_version_is_refused(self, monkeypatch, data):
        monkeypatch.setattr(EarlierVersion, "after", 2)
        with pytest.raises(PrivacyError):
            self.fit(monkeypatch, data, EarlierVersion)


class TestStatement:
    def test_guarantee_and_card_name_the_workers(self, data):
        from discreet.card import card

        X, _, y, _ = data
        model = quiet_fit(logistic(), da.from_array(X, chunks=(1700, D)), y)
        assert any("workers of Dask" in text for text in model.guarantee_.conditions)
        assert "workers of Dask" in model.guarantee_.explain()
        assert "workers of Dask" in str(card(model))
        assert not any("workers" in text for text in quiet_fit(model, X, y).guarantee_.conditions)


def test_recognition_by_name():
    assert is_lazy(da.zeros((2, 2)))
    assert is_lazy(dd.from_pandas(pd.DataFrame({"a": [1.0]}), npartitions=1))
    assert not is_lazy(np.zeros((2, 2)))
    assert not is_lazy(pd.DataFrame({"a": [1.0]}))


@pytest.mark.process
def test_importing_discreet_imports_neither_library():
    code = (
        "import sys, discreet, discreet.estimators, discreet.engines; "
        "assert not {'dask', 'distributed', 'pyspark'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def _targets(block):
    return block.y


class TestSchemas:
    """Files and frames that a schema encodes on the workers."""

    @pytest.fixture
    def visits(self, tmp_path):
        pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
        rng = np.random.default_rng(8)
        for k, size in enumerate((700, 1300)):
            age, sex = rng.uniform(18, 90, size), rng.choice(["F", "M"], size)
            outcome = np.where(age + 20 * (sex == "M") + rng.normal(0, 9, size) > 60, "yes", "no")
            table = pa.table({"age": age, "sex": sex, "outcome": outcome})
            pq.write_table(table, tmp_path / f"{k}.parquet")
        columns = {"age": Numeric(18, 90), "sex": Categorical(["F", "M"])}
        return tmp_path, Schema(columns, target=Target("outcome", classes=["no", "yes"]))

    @pytest.mark.parametrize("kind", ["files", "frame"])
    def test_the_model_is_that_of_one_table(self, visits, kind):
        folder, schema = visits
        data = folder if kind == "files" else dd.read_parquet(folder)
        X, y, _ = engine_module.open(data, schema)
        assert X.shape == (2000, schema.width)
        model = quiet_fit(logistic(), X, y)
        alone = quiet_fit(logistic(), *schema.open(folder)[:2])
        np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-9)

    def test_targets_are_those_of_schema_open(self, visits):
        folder, schema = visits
        X, _, _ = engine_module.open(folder, schema)
        found = np.concatenate([y for _, y in sorted(X.engine.map(_targets, X.parts))])
        whole = schema.open(folder).y
        np.testing.assert_array_equal(found, whole)
        assert found.dtype == whole.dtype
        X, _, _ = engine_module.open(folder, schema, labels=False)
        found = np.concatenate([y for _, y in sorted(X.engine.map(_targets, X.parts))])
        np.testing.assert_array_equal(np.array(schema.target.labels)[found], whole)

    @pytest.mark.parametrize("features", ["additive", "kernel"])
    def test_features_are_made_on_the_workers(self, visits, features):
        folder, schema = visits
        settings = {"features": features, "columns": schema.numeric}
        X, y, _ = engine_module.open(folder, schema)
        model = quiet_fit(logistic(**settings), X, y)
        alone = quiet_fit(logistic(**settings), *schema.open(folder)[:2])
        assert model.coef_.shape[1] > schema.width
        np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-9)

    def test_what_cannot_be_opened_is_refused(self, visits):
        folder, schema = visits
        with pytest.raises(ValueError, match="with_target"):
            engine_module.open(folder, Schema(schema.columns))
        with pytest.raises(TypeError, match="files that workers can read"):
            engine_module.open({"age": [1.0], "sex": ["F"], "outcome": ["no"]}, schema)
