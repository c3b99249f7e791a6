"""Experiments run with benchopt: what comes out, what is kept, what is left out."""

import json
import signal
import subprocess
import sys
import textwrap
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from discreet_bench import runs as table
from discreet_bench.benchmark import write
from discreet_bench.effort import record
from discreet_bench.experiment import Experiment, Plan
from discreet_bench.extensions import with_solvers
from discreet_bench.runner import insistent_interrupts, narrowed, run, size
from discreet_bench.solvers import solver_class, solver_names

DATA = {"synthetic-l": {"rows": [400], "features": [4]}}
OBJECTIVE = {"epsilon": [0.5, 1.0], "relation": ["add_remove"]}
EXPERIMENT = Experiment("small", "Small", "here", "Does it run?", plans=(), quick=())


def plan(**changes):
    settings = {
        "data": DATA,
        "objective": OBJECTIVE,
        "solvers": {"gd": {"iterations": [10, 20]}, "majority": {}},
        "repeats": 2,
    }
    return Plan(**(settings | changes))


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def done(cache):
    seen = []
    path = cache / "runs.parquet"
    found = run(EXPERIMENT, [plan()], path, cache=cache, watch=seen.append)
    return found, path, seen


def test_every_run_is_a_line_with_its_columns(done):
    found, path, seen = done
    runs = table.read(path)
    assert len(runs) == size(plan()) == 12
    assert list(runs.columns) == list(table.COLUMNS)
    assert set(runs["variant"]) == {"private", "not private"}
    assert set(runs["method"]) == {"gd", "majority"}
    private = runs[runs["variant"] == "private"]
    assert (private["epsilon_spent"] <= private["epsilon"]).all()
    assert (private["epsilon_recomputed"] <= 1.01 * private["epsilon"]).all()
    assert set(private["setting"]) == {'{"iterations": 10}', '{"iterations": 20}'}
    assert set(runs["repeat"]) == {0, 1}
    assert runs["seconds"].gt(0).all()
    assert (runs["n"] == 320).all()
    assert json.loads(runs["versions"].iloc[0])["benchopt"]
    assert json.loads(runs["machine"].iloc[0])["cores"] >= 1
    assert not found.failures
    assert seen[-1].done == seen[-1].total == 10  # a baseline is run once for both ε
    assert found.made == 10


def test_what_is_done_is_not_run_again(done, cache):
    _, path, _ = done
    before = table.read(path)
    again = run(EXPERIMENT, [plan()], path, cache=cache)
    assert again.made == 0
    # The noise is fresh in every run, so equal measures mean that none was made anew.
    key = ["method", "setting", "epsilon", "repeat"]
    old = before.set_index(key)["accuracy"].sort_index()
    assert old.equals(table.read(path).set_index(key)["accuracy"].sort_index())
    assert len(again.runs) == 12


def test_a_relation_without_a_proof_is_left_out_and_a_refusal_is_told(cache, tmp_path):
    solvers = {"laplace-sgd": {}, "newton": {}, "gd": {}}
    found = run(EXPERIMENT, [plan(solvers=solvers, repeats=1)], tmp_path / "r.parquet", cache=cache)
    assert set(found.runs["method"]) == {"newton", "gd"}  # Laplace SGD is for replaced rows
    refused = found.runs[found.runs["method"] == "newton"]
    assert refused["problem"].str.contains("regression").all()
    assert refused["accuracy"].isna().all()


