"""The problem that solvers get, and how their results are judged."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.sparse as sp

from discreet import LogisticRegression
from discreet_bench.data import Table, generated
from discreet_bench.measures import classification, gradient, loss_of, minimum, objective
from discreet_bench.problem import Problem, Result
from discreet_bench.task import OVERSPENT, Splits, Task, delta_for

pytestmark = pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyLeakWarning")

SETTINGS = {
    "epsilon": 1.0,
    "delta": "1/n^2",
    "relation": "add_remove",
    "loss": "logistic",
    "alpha": 1e-2,
    "test": "80/20",
    "rows": "encoded",
    "intercept": True,
}


def task(**changes):
    return Task(generated("plane", 1000, 5, 0), **(SETTINGS | changes))


def fitted(problem, **changes):
    settings = {
        "epsilon": problem.epsilon,
        "delta": problem.delta,
        "solver": "gd",
        "data_norm": 1.0,
        "relation": problem.relation,
    }
    model = LogisticRegression(classes=[0, 1], **(settings | changes))
    return model.fit(problem.X, problem.y)


def test_splits_are_the_same_for_everybody_and_cover_the_rows():
    for kind in ("80/20", "5-fold"):
        train, test = Splits(kind).of(1000, 3)
        again = Splits(kind).of(1000, 3)
        np.testing.assert_array_equal(train, again[0])
        assert sorted([*train, *test]) == list(range(1000))
        assert len(test) == 200
    folds = [Splits("5-fold").of(1003, repeat)[1] for repeat in range(5)]
    assert sorted(np.concatenate(folds)) == list(range(1003))
    assert not np.array_equal(Splits("5-fold").of(1003, 5)[1], folds[0])


def test_the_split_train_trains_and_tests_on_all_rows_in_a_new_order():
    train, test = Splits("train").of(100, 1)
    np.testing.assert_array_equal(train, test)
    assert sorted(train) == list(range(100))
    assert not np.array_equal(train, Splits("train").of(100, 2)[0])


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="80/20, 5-fold, train"):
        Splits("90/10")


def test_delta_follows_from_the_training_rows():
    assert delta_for("1/n^2", 1000) == 1e-6
    assert delta_for(1e-8, 1000) == 1e-8
    assert task().problem(0).delta == 1 / 800**2


def test_the_problem_holds_no_test_label():
    names = {field.name for field in dataclasses.fields(Problem)}
    assert "y_test" not in names


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_can_be_scaled_down_to_norm_one(sparse):
    made = generated("plane", 500, 20, 0)
    table = dataclasses.replace(made, X=sp.csr_array(made.X) if sparse else made.X)
    problem = Task(table, **(SETTINGS | {"rows": "unit"})).problem(0)
    rows = problem.X.toarray() if sparse else problem.X
    norms = np.linalg.norm(rows, axis=1)
    assert norms.max() <= 1 + 1e-6
    assert problem.max_norm == 1.0
    short = np.linalg.norm(made.X, axis=1) < 1
    assert not short.any() or norms.min() < 1  # those that were shorter stay as they are


def test_a_private_run_is_measured_and_its_guarantee_recomputed():
    asked = task()
    problem = asked.problem(0)
    (line,) = asked.judged(Result.of_model(fitted(problem), problem))
    assert line["variant"] == "private"
    assert line["epsilon_spent"] == 1.0
    assert line["epsilon_recomputed"] == pytest.approx(1.0, rel=0.01)
    assert line["accuracy"] > 0.7
    assert 0 < line["excess_objective"] < 0.3
    assert 0.5 < line["auc"] <= 1
    assert line["guarantee"].startswith("This fit is (ε = 1")


def judged(asked, result):
    (line,) = asked.judged(result)
    return line


def test_a_run_that_spent_more_than_allowed_fails():
    asked = task()
    problem = asked.problem(0)
    line = judged(asked, Result.of_model(fitted(problem, epsilon=1.1), problem))
    assert line["problem"].startswith(OVERSPENT + "the run spent (ε = 1.1")
    assert line["variant"] == "not private"
    assert "accuracy" not in line


def test_a_run_without_a_guarantee_is_not_private():
    asked = task()
    scores = np.zeros(len(asked.problem(0).X_test))
    assert judged(asked, Result(scores=scores))["variant"] == "not private"
    claimed = judged(asked, Result(scores=scores, variant="private"))
    assert "without a guarantee" in claimed["problem"]


def test_a_guarantee_for_other_neighbours_does_not_count():
    asked = task(relation="replace_one")
    problem = asked.problem(0)
    line = judged(asked, Result.of_model(fitted(problem, relation="add_remove"), problem))
    assert "add_remove" in line["problem"]
    assert "accuracy" not in line


def test_a_fixed_seed_is_not_private():
    asked = task()
    problem = asked.problem(0)
    line = judged(asked, Result.of_model(fitted(problem, random_state=0), problem))
    assert line["variant"] == "not private"


def test_nothing_certifies_itself():
    class Boaster:
        epsilon, delta, relation, private, secure = 1.0, 1e-9, "add_remove", True, True
        measure, mechanisms = "pure", ()

        def recompute(self):
            return 0.5

    asked = task()
    scores = np.zeros(len(asked.problem(0).X_test))
    line = judged(asked, Result(scores=scores, guarantee=Boaster()))
    assert line["problem"].startswith(OVERSPENT)


def test_excess_is_counted_on_rows_as_the_model_sees_them():
    asked = task()
    problem = asked.problem(0)
    clipped = fitted(problem, solver="nonprivate", data_norm=0.5, alpha=1e-2)
    line = judged(asked, Result.of_model(clipped, problem))
    assert abs(line["excess_objective"]) < 1e-6


def test_a_model_with_columns_of_its_own_has_no_common_objective():
    asked = task()
    problem = asked.problem(0)
    line = judged(asked, Result.of_model(fitted(problem, solver="auto", data_norm=None), problem))
    assert line["accuracy"] > 0.7
    assert "objective" not in line


def test_published_constants_that_break_the_promise_are_marked_not_hidden():
    from discreet.solvers import ObjPert

    asked = task(relation="replace_one")
    problem = asked.problem(0)
    model = fitted(problem, solver=ObjPert(calibration="published", unsafe=True))
    (line,) = asked.judged(Result.of_model(model, problem, published=True))
    assert line["variant"] == "as released"
    assert line["epsilon_spent"] > 1.1


def test_a_model_without_privacy_is_called_that():
    asked = task()
    problem = asked.problem(0)
    (line,) = asked.judged(Result.of_model(fitted(problem, solver="nonprivate"), problem))
    assert line["variant"] == "not private"
    assert math.isinf(line["epsilon_spent"])


def test_the_minimum_has_no_excess():
    asked = task()
    problem = asked.problem(0)
    model = fitted(problem, solver="nonprivate", data_norm=None, alpha=1e-2)
    (line,) = asked.judged(Result.of_model(model, problem))
    assert abs(line["excess_objective"]) < 1e-8


def test_an_error_is_a_line_without_measures():
    asked = task()
    asked.problem(0)
    (line,) = asked.judged(Result(problem="NotSupported: no."))
    assert line["problem"] == "NotSupported: no."
    assert "accuracy" not in line


def test_stations_become_lines():
    asked = task()
    problem = asked.problem(0)
    weights = np.zeros(6)
    lines = asked.judged(
        Result(iterates=[{"at": 1, "weights": weights}, {"at": 2, "weights": weights + 1}])
    )
    assert [line["at"] for line in lines] == [1, 2]
    assert lines[0]["objective"] == pytest.approx(math.log(2))
    target = np.where(problem.y == 1, 1.0, -1.0)
    slope = gradient(loss_of("logistic"), problem.X, target, weights, 1e-2, True)
    assert lines[0]["gradient_norm"] == pytest.approx(np.linalg.norm(slope))


def test_a_loss_that_does_not_fit_the_target_is_said():
    assert "classes" in (task(loss="huber").unfit() or "")
    assert task().unfit() is None


def test_regression_is_judged_in_the_units_of_its_target():
    from discreet import HuberRegressor

    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 3))
    y = 100 + 40 * X @ [0.5, -0.3, 0.1]
    bounds = np.tile([-1.0, 1.0], (3, 1))
    table = Table("made", X, y, 0, bounds, 2.0, target_bounds=(50.0, 150.0))
    asked = Task(table, **(SETTINGS | {"loss": "huber", "alpha": 0.0}))
    problem = asked.problem(0)
    model = HuberRegressor(solver="nonprivate", alpha=0.0, target_bounds=(50.0, 150.0))
    (line,) = asked.judged(Result.of_model(model.fit(problem.X, problem.y), problem))
    assert line["r2"] > 0.999
    assert line["objective"] < 1e-6
    assert abs(line["excess_objective"]) < 1e-6


@pytest.mark.parametrize("loss", ["logistic", "huber-hinge", "hinge"])
def test_the_minimum_is_one(loss):
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (400, 4))
    target = np.where(X @ [1.0, -1.0, 0.5, 0.0] + 0.3 * rng.normal(size=400) > 0, 1.0, -1.0)
    least = minimum(loss, X, target, 1e-2, True)
    assert least == pytest.approx(minimum(loss, sp.csr_array(X), target, 1e-2, True), abs=1e-4)
    for _ in range(200):  # no weights drawn at random are better
        weights = rng.normal(size=5) * rng.uniform(0, 3)
        margins = X @ weights[:-1] + weights[-1]
        assert objective(loss, margins, target, weights, 1e-2) > least - 1e-9


def test_measures_of_several_classes():
    scores = np.array([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]])
    found = classification(scores, np.array([0, 1, 2, 1]), np.full((4, 3), 1 / 3))
    assert found["accuracy"] == 0.75
    assert found["balanced_accuracy"] == pytest.approx((1 + 0.5 + 1) / 3)
    assert found["log_loss"] == pytest.approx(math.log(3))


@pytest.mark.filterwarnings("ignore:A single label was found")
def test_a_class_that_no_test_row_has_leaves_out_what_needs_it():
    found = classification(np.array([1.0, 2.0]), np.array([1, 1]))
    assert found["accuracy"] == 1.0
    assert math.isnan(found["auc"])


@pytest.mark.parametrize("norm", [0.5, None])
def test_rows_are_scaled_for_predictions_as_for_the_fit(norm):
    from discreet_bench.data import scaled_down
    from discreet_bench.solvers import solver_class

    problem = task().problem(0)
    solver = solver_class("nonprivate").get_instance(norm=norm, alpha=None)
    solver.set_objective(**vars(problem))
    solver.run(None)
    found = Result(**solver.get_result())
    X_test = problem.X_test if norm is None else scaled_down(problem.X_test, norm)
    weights = found.weights
    np.testing.assert_allclose(found.scores, X_test @ weights[:-1] + weights[-1], rtol=1e-4)
    assert norm is None or np.linalg.norm(problem.X_test, axis=1).max() > 2 * norm
