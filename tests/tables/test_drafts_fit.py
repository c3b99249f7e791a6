"""Fits by a private draft: no cell makes one fail, and absent cells have no effect."""

import warnings

import numpy as np
import pytest

import discreet
from discreet import Bounds, Centre
from discreet.core.questions import ColumnBounds
from discreet.errors import PrivacyError
from discreet.rows.rows import as_rows

pytest.importorskip("pyarrow")

from .drafts import private

N = 3000


@pytest.fixture
def path(tmp_path):
    """Amounts, days and wards; one cell in fifty of each is missing, or is another text."""
    rng = np.random.default_rng(3)
    amount = rng.gamma(2.0, 50.0, N).round(1)
    days = 1 + np.arange(N) % 28
    wards = np.array(["A", "B"])[rng.integers(2, size=N)]
    label = np.where(rng.normal(amount / 50 - 2, 1.0) > 0, "yes", "no")
    lines = ["row,amount,day,ward,label"]
    for k in range(N):
        odd = ["", "none", ""][k % 3] if k % 50 == 0 else None
        cells = (amount[k], f"2024-01-{days[k]:02d}", wards[k])
        shown = map(str, cells) if odd is None else [odd] * 3
        lines.append(",".join([str(k), *shown, label[k]]))
    file = tmp_path / "visits.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def fitted(path, draft_epsilon=0.8, **settings):
    schema = private(path, draft_epsilon, target="label")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return discreet.fit(
            None, path, schema=schema, epsilon=5.0, delta=1e-6, random_state=0, **settings
        )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"inference": True},
        {"features": "additive"},
        {"solver": "gd"},
        {"preparation": [Centre(share=0.1)]},
    ],
    ids=lambda settings: "-".join(settings) or "default",
)
def test_no_cell_makes_a_fit_by_a_draft_fail(path, settings):
    model = fitted(path, **settings)
    assert model.schema.unbounded
    names = model.estimator.design_.feature_names
    assert names[0] == "amount"
    assert not any("missing" in name or "other" in name for name in names)
    found = model.predict_proba(path)
    assert np.isfinite(found).all()


def test_a_gap_of_a_draft_is_scored_as_the_average(path):
    model = fitted(path)
    ward = {"row": ["1"] * 2, "day": ["2024-01-05"] * 2, "ward": ["A"] * 2}
    gap, usual = model.predict_proba({**ward, "amount": ["", "100"]})[:, 1]
    _, large = model.predict_proba({**ward, "amount": ["", "250"]})[:, 1]
    assert large > 0.9
    assert abs(gap - usual) < 0.3


def test_bounds_do_not_count_missing_numbers():
    cells = np.array([[1.0], [np.nan], [3.0], [np.nan], [5.0]])
    question = ColumnBounds(0, 0.9)
    with_gaps = as_rows(cells, np.zeros(5), fit_intercept=False, gaps=True)
    without = as_rows(cells[::2].copy(), np.zeros(3), fit_intercept=False)
    counts = question.on(with_gaps).values
    np.testing.assert_array_equal(counts, question.on(without).values)
    assert counts.sum() == 3


def test_gaps_of_an_array_are_refused_unless_the_step_takes_them():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 50, (500, 2))
    X[3, 1] = np.nan
    y = rng.integers(2, size=500)
    model = discreet.LogisticRegression(
        epsilon=1.0, delta=1e-6, classes=[0, 1], preparation=[Bounds([0, 1])], random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((ValueError, PrivacyError), match="finite"):
            model.fit(X, y)


def test_rows_on_workers_have_an_effect_of_missing_cells(path):
    """Nobody can put gaps in the middle there, and a refusal would tell that there is one."""
    pytest.importorskip("dask")
    dask = pytest.importorskip("dask.distributed")
    with dask.Client(processes=False, dashboard_address=None):
        rich = fitted(path, engine="dask", draft_epsilon=50.0)
        poor = fitted(path, engine="dask")
    assert rich.schema.columns["amount"].is_bounded
    assert not poor.schema.columns["amount"].is_bounded
    for model in (rich, poor):
        assert "amount=(missing)" in model.estimator.design_.feature_names