def test_a_data_set_that_is_not_here_is_left_out_with_a_reason(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("DISCREET_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = run(EXPERIMENT, [plan(data={"bank": {}})], tmp_path / "r.parquet", cache=cache)
    assert found.runs.empty
    assert "--data-dir" in found.skipped["bank"]


def test_a_baseline_is_run_once_and_counts_for_every_budget(cache, tmp_path):
    both = {"epsilon": [0.25, 2.0, 4.0], "delta": [1e-5], "relation": ["add_remove", "replace_one"]}
    asked = [plan(objective=both, solvers={"nonprivate": {}}), plan(solvers={"nonprivate": {}})]
    found = run(EXPERIMENT, asked, tmp_path / "r.parquet", cache=cache)
    assert found.made == 2  # one per repeat, for both plans
    runs = found.runs
    assert len(runs) == 2 * (3 * 2 + 2)
    assert runs.groupby("repeat")["accuracy"].nunique().eq(1).all()
    first = runs[runs["epsilon"].isin([0.25, 2.0, 4.0])]
    assert (first["delta"] == 1e-5).all()
    assert set(first["relation"]) == {"add_remove", "replace_one"}


def test_time_and_runs_from_the_cache_are_counted(cache, tmp_path):
    asked = [plan(solvers={"gd": {"iterations": [7]}})]
    first = run(EXPERIMENT, asked, tmp_path / "r.parquet", cache=cache)
    again = run(EXPERIMENT, asked, tmp_path / "r.parquet", cache=cache)
    assert (first.made, again.made) == (4, 0)
    assert first.processor_seconds > 0
    assert again.seconds > 0
    path = tmp_path / "times.csv"
    record(path, "small", "paper", first)
    record(path, "other", "paper", first)
    record(path, "small", "paper", again)
    lines = pd.read_csv(path).set_index("experiment")
    assert list(lines["made"]) == [4, 4]  # none of the second time
    assert list(lines.index) == ["small", "other"]
    assert lines.loc["small", "runs"] == 4


def test_one_mini_batch_has_each_row_with_the_same_probability():
    solver = solver_class("privgene").get_instance(batch_rows=100)
    rows = np.arange(1000.0)[:, None]
    seen = []
    for repeat in range(40):
        problem = SimpleNamespace(repeat=repeat)
        solver.problem = problem
        X, y = solver._rows_seen(rows, rows[:, 0])
        assert np.array_equal(X[:, 0], y)
        seen.append(len(y))
    # Binomial(40 000, 0.1): beyond 5.3 standard deviations with a probability of 1e-7.
    assert abs(sum(seen) - 4000) < 5.3 * 60


SPENDER = '''
from discreet_bench.estimator import EstimatorSolver, parameters_of


class Solver(EstimatorSolver):
    """Spends a tenth more than it may."""

    name = "spender"
    solver = "gd"
    parameters = parameters_of("gd")

    def set_objective(self, **objective):
        super().set_objective(**(objective | {"epsilon": 1.1 * objective["epsilon"]}))
'''


def test_a_method_is_one_file_and_one_that_overspends_fails(cache, tmp_path):
    file = tmp_path / "spender.py"
    file.write_text(SPENDER)
    asked = with_solvers([plan(repeats=1)], [str(file)])
    found = run(EXPERIMENT, asked, tmp_path / "r.parquet", cache=cache)
    spender = found.runs[found.runs["method"] == "spender"]
    assert len(spender) == len(found.failures) == 2
    assert spender["accuracy"].isna().all()
    assert all("spent (ε" in failure for failure in found.failures)


@pytest.mark.process
def test_what_was_done_before_a_kill_is_not_run_again(tmp_path):
    """kill -9 loses the run at hand and nothing else."""
    start = "import sys; from discreet.cli.app import run; sys.exit(run(sys.argv[1:]))"
    words = [sys.executable, "-c", start, "bench", "run", "sgd-fig6", "--paper", "--repeats", "6"]
    words += ["--method", "plain-sgd", "--jobs", "1", "--no-pages", "--out", str(tmp_path)]
    first = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    done = 0
    while done < 12 and first.poll() is None:
        time.sleep(0.05)
        logs = list((tmp_path / "cache").glob("progress-*.jsonl"))
        done = sum(log.read_bytes().count(b"\n") for log in logs)
    assert first.poll() is None, "it ended before it could be killed"
    first.kill()
    first.wait()
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
    times = pd.read_csv(tmp_path / "times.csv")
    whole = 6 * 36
    assert 0 < times["made"].iloc[0] <= whole - 11
    runs = table.read(tmp_path / "sgd-fig6-paper" / "runs.parquet")
    assert len(runs.drop_duplicates(["setting", "difference", "repeat"])) == whole


def test_the_time_that_is_left_is_that_of_what_is_not_done(tmp_path, monkeypatch):
    from discreet_bench import runner

    now = [0.0]
    monkeypatch.setattr(runner.time, "monotonic", lambda: now[0])
    log, seen = tmp_path / "log", []
    counter = runner._Counter(log, [10, 10, 10], seen.append, [1.0, 3.0, 6.0])
    now[0] = 1.0
    with counter.watching(0, "cached"):
        pass  # all of it came from the cache
    assert seen[-1].seconds_left is None  # nothing was made yet
    with counter.watching(1, "made"):
        log.write_bytes(b"x\n" * 10)
        now[0] = 13.0
    # 3 units of cost took 13 seconds, 6 are left
    assert seen[-1].seconds_left == pytest.approx(26.0)
    assert (seen[-1].done, seen[-1].total) == (20, 30)


def test_a_large_plan_is_run_in_pieces_that_add_up(monkeypatch):
    from discreet_bench import runner

    monkeypatch.setattr(runner, "MOST_AT_ONCE", 5)
    wide = plan(solvers={"gd": {"iterations": [10, 20, 30], "momentum": [0.0, 0.8]}, "auto": {}})
    pieces = list(runner._pieces(wide))
    assert all(size(piece) <= 5 for piece in pieces)
    assert sum(map(size, pieces)) == size(wide)
    asked = [(p.objective["epsilon"], list(p.solvers), p.solvers.get("gd")) for p in pieces]
    assert len({str(each) for each in asked}) == len(pieces)


def test_a_table_larger_than_memory_is_left_out_with_a_reason(cache, tmp_path):
    huge = {"industrial": {"rows": [10**12], "features": [23]}}
    found = run(EXPERIMENT, [plan(data=huge)], tmp_path / "r.parquet", cache=cache)
    assert found.runs.empty
    (reason,) = found.skipped.values()
    assert "GiB of memory" in reason


def test_a_library_that_is_not_set_up_is_left_out_with_a_reason(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("DISCREET_RIVALS", str(tmp_path))
    asked = plan(solvers={"diffprivlib": {}, "majority": {}}, repeats=1)
    found = run(EXPERIMENT, [asked], tmp_path / "r.parquet", cache=cache)
    assert set(found.runs["method"]) == {"majority"}
    assert "diffprivlib" in found.skipped


def test_a_smaller_part_does_not_replace_a_larger_file(done, cache, tmp_path):
    path = tmp_path / "runs.parquet"
    run(EXPERIMENT, [plan()], path, cache=cache)
    run(EXPERIMENT, [plan(solvers={"majority": {}})], path, cache=cache)
    assert len(table.read(path)) == 4
    assert len(table.read(tmp_path / "runs.before.parquet")) == 12


def test_plans_can_be_narrowed():
    wide = plan(data={**DATA, "sphere": {}}, objective={**OBJECTIVE, "relation": ["add_remove"]})
    (kept,) = narrowed([wide], data=["sphere"], methods=["gd"], epsilons=[0.1], repeats=7)
    assert list(kept.data) == ["sphere"]
    assert list(kept.solvers) == ["gd"]
    assert kept.objective["epsilon"] == [0.1]
    assert kept.repeats == 7
    assert narrowed([wide], data=["adult"]) == []
    assert narrowed([wide], relations=["replace_one"]) == []


SLOW = """
import time
from pathlib import Path
from discreet_bench.effort import record
from discreet_bench.experiment import Experiment, Plan
from discreet_bench.runner import run

plan = Plan(
    data={{"synthetic-l": {{"rows": [400], "features": [4]}}}},
    objective={{"epsilon": [1.0], "relation": ["add_remove"]}},
    solvers={{"gd": {{"iterations": list(range(10, 410))}}}},
    repeats=1,
)
experiment = Experiment("slow", "", "", "", plans=(), quick=())
done = run(experiment, [plan], Path({path!r}), cache=Path({cache!r}))
print(done.interrupted, len(done.runs))
"""


@pytest.mark.process
def test_an_interruption_keeps_what_is_done(tmp_path):
    path, cache = tmp_path / "runs.parquet", tmp_path / "cache"
    program = textwrap.dedent(SLOW).format(path=str(path), cache=str(cache))
    work = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and work.poll() is None:
        logs = cache.glob("progress-*.jsonl")
        if sum(log.read_bytes().count(b"\n") for log in logs) >= 5:
            break
        time.sleep(0.1)
    work.send_signal(signal.SIGINT)
    out, _ = work.communicate(timeout=300)
    interrupted, count = out.split()[-2:]
    assert interrupted == "True"
    assert 4 <= int(count) < 400
    assert len(table.read(path)) == int(count)


def swallow_one_and_wait(swallowed):
    with insistent_interrupts():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            swallowed.append(True)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            time.sleep(0.05)


def test_a_swallowed_interrupt_comes_again():
    before, swallowed = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt):
        swallow_one_and_wait(swallowed)
    assert len(swallowed) == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_nothing_is_raised_when_nobody_asks():
    with insistent_interrupts():
        time.sleep(0.3)


def test_there_is_a_file_per_solver_and_no_other(tmp_path):
    stale = tmp_path / "solvers" / "stale.py"
    stale.parent.mkdir()
    stale.touch()
    folder = write(tmp_path)
    files = {path.stem.replace("_", "-") for path in (folder / "solvers").glob("*.py")}
    assert files == set(solver_names())
    from benchopt.benchmark import Benchmark

    loaded = Benchmark(folder)
    assert {made.name for made in loaded.get_solvers()} == files
    assert {made.name for made in loaded.get_datasets()} == {"generated", "given", "public"}
    for name in files:
        assert solver_class(name).name == name
        assert solver_class(name).__doc__
    mtimes = {path: path.stat().st_mtime_ns for path in folder.rglob("*.py")}
    write(tmp_path)  # nothing is written anew, so benchopt's cache stays valid
    assert mtimes == {path: path.stat().st_mtime_ns for path in folder.rglob("*.py")}
