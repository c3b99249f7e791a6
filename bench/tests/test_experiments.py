"""The experiments: complete, made of things that exist, small when quick, and as the papers say."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from functools import cache

import pytest

from discreet.solvers import Description, describe, resolve
from discreet_bench import datasets
from discreet_bench.data import GENERATED
from discreet_bench.experiment import Experiment, Grid, Plan, coarse
from discreet_bench.experiments import EXPERIMENTS, amp, auto, dpagd, find, outpert, sgd
from discreet_bench.lines import METHODS
from discreet_bench.runs import COLUMNS
from discreet_bench.task import Task

NAMES = [
    "auto-table",
    "dpagd-table1",
    "dpagd-fig1",
    "dpagd-fig1-gamma",
    "dpagd-fig1-cgrad",
    "dpagd-fig1-cobj",
    *(f"dpagd-fig{k}" for k in (2, 3, 4)),
    *(f"amp-fig{k}" for k in (1, 2, 3, 4)),
    "outpert-table3",
    *(f"sgd-fig{k}" for k in range(1, 10)),
]
OBJECTIVE = {"epsilon", "delta", "relation", "loss", "alpha", "test", "rows", "intercept"}
WITHOUT_PARAMETERS = {
    *(f"{name}-released" for name in ("agd", "objpert", "outpert", "sgd-ma", "amp", "frank-wolfe")),
    *("diffprivlib", "opacus", "dp-ebm", "scikit-learn"),
}
OTHERS = {
    "auto": {"alpha", "norm"},
    "tuned": {"base"},
    "noisy-gd": {"iterations", "step_size", "gradient_clip", "norm"},
    "plain-sgd": {"batch_size", "schedule", "step_size", "passes", "updates"},
}
EXTRA = {"laplace-sgd": {"updates"}, "privgene": {"batch_rows"}}
every = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)


def plans(experiment: Experiment) -> tuple[Plan, ...]:
    return (*experiment.plans, *experiment.quick, *experiment.medium)


def solver_grids() -> Iterator[tuple[str, str, Grid]]:
    for experiment in EXPERIMENTS.values():
        for plan in plans(experiment):
            for solver, grid in plan.solvers.items():
                yield experiment.name, solver, grid


def values(chosen: tuple[Plan, ...], solver: str, parameter: str) -> set[object]:
    """All that a parameter of a solver takes in plans that name it."""
    grids = [plan.solvers[solver] for plan in chosen if solver in plan.solvers]
    return {value for grid in grids for value in grid.get(parameter, ())}


def asked(chosen: tuple[Plan, ...], parameter: str) -> set[object]:
    return {value for plan in chosen for value in plan.objective[parameter]}


@cache
def described(solver: str) -> Description:
    return describe(solver.removesuffix("-sc"))


def settings(grid: Grid) -> int:
    return math.prod(len(choices) for choices in grid.values())


def runs(plan: Plan) -> int:
    data = sum(settings(grid) for grid in plan.data.values())
    return (
        data * settings(plan.objective) * plan.repeats * sum(map(settings, plan.solvers.values()))
    )


# -- what there is


def test_all_experiments_are_there_in_reading_order() -> None:
    assert list(EXPERIMENTS) == NAMES
    assert all(name == experiment.name for name, experiment in EXPERIMENTS.items())


def test_find_knows_names_and_suggests_the_nearest() -> None:
    assert find("amp-fig2") is EXPERIMENTS["amp-fig2"]
    with pytest.raises(ValueError, match=r"did you mean 'outpert-table3'\?") as error:
        find("outprt-table3")
    assert all(name in str(error.value) for name in NAMES)


@every
def test_an_experiment_says_what_it_is(experiment: Experiment) -> None:
    for text in (experiment.title, experiment.source, experiment.question, *experiment.notes):
        assert text == text.strip() != ""
    assert experiment.question.endswith("?")
    assert experiment.notes


@every
def test_panels_show_what_runs_have(experiment: Experiment) -> None:
    shown = experiment.panels
    parameters = {name for plan in plans(experiment) for g in plan.solvers.values() for name in g}
    assert {shown.x, *shown.lines} <= {*COLUMNS, *parameters}
    assert set(shown.measures) <= set(COLUMNS)
    if shown.x not in ("epsilon", "at"):
        for chosen in (experiment.plans, experiment.quick, experiment.medium):
            assert any(len(values(chosen, solver, shown.x)) > 1 for solver in METHODS)


# -- made of things that exist


@every
def test_data_sets_are_known(experiment: Experiment) -> None:
    for plan in plans(experiment):
        for name, grid in plan.data.items():
            if name in GENERATED:
                assert set(grid) <= {"rows", "features"}
            else:
                assert name in {*datasets.names(), "mnist-zero"}
                assert set(grid) <= {"rows", "columns", "unit"}


@every
def test_objectives_are_complete_and_can_be_made(experiment: Experiment) -> None:
    for plan in plans(experiment):
        assert set(plan.objective) == OBJECTIVE
        Task(None, **{name: choices[0] for name, choices in plan.objective.items()})  # type: ignore[arg-type]
        assert asked((plan,), "relation") <= {"add_remove", "replace_one"}
        assert asked((plan,), "loss") <= {"logistic", "huber-hinge", "hinge", "huber"}
        assert all(isinstance(x, float) or x == "1/n^2" for x in asked((plan,), "delta"))


def test_every_parameter_of_a_solver_exists() -> None:
    for experiment, solver, grid in solver_grids():
        if solver in WITHOUT_PARAMETERS:
            known: set[str] = set()
        elif solver in OTHERS:
            known = OTHERS[solver]
        else:
            own = described(solver).parameters
            known = {*own, "alpha", "norm", *EXTRA.get(solver, ())}
        assert set(grid) <= known, (experiment, solver)


def test_every_setting_is_one_that_the_solver_takes() -> None:
    seen: set[tuple[object, ...]] = set()
    for _, solver, grid in solver_grids():
        if solver in WITHOUT_PARAMETERS or solver in OTHERS:
            continue
        kind = resolve(solver.removesuffix("-sc"))
        fields = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
        fixed = {"mode": "strongly-convex"} if solver.endswith("-sc") else {}
        for name in fields & set(grid):
            for value in grid[name]:
                if (solver, name, value) not in seen:
                    seen.add((solver, name, value))
                    dataclasses.replace(kind, **fixed, **{name: value})  # type: ignore[type-var]
    assert len(seen) > 100


def test_methods_run_under_relations_that_they_have_a_proof_for() -> None:
    for experiment in EXPERIMENTS.values():
        for plan in plans(experiment):
            for solver in plan.solvers:
                if solver not in WITHOUT_PARAMETERS and solver not in OTHERS:
                    proved = described(solver).relations
                    assert asked((plan,), "relation") <= set(proved), (experiment.name, solver)


@every
def test_a_line_that_is_not_tuned_has_one_setting_at_a_point(experiment: Experiment) -> None:
    apart = {"calibration", "base", "updates", experiment.panels.x, *experiment.panels.lines}
    for plan in plans(experiment):
        for solver, grid in plan.solvers.items():
            several = {name for name, choices in grid.items() if len(choices) > 1}
            assert plan.tuning == "grid" or several <= apart, solver


# -- small when quick


@every
def test_quick_forms_are_small_and_need_no_files(experiment: Experiment) -> None:
    assert sum(map(runs, experiment.quick)) <= 150
    assert any(name in GENERATED for plan in experiment.quick for name in plan.data)
    for plan in experiment.quick:
        assert plan.repeats in (2, 3)
        assert all(max(grid["rows"]) <= 4000 for grid in plan.data.values())
    assert sum(map(runs, experiment.plans)) > 3 * sum(map(runs, experiment.quick))


@every
def test_quick_forms_are_of_the_same_kind(experiment: Experiment) -> None:
    solvers = {name for plan in experiment.plans for name in plan.solvers}
    assert {name for plan in experiment.quick for name in plan.solvers} <= solvers
    for parameter in ("loss", "relation", "test", "intercept", "delta"):
        assert asked(experiment.quick, parameter) <= asked(experiment.plans, parameter)


# -- complete when medium


@every
def test_medium_forms_have_the_methods_and_data_sets_of_the_full_ones(
    experiment: Experiment,
) -> None:
    methods = {name for plan in experiment.plans for name in plan.solvers}
    medium = {name for plan in experiment.medium for name in plan.solvers}
    assert medium <= methods
    private = set(METHODS) - {"diffprivlib", "opacus", "dp-ebm", "scikit-learn"}
    if experiment.name == "auto-table":  # SGD with other published noise, which is in dpagd-fig2
        private -= {"sgd-ma", "sgd-adv"}
    assert medium >= methods & private
    data = {name for plan in experiment.plans for name in plan.data}
    assert {name for plan in experiment.medium for name in plan.data} == data
    assert asked(experiment.medium, "loss") == asked(experiment.plans, "loss")


@every
def test_medium_forms_have_enough_repeats_and_budgets(experiment: Experiment) -> None:
    assert all(plan.repeats >= 5 for plan in experiment.medium)
    for name in {name for plan in experiment.medium for name in plan.data}:
        here = tuple(plan for plan in experiment.medium if name in plan.data)
        if experiment.name in ("amp-fig1", "amp-fig3"):  # one ε, which figures 2 and 4 have too
            curves = EXPERIMENTS[experiment.name.replace("1", "2").replace("3", "4")].medium
            assert asked(here, "epsilon") <= asked(curves, "epsilon")
        else:
            assert len(asked(here, "epsilon")) >= 4


@every
def test_the_default_runs_under_our_relation_and_the_papers_in_the_medium_form(
    experiment: Experiment,
) -> None:
    chosen = tuple(plan for plan in experiment.medium if "auto" in plan.solvers)
    if chosen:
        assert asked(chosen, "relation") == {"add_remove"} | asked(experiment.plans, "relation")


def test_the_medium_forms_fit_into_two_hours_of_one_core() -> None:
    from discreet_bench import effort

    chosen = [plan for experiment in EXPERIMENTS.values() for plan in experiment.medium]
    runs = effort.distinct(chosen)
    assert effort.seconds(runs) < 100 * 60
    alone = [effort.distinct(experiment.medium) for experiment in EXPERIMENTS.values()]
    assert len(runs) < sum(map(len, alone))  # experiments share runs


def test_a_coarse_grid_is_the_middle_and_the_ends_of_an_axis_at_a_time() -> None:
    grid = {
        "x": {"a": [1, 2, 3, 4, 5], "b": [10, 20, 30, 40], "c": [0], "d": [7, 8]},
        "y": {"e": [1, 2]},
    }
    first, second = coarse(grid)
    assert first == {
        "x": {"a": [1, 3, 5], "b": [20], "c": [0], "d": [7]},
        "y": {"e": [1, 2]},
    }
    assert second == {"x": {"a": [3], "b": [10, 40], "c": [0], "d": [7]}}
    assert coarse(grid, 1) == [first]
    third = coarse(grid, 3)[2]
    assert third == {"x": {"a": [3], "b": [20], "c": [0], "d": [8]}}


def test_coarse_grids_are_settings_of_table_2() -> None:
    for loss in ("logistic", "huber-hinge"):
        *chosen, own = amp.coarse_grids(loss)
        for solver in amp.TUNED:
            full = [each[solver] for each in amp.grids(loss) if solver in each]
            some = [each[solver] for each in chosen]
            for name, chosen_values in ((n, v) for grid in some for n, v in grid.items()):
                allowed = {value for one in full for value in one.get(name, ())}
                assert set(chosen_values) <= allowed, (solver, name)
            assert [settings(grid) for grid in some] in ([3, 2], [2, 2])
        assert set(own) == set(amp.TUNED)


def test_every_medium_grid_has_the_defaults_of_its_method() -> None:
    """Else the best of a grid could be worse than what the method does by itself."""
    for experiment in EXPERIMENTS.values():
        for plan in experiment.medium:
            if plan.tuning == "grid":
                for solver in plan.solvers:
                    assert _defaults_of(experiment, solver, "default") & _defaults_of(
                        experiment, solver, "grid"
                    ), (experiment.name, solver)


def _defaults_of(experiment: Experiment, solver: str, tuning: str) -> set[str]:
    """Settings of a solver on Adult or KDD Cup 99 with the tight calibration, as text."""
    return {
        str(sorted({**dict(zip(grid, setting, strict=True)), "calibration": "tight"}.items()))
        for plan in experiment.medium
        if plan.tuning == tuning and {"adult", "kddcup99"} & set(plan.data)
        for name, grid in plan.solvers.items()
        if name == solver
        for setting in itertools.product(*grid.values())
        if dict(zip(grid, setting, strict=True)).get("calibration", "tight") == "tight"
    }


# -- as the papers say


def test_dpagd_has_the_papers_settings() -> None:
    for name in ("dpagd-fig2", "dpagd-fig3"):
        chosen = EXPERIMENTS[name].plans
        assert {d for plan in chosen for d in plan.data} == {
            "adult",
            "bank",
            "ipums-br",
            "ipums-us",
        }
        assert asked(chosen, "epsilon") == {0.05, 0.1, 0.2, 0.4, 0.8, 1.6}
        assert asked(chosen, "delta") == {1e-8}
        assert asked(chosen, "test") == {"5-fold"}
        assert {plan.repeats for plan in chosen} == {20 * 5}
        assert values(chosen, "agd", "splits") == {60}
        assert values(chosen, "agd", "gradient_clip") == {3.0}
        assert values(chosen, "agd", "objective_clip") == {3.0}
        assert values(chosen, "objpert", "norm") == {1.0}
        rivals = {"objpert", "outpert", "privgene", "sgd-adv", "sgd-ma", "nonprivate", "majority"}
        assert rivals <= {solver for plan in chosen for solver in plan.solvers}
    assert asked(EXPERIMENTS["dpagd-fig2"].plans, "loss") == {"logistic"}
    assert asked(EXPERIMENTS["dpagd-fig3"].plans, "loss") == {"hinge", "huber-hinge"}


def test_dpagd_batches_are_the_root_of_the_training_rows() -> None:
    for plan in EXPERIMENTS["dpagd-fig2"].plans:
        if "sgd-ma" in plan.solvers:
            (name,) = plan.data
            rows = int(datasets.describe(name).rows) * 4 // 5
            (size,) = plan.solvers["sgd-ma"]["batch_size"]
            assert abs(size - math.sqrt(rows)) <= 1


def test_dpagd_on_kddcup_has_mini_batches_of_40_000_rows() -> None:
    chosen = EXPERIMENTS["dpagd-fig4"].plans
    assert asked(chosen, "delta") == {1e-12}
    assert asked(chosen, "loss") == {"logistic", "hinge", "huber-hinge"}
    for name in ("kddcup99-full", "kddcup99"):
        (rate,) = values([plan for plan in chosen if name in plan.data], "agd", "sampling_rate")
        assert isinstance(rate, float)
        assert rate * 0.8 * datasets.describe(name).rows == pytest.approx(40_000)
    assert not any("outpert" in plan.solvers for plan in chosen)


def test_dpagd_sweeps_cover_what_the_text_tells() -> None:
    assert {0.1, 0.2} < set(dpagd.SWEEPS["dpagd-fig1-gamma"][2])
    clips = dpagd.SWEEPS["dpagd-fig1-cgrad"][2]
    assert (min(clips), max(clips)) == (1.0, 16.0)
    for name, (parameter, _, chosen) in dpagd.SWEEPS.items():
        assert described("agd").parameters[parameter] in chosen  # the default is among them
        assert values(EXPERIMENTS[name].plans, "agd", parameter) == set(chosen)


def test_amp_has_table_2() -> None:
    chosen = tuple(plan for plan in EXPERIMENTS["amp-fig2"].plans if plan.tuning == "grid")
    assert values(chosen, "sgd", "alpha") == {1e-5, 1e-4, 1e-3, 1e-2, 0.0}
    assert values(chosen, "sgd", "step_size") == {0.001, 0.01, 0.1, 1.0}
    for solver, rounds in (("sgd", "iterations"), ("permutation-sgd", "passes")):
        assert values(chosen, solver, rounds) == {5, 10, 100, 1000, 5000}
        assert values(chosen, solver, "batch_size") == {50, 100, 300}
    assert values(chosen, "permutation-sgd-sc", "alpha") == {1e-5, 1e-4, 1e-3, 1e-2}
    assert values(chosen, "amp", "norm") == {0.1, 1.0, 10.0, 100.0}
    assert values(chosen, "frank-wolfe", "radius") == {1.0, 10.0}
    assert values(chosen, "amp", "output_fraction") == {0.001, 0.01, 0.1, 0.5}
    assert values(chosen, "amp", "objective_fraction") == {0.9, 0.92, 0.95, 0.98, 0.99}


def test_amp_has_the_papers_budgets_and_sizes() -> None:
    for name in ("amp-fig2", "amp-fig4"):
        chosen = EXPERIMENTS[name].plans
        epsilons = sorted(x for x in asked(chosen, "epsilon") if isinstance(x, float))
        assert epsilons == pytest.approx([0.01, 0.0316228, 0.1, 0.316228, 1.0, 3.16228, 10.0])
        assert asked(chosen, "delta") == {"1/n^2"}
        assert asked(chosen, "relation") == {"replace_one"}
        assert {plan.repeats for plan in chosen} == {10}
    many = {"covertype", "mnist"}
    for plan in EXPERIMENTS["amp-fig1"].plans:
        assert asked((plan,), "epsilon") == ({1.0} if many & set(plan.data) else {0.1})
    grids = [plan.data for plan in EXPERIMENTS["amp-fig3"].plans]
    assert next(d["synthetic-h"] for d in grids if "synthetic-h" in d) == {
        "rows": [2000],
        "features": [2000],
    }
    assert {d["mnist"]["rows"][0] for d in grids if "mnist" in d} == {65_000}
    assert {d["kddcup99"]["rows"][0] for d in grids if "kddcup99" in d} == {70_000}
    sizes = {(d["industrial"]["rows"][0], d["industrial"]["features"][0]) for d in grids
             if "industrial" in d}  # fmt: skip
    assert sizes == {(4_000_000, 23), (18_000_000, 294), (18_000_000, 20), (19_000_000, 70)}


@pytest.mark.parametrize("loss", ["logistic", "huber-hinge"])
@pytest.mark.parametrize("norm", amp.TABLE_2["clipping"])
def test_amp_leaves_out_the_steps_that_have_no_proof_and_no_other(loss: str, norm: float) -> None:
    from discreet.core import Budget
    from discreet.objectives import L2, Problem
    from discreet_bench.measures import loss_of

    problem = Problem(loss_of(loss), L2(0.0), 1000, 20, True, norm)
    allowed = amp.allowed_steps(loss, norm)
    for step in amp.TABLE_2["learning rate"]:
        solver = dataclasses.replace(resolve("permutation-sgd"), step_size=step)  # type: ignore[type-var]
        budget = Budget(1.0, 1e-6, "replace_one")
        if step in allowed:
            solver.plan(problem, budget)
        else:
            with pytest.raises(ValueError, match="too long"):
                solver.plan(problem, budget)


def test_outpert_has_table_3() -> None:
    chosen = EXPERIMENTS["outpert-table3"].plans
    assert asked(chosen, "epsilon") == {0.1, 0.5, 1.0, 2.0}
    assert asked(chosen, "delta") == {0.001}
    assert asked(chosen, "relation") == {"replace_one"}
    assert asked(chosen, "rows") == {"unit"}
    assert {plan.repeats for plan in chosen} == {100}
    assert values(chosen, "sgd-adv", "batch_size") == {50}
    for plan in chosen:
        (name,) = plan.data
        real = name in ("wine-quality", "bike-sharing")
        assert asked((plan,), "loss") == {"huber" if real else "logistic"}
        assert asked((plan,), "alpha") == {0.0, 0.5 if real else 0.1}
    assert {name for plan in chosen for name in plan.data} == set(outpert.TABLES)


def test_sgd_figures_have_the_papers_settings() -> None:
    for k in range(1, 10):
        chosen = EXPERIMENTS[f"sgd-fig{k}"].plans
        assert asked(chosen, "alpha") == {1e-4}
        assert asked(chosen, "delta") == {0.0}
        assert asked(chosen, "intercept") == {False}
        assert {plan.repeats for plan in chosen} == {20}
        assert values(chosen, "laplace-sgd", "batch_size") == values(
            chosen, "plain-sgd", "batch_size"
        )
        if k not in (7, 8):
            assert asked(chosen, "epsilon") == {1.0}
    batches = {k: values(EXPERIMENTS[f"sgd-fig{k}"].plans, "laplace-sgd", "batch_size")
               for k in range(1, 10)}  # fmt: skip
    assert batches[1] == batches[3] == batches[9] == {1, 10}
    assert batches[2] == {1, 5}
    assert batches[4] == batches[5] == {1, 2, 5, 10, 20, 50}
    assert batches[6] == {5}
    assert batches[7] == batches[8] == {1}
    for k in (4, 5):
        assert values(EXPERIMENTS[f"sgd-fig{k}"].plans, "laplace-sgd", "step_size") == {1.0, 10.0}


def test_each_pass_costs_as_much_as_the_first() -> None:
    for k in (7, 8):
        found = set()
        for plan in EXPERIMENTS[f"sgd-fig{k}"].plans:
            (passes,) = plan.solvers["laplace-sgd"]["passes"]
            assert list(plan.objective["epsilon"]) == [passes * sgd.EPSILON]
            found.add(passes)
        assert {1, 2, 10} <= found


def test_curves_end_with_the_last_batch_of_a_pass() -> None:
    for k, rows in ((1, 60_000), (2, 50_000), (3, 1372), (6, 10_000), (9, 50_000)):
        for plan in EXPERIMENTS[f"sgd-fig{k}"].plans:
            grid = plan.solvers["laplace-sgd"]
            marks, (size,) = list(grid["updates"]), grid["batch_size"]
            assert max(marks) == rows // size
            assert marks == sorted(set(marks))
            assert 8 <= len(marks) <= 10


def test_the_default_meets_every_method() -> None:
    (table,) = auto.EXPERIMENTS
    shown = {solver for plan in table.plans for solver in plan.solvers}
    assert shown == set(METHODS) - {"newton", "noisy-gd", "plain-sgd"} | {
        "tuned",
        *(name for name in WITHOUT_PARAMETERS if name.endswith("-released")),
    }
    assert asked(table.plans, "epsilon") == {0.1, 0.3, 1.0, 3.0}
    assert asked(table.plans, "relation") == {"add_remove", "replace_one"}
    assert {plan.repeats for plan in table.plans} == {10}
    for plan in table.plans:
        if plan.tuning == "grid":
            assert all(settings(grid) <= 8 for grid in plan.solvers.values())
