"""The experiments: complete, made of things that exist, small when quick, and as the papers say."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from functools import cache

import pytest

from discreet.solvers import Description, describe, resolve
from discreet_bench import datasets
from discreet_bench.data import GENERATED, SOURCES
from discreet_bench.experiment import Experiment, Grid, Plan
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
    "outpert-table1",
    "outpert-penalty",
    "rrpsgd-rounds",
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
    "plain-sgd": {"batch_size", "schedule", "step_size", "cut_steps", "passes", "updates"},
}
EXTRA = {"laplace-sgd": {"updates"}, "privgene": {"batch_rows"}}
every = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)


def plans(experiment: Experiment) -> tuple[Plan, ...]:
    return (*experiment.plans, *experiment.quick, *experiment.paper)


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
    assert experiment.notes or experiment.protocol
    for item in experiment.protocol:
        assert item.name
        assert item.paper
        assert item.here
    names = [item.name for item in experiment.protocol]
    assert len(names) == len(set(names))


@every
def test_panels_show_what_runs_have(experiment: Experiment) -> None:
    shown = experiment.panels
    parameters = {name for plan in plans(experiment) for g in plan.solvers.values() for name in g}
    assert {shown.x, *shown.lines} <= {*COLUMNS, *parameters}
    assert set(shown.measures) <= set(COLUMNS)
    if shown.x not in ("epsilon", "at", "n"):
        for chosen in (experiment.plans, experiment.paper):
            assert any(len(values(chosen, solver, shown.x)) > 1 for solver in METHODS)


# -- made of things that exist


@every
def test_data_sets_are_known(experiment: Experiment) -> None:
    for plan in plans(experiment):
        for name, grid in plan.data.items():
            if name in GENERATED:
                assert set(grid) <= {"rows", "features"}
            else:
                assert name in {*datasets.names(), *SOURCES}
                assert set(grid) <= {"rows", "columns", "unit"}


@every
def test_objectives_are_complete_and_can_be_made(experiment: Experiment) -> None:
    for plan in plans(experiment):
        assert set(plan.objective) == OBJECTIVE
        Task(None, **{name: choices[0] for name, choices in plan.objective.items()})  # type: ignore[arg-type]
        assert asked((plan,), "relation") <= {"add_remove", "replace_one"}
        assert asked((plan,), "loss") <= {"logistic", "huber-hinge", "hinge", "huber", "sigmoid"}
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


# -- the paper form


@every
def test_paper_forms_have_the_methods_and_data_sets_of_the_full_ones(
    experiment: Experiment,
) -> None:
    methods = {name for plan in experiment.plans for name in plan.solvers}
    paper = {name for plan in experiment.paper for name in plan.solvers}
    assert paper <= methods
    private = set(METHODS) - {"diffprivlib", "opacus", "dp-ebm", "scikit-learn"}
    if experiment.name == "auto-table":  # SGD with other published noise, which is in dpagd-fig2
        private -= {"sgd-ma", "sgd-adv"}
    if experiment.name == "dpagd-fig4":  # SGD with the least noise, which is in figures 2 and 3
        private -= {"sgd"}
    assert paper >= methods & private
    data = {name for plan in experiment.plans for name in plan.data}
    extra = {"reuters"} if experiment.name.startswith("amp-") else set()
    missing = data - {name for plan in experiment.paper for name in plan.data}
    assert {name for plan in experiment.paper for name in plan.data} - data <= extra
    assert missing <= {"industrial", "synthetic-h"}  # named in the protocol, or in its own figures
    assert asked(experiment.paper, "loss") == asked(experiment.plans, "loss")


@every
def test_paper_forms_have_the_papers_budgets_and_rows(experiment: Experiment) -> None:
    if experiment.name == "auto-table":  # no paper's
        return
    assert asked(experiment.paper, "epsilon") >= asked(experiment.plans, "epsilon")
    for parameter in ("test", "rows"):
        assert asked(experiment.paper, parameter) == asked(experiment.plans, parameter)
    for name in ("kddcup99", "covertype", "mnist", "adult", "bank", "mnist-zero"):
        full = {str(plan.data[name]) for plan in experiment.plans if name in plan.data}
        assert {str(plan.data[name]) for plan in experiment.paper if name in plan.data} == full


@every
def test_what_departs_from_the_protocol_has_a_name(experiment: Experiment) -> None:
    for plan in experiment.paper:
        usual = asked(experiment.plans, "intercept"), asked(experiment.plans, "delta")
        departs = not asked((plan,), "intercept") <= usual[0] or values(
            (plan,), "laplace-sgd", "cut_steps"
        ) == {True}
        assert not departs or plan.difference, experiment.name


def test_the_protocols_of_the_papers() -> None:
    for k in (1, 2, 3, 4):
        for plan in EXPERIMENTS[f"amp-fig{k}"].paper:
            assert asked((plan,), "intercept") == {plan.difference == amp.WITH_INTERCEPT}
            if "covertype" in plan.data and "amp" in plan.solvers:
                assert plan.solvers["amp"].get("one_vs_rest") == [True]
    for k in range(1, 10):
        for plan in EXPERIMENTS[f"sgd-fig{k}"].paper:
            assert values((plan,), "laplace-sgd", "cut_steps") == {plan.difference == sgd.CUT}
    for name in ("dpagd-fig2", "dpagd-fig3"):
        assert asked(EXPERIMENTS[name].paper, "epsilon") >= {0.05, 0.8}
        assert not values(EXPERIMENTS[name].paper, "privgene", "batch_rows")  # all rows
    large = EXPERIMENTS["dpagd-fig4"].paper
    assert {name for plan in large for name in plan.data} == {"kddcup99-full-dos", "kddcup99-dos"}
    assert values(large, "privgene", "batch_rows") == {40_000}
    for name in dpagd.SWEEPS:
        assert values(EXPERIMENTS[name].paper, "agd", "calibration") == {"tight", "published"}


def test_the_paper_forms_fit_into_thirty_processor_hours() -> None:
    from discreet_bench import effort

    chosen = [
        plan
        for one in EXPERIMENTS.values()
        for plan in effort.affordable(one.paper, one.cell_seconds)
    ]
    assert effort.seconds(effort.distinct(chosen)) < 30 * 3600


def test_a_cell_gets_the_repeats_that_it_can_afford() -> None:
    from discreet_bench import effort

    plan = Plan({"adult": {}, "covertype": {}}, dict(EXPERIMENTS["amp-fig1"].paper[0].objective),
                {"agd": {"calibration": ["tight", "published"]}, "privgene": {}, "majority": {},
                 "sgd": {"calibration": ["tight", "published"]}}, 100)  # fmt: skip
    found = {
        (name, solver, *grid.get("calibration", ())): one.repeats
        for one in effort.affordable([plan])
        for name in one.data
        for solver, grid in one.solvers.items()
    }
    assert found["adult", "majority"] == 100  # the paper's
    assert found["adult", "sgd", "tight", "published"] > 90
    assert 20 <= found["adult", "privgene"] < 30  # a fit of almost a second
    assert 20 <= found["adult", "agd", "published"] < found["adult", "agd", "tight"]
    assert found["covertype", "privgene"] == effort.LEAST_REPEATS
    (fewer,) = effort.affordable(
        [dataclasses.replace(plan, data={"adult": {}}, solvers={"privgene": {}})], 5.0
    )
    assert fewer.repeats == found["adult", "privgene"] // 4  # a quarter of the seconds
    grid = dataclasses.replace(plan, tuning="grid", repeats=7)
    assert effort.affordable([grid]) == [grid]


def test_the_paper_forms_grids_are_settings_of_table_2() -> None:
    for loss in ("logistic", "huber-hinge"):
        full, some = amp.grids(loss), amp.paper_grids(loss)
        assert {name for grid in some for name in grid} == {name for grid in full for name in grid}
        for solver in {name for grid in some for name in grid}:
            for parameter in {name for grid in some for name in grid.get(solver, {})}:
                allowed = {v for grid in full for v in grid.get(solver, {}).get(parameter, ())}
                chosen = {v for grid in some for v in grid.get(solver, {}).get(parameter, ())}
                assert chosen <= allowed, (solver, parameter)
        plans = [plan for plan in EXPERIMENTS["amp-fig1"].paper if plan.tuning == "grid"]
        assert {name for plan in plans for name in plan.data} == {
            "adult",
            "synthetic-l",
            "synthetic-h",
        }


# -- as the papers say


def test_dpagd_has_the_papers_settings() -> None:
    for name in ("dpagd-fig2", "dpagd-fig3"):
        chosen = EXPERIMENTS[name].plans
        assert {d for plan in chosen for d in plan.data} == {
            "adult",
            "bank",
            "ipums-br-dat",
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
    for name in ("kddcup99-full-dos", "kddcup99-dos"):
        (rate,) = values([plan for plan in chosen if name in plan.data], "agd", "sampling_rate")
        assert isinstance(rate, float)
        assert rate * 0.8 * datasets.describe(SOURCES[name]).rows == pytest.approx(40_000)
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

    problem = Problem(loss_of(loss), L2(0.0), 1000, 20, False, norm)
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
    assert asked(tuple(p for p in chosen if not p.difference), "delta") == {0.001}
    assert asked(tuple(p for p in chosen if p.difference), "delta") == {0.0}  # pure
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
