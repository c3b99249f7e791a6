"""Data sets as the objective takes them: labels, drawn columns, and tables of users."""

import numpy as np
import pytest

from discreet_bench.data import available, generated, public, table_of
from discreet_bench.problem import Result
from discreet_bench.task import Task, drawn_columns

from .datasets.files import kdd_row, write

OBJECTIVE = {
    "epsilon": 1.0,
    "delta": 1e-6,
    "relation": "replace_one",
    "loss": "logistic",
    "alpha": 0.0,
    "test": "train",
    "rows": "encoded",
    "intercept": False,
}


@pytest.fixture
def kdd(tmp_path, monkeypatch):
    labels = ["smurf.", "normal.", "neptune.", "ipsweep.", "back."]
    rows = "".join(kdd_row("http", label) for label in labels)
    write(tmp_path / "kddcup99" / "kddcup.data_10_percent", rows)
    monkeypatch.setenv("DISCREET_DATA", str(tmp_path))
    monkeypatch.setattr("discreet_bench.datasets.loading._check_counts", lambda *_: None)
    public.cache_clear()
    yield
    public.cache_clear()


@pytest.mark.filterwarnings("ignore:.*checksum")
def test_denial_of_service_is_one_class_and_all_else_the_other(kdd):
    attacks = public("kddcup99", None, None, False)
    assert attacks.y.tolist() == [0, 1, 0, 0, 0]  # attack, normal, …
    public.cache_clear()
    service = public("kddcup99-dos", None, None, False)
    assert service.name == "kddcup99-dos"
    # "denial of service" comes before "other": ipsweep is an attack of another kind
    assert service.y.tolist() == [0, 1, 0, 1, 0]
    assert service.X.shape == attacks.X.shape


@pytest.mark.filterwarnings("ignore:.*checksum")
def test_columns_are_drawn_anew_for_each_repeat(kdd):
    table = public("kddcup99-continuous", None, 9, True)
    assert table.drawn == 9
    assert "9 columns" in table.name
    task = Task(table, **OBJECTIVE)
    draws = [drawn_columns(34, 9, repeat) for repeat in range(4)]
    assert len({tuple(draw) for draw in draws}) == 4
    for repeat, draw in enumerate(draws):
        problem = task.problem(repeat)
        assert problem.X.shape == (5, 9)
        assert problem.bounds.shape == (9, 2)
        order = task.splits.of(5, repeat)[0]
        np.testing.assert_array_equal(problem.X, table.X[order][:, draw])
    assert (drawn_columns(34, 9, 2) == draws[2]).all()


def test_bounds_of_generated_tables_hold():
    for name in ("synthetic-l", "synthetic-h", "sphere", "plane"):
        table = generated(name, 300, 10, 0)
        assert (table.bounds[:, 0] <= table.X).all()
        assert (table.bounds[:, 1] >= table.X).all()
        assert np.linalg.norm(table.X, axis=1).max() <= table.max_norm * (1 + 1e-6)


def test_a_table_of_a_user():
    made = table_of("mine", np.eye(3), [0, 1, 1])
    assert (made.n_classes, made.max_norm, made.target_bounds) == (2, np.inf, None)
    assert made.bounds.tolist() == [[-1.0, 1.0]] * 3
    real = table_of("mine", np.eye(3), [0.5, 1, 2], target_bounds=(0.0, 2.0))
    assert real.n_classes == 0
    with pytest.raises(ValueError, match="do not match"):
        table_of("mine", np.eye(3), [0, 1])
    assert available("mine.py") is None
    assert available("of-another-package") is None


def test_a_loss_that_is_not_convex_has_the_squared_norm_of_its_gradient():
    table = table_of("two", np.array([[1.0, 0.0], [0.0, 1.0]]), [0, 1])
    task = Task(table, **(OBJECTIVE | {"loss": "sigmoid"}))
    task.problem(0)
    weights = np.zeros(2)
    (line,) = task.judged(
        Result(scores=np.zeros(2), train_scores=np.zeros(2), weights=weights, variant="not private")
    )
    # φ' = 1/4 at zero, rows of norm 1 and two of them: (1/8)² + (1/8)²
    assert line["squared_gradient"] == pytest.approx(2 / 64)
    assert "excess_objective" not in line
