"""Other libraries: environments, calls, and the benchmark's solvers for them."""

import math
import runpy
import sys
import threading
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.rdp import RdpAccountant

from discreet.accounting.conversions import epsilon_from_mu
from discreet_bench import rivals
from discreet_bench.rivals import RIVALS, Rival, environments, solver
from discreet_bench.rivals import __main__ as comparison
from discreet_bench.tabular import Tabular

SCRIPT = """
import os, sys, time, warnings
import numpy as np

LIBRARIES = ("numpy",)

def settings(request, n, d):
    return {"n": n, "d": d, **{key: request[key] for key in ("seed", "max_norm", "alpha")}}

def fit(X, y, request, settings):
    %s
    return np.bincount(y) / len(y)

def probabilities(model, X):
    return np.tile(model, (len(X), 1)), range(len(model))

def claim(request, model):
    return {"epsilon": request["epsilon"], "delta": request["delta"],
            "relation": request["relation"], "words": "trust me"}
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A rival whose Python is this one and whose fit is a line of text."""
    monkeypatch.setattr(solver, "python_of", lambda rival: Path(sys.executable))
    monkeypatch.setattr(solver, "ready", lambda rival: None)

    def make(line="pass", **more):
        script = tmp_path / "script.py"
        script.write_text(SCRIPT % line)
        return Rival("fake", (), (), script, **more)

    return make


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 3))
    return X, (X[:, 0] > 0.75).astype(int), rng.uniform(size=(7, 3))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DISCREET_RIVALS", str(tmp_path / "rivals"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    (tmp_path / "wheels").mkdir()
    return tmp_path / "rivals"


def problem(**changes):
    return {
        "epsilon": 1.0, "delta": 1e-6, "relation": "add_remove", "loss": "logistic",
        "bounds": [[0.0, 1.0]] * 3, **changes,
    }  # fmt: skip


# -- calls


def test_a_fit_comes_back_with_scores_and_what_was_set(fake, rows):
    X, y, X_test = rows
    answer = rivals.fit(fake(), X, y, X_test, **problem(seed=3, alpha=0.5))
    np.testing.assert_allclose(answer.scores, np.tile([1 - y.mean(), y.mean()], (7, 1)))
    assert 0 <= answer.seconds < 5
    assert answer.settings == {
        "n": 60, "d": 3, "seed": 3, "alpha": 0.5, "max_norm": pytest.approx(3**0.5), "warnings": [],
    }  # fmt: skip
    assert answer.versions["numpy"] == np.__version__
    assert answer.claim == rivals.Claim(1.0, 1e-6, "add_remove", "trust me")


def test_only_the_fit_is_timed(fake, rows):
    slow_fit = rivals.fit(fake("time.sleep(0.5)"), *rows, **problem())
    assert slow_fit.seconds >= 0.5
    script = fake().script
    text = script.read_text().replace("LIBRARIES", "time.sleep(0.5)\nLIBRARIES", 1)
    text = text.replace("    return np.tile", "    time.sleep(0.5)\n    return np.tile")
    script.write_text(text)
    slow_rest = rivals.fit(Rival("fake", (), (), script), *rows, **problem())
    assert slow_rest.seconds < 0.4


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_memory_of_the_fit_is_measured(fake, rows):
    grown = rivals.fit(fake("np.ones(50 << 17).sum()"), *rows, **problem())  # 50 MiB
    assert 45 < grown.peak_mb < 80


def test_a_class_without_training_rows_gets_a_column(fake, rows):
    X, y, X_test = rows
    answer = rivals.fit(fake(), X, y, X_test, classes=4, **problem())
    assert answer.scores.shape == (7, 4)
    assert np.all(answer.scores[:, 2:] == 0)


def test_the_library_s_warnings_are_kept(fake, rows):
    line = "[warnings.warn('take care', UserWarning) for _ in range(3)]"
    assert rivals.fit(fake(line), *rows, **problem()).settings["warnings"] == [
        "UserWarning: take care"
    ]


def test_a_given_norm_is_passed_on_and_an_infinite_one_comes_from_the_bounds(fake, rows):
    given = rivals.fit(fake(), *rows, max_norm=1.5, **problem())
    assert given.settings["max_norm"] == 1.5
    bounds = [[-2.0, 1.0], [0.0, 1.0], [0.0, 2.0]]
    found = rivals.fit(fake(), *rows, max_norm=np.inf, **problem(bounds=bounds))
    assert found.settings["max_norm"] == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("raise ValueError('no such thing\\nand more')", "fake failed: ValueError: no such thing"),
        ("os._exit(3)", "fake failed: it ended with code 3 and no message"),
        ("sys.exit('gone')", "fake failed: gone"),
    ],
)
def test_a_failed_fit_says_why(fake, rows, line, said):
    with pytest.raises(RuntimeError, match="fake failed") as caught:
        rivals.fit(fake(line), *rows, **problem())
    assert str(caught.value) == said


def test_scores_that_are_not_numbers_are_refused(fake, rows):
    with pytest.raises(RuntimeError, match="not all finite"):
        rivals.fit(fake("return np.array([np.nan, 1.0])"), *rows, **problem())


def test_a_fit_that_takes_too_long_is_ended(fake, rows):
    with pytest.raises(TimeoutError, match=r"fake took more than 0\.5 seconds"):
        rivals.fit(fake("time.sleep(60)"), *rows, timeout=0.5, **problem())


def test_nothing_of_this_process_leaks_into_the_rival_s(fake, rows, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "intruder.py").touch()
    with pytest.raises(RuntimeError, match="No module named 'intruder'"):
        rivals.fit(fake("import intruder"), *rows, **problem())


def test_sparse_rows_are_the_same_as_dense_ones(fake, rows):
    X, y, X_test = rows
    line = "return np.array([X.sum(), X[5, 1]]) "
    dense = rivals.fit(fake(line), X, y, X_test, **problem())
    sparse = rivals.fit(fake(line), sp.csr_array(X), y, sp.csr_array(X_test), **problem())
    np.testing.assert_array_equal(sparse.scores, dense.scores)


def test_sparse_rows_that_are_too_large_are_refused(fake):
    X = sp.csr_array((1_000_000, 100_000))
    with pytest.raises(ValueError, match=r"sparse rows are 745\.1 GiB as a dense array"):
        rivals.fit(fake(), X, np.arange(1_000_000) % 2, X, **problem(bounds=np.zeros((100_000, 2))))


@pytest.mark.parametrize("bounds", [[[0.0, 1.0]] * 2, [[0.0, np.inf]] * 3])
def test_bounds_must_fit_the_columns(fake, rows, bounds):
    with pytest.raises(ValueError, match="3 pairs of finite numbers are needed"):
        rivals.fit(fake(), *rows, **problem(bounds=bounds))


def test_a_rival_that_is_not_installed_is_named(rows, cache):
    with pytest.raises(RuntimeError, match=r"opacus is not installed in .*rivals"):
        rivals.fit("opacus", *rows, **problem())


def test_several_budgets_are_fitted_in_one_process(fake, rows):
    line = "return np.array([os.getpid(), request['epsilon']])"
    answers = rivals.fit_budgets(
        fake(line), *rows, epsilons=[0.5, 2.0], delta=1e-6, relation="add_remove",
        bounds=[[0.0, 1.0]] * 3,
    )  # fmt: skip
    assert [answer.scores[0, 1] for answer in answers] == [0.5, 2.0]
    assert [answer.claim.epsilon for answer in answers] == [0.5, 2.0]
    assert answers[0].scores[0, 0] == answers[1].scores[0, 0]


# -- claims


def test_a_claim_of_gaussian_mechanisms_is_recomputed():
    claim = rivals.Claim(1.0, 1e-6, "add_remove", "", [(8.0, 1.0, 1), (16.0, 1.0, 100)])
    exact = epsilon_from_mu(math.sqrt(1 / 64 + 100 / 256), 1e-6)
    assert rivals.recomputed_epsilon(claim) == pytest.approx(exact, rel=0.01)


def test_a_claim_of_sampled_steps_is_recomputed():
    claim = rivals.Claim(1.0, 1e-5, "add_remove", "", [(1.5, 0.05, 200)])
    accountant = RdpAccountant()
    accountant.compose(PoissonSampledDpEvent(0.05, GaussianDpEvent(1.5)), 200)
    bound = accountant.get_epsilon(1e-5)
    assert 0.75 * bound < rivals.recomputed_epsilon(claim) < bound


def test_a_claim_without_gaussian_mechanisms_cannot_be_recomputed():
    assert np.isnan(rivals.recomputed_epsilon(rivals.Claim(1.0, 0.0, "replace_one", "")))
    assert np.isnan(rivals.recomputed_epsilon(rivals.Claim(None, None, None, "")))


def test_categories_are_one_column_for_dp_ebm(monkeypatch):
    library = types.ModuleType("interpret.privacy")
    library.DPExplainableBoostingClassifier = None
    monkeypatch.setitem(sys.modules, "interpret", types.ModuleType("interpret"))
    monkeypatch.setitem(sys.modules, "interpret.privacy", library)
    script = runpy.run_path(str(RIVALS["dp-ebm"].script))
    X = np.array([[0.3, 1, 0, 0, 0.7, 0, 1], [0.4, 0, 0, 1, 0.8, 0, 0]])
    table, kinds, single = script["columns"](X, [[1, 4], [5, 7]])
    np.testing.assert_array_equal(table, [[0.3, 0.7, 1, 2], [0.4, 0.8, 3, 0]])
    assert kinds == ["continuous", "continuous", "nominal", "nominal"]
    assert single.tolist() == [0, 4]


# -- the comparison


def made(method, epsilon, accuracy, relation="add_remove", seeds=3, problem=""):
    return [
        comparison.Run("adult", method, relation, epsilon, seed, 1e-9, accuracy + seed, 0.5, 1.0,
                       epsilon, 0.9 * epsilon, problem)
        for seed in range(seeds)
    ]  # fmt: skip


def test_a_cell_in_which_a_rival_leads_is_listed():
    runs = [*made("discreet", 1.0, 80.0), *made("opacus", 1.0, 79.0), *made("dp-ebm", 1.0, 83.0)]
    won, cells, others = comparison.losses(runs, "accuracy", 2)
    assert (won, cells) == (0, 1)
    assert others == "- adult, ε = 1, add/remove: DP-EBM leads by 3.00 ± 0.00."
    table = comparison.tables(runs, "accuracy", 2)
    assert "| adult | add/remove | DP-EBM | – | – | **84.00 ± 1.00** | – |" in table
    assert "| adult | add/remove | discreet | – | – | 81.00 ± 1.00 | – |" in table


def test_a_refused_budget_is_shown_and_the_others_are_measured(fake, monkeypatch):
    rival = fake("1 / (request['epsilon'] > 0.2)")
    monkeypatch.setitem(RIVALS, "opacus", rival)
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 3)).astype(np.float32)
    small = Tabular("adult", X, (X[:, 0] > 0.6).astype(int))
    monkeypatch.setattr(comparison, "tabular", lambda name: small)
    done = {comparison.Run("adult", "opacus", "add_remove", 3.0, 0, *[0.0] * 6).key}
    runs = list(comparison.measure("adult", 1, [0.1, 1.0, 3.0], ["opacus", "majority"], done))
    assert [(run.method, run.epsilon) for run in runs] == [
        ("opacus", 0.1), ("opacus", 1.0), ("majority", np.inf),
    ]  # fmt: skip
    assert runs[0].problem == "fake failed: ZeroDivisionError: division by zero"
    assert runs[1].problem == ""
    assert runs[1].accuracy == runs[2].accuracy
    assert "| refused |" in comparison.tables(runs, "accuracy", 2)


# -- which problems a library takes


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("diffprivlib", {}, "claims replace_one only"),
        ("diffprivlib", {"loss": "hinge"}, "logistic loss only"),
        ("opacus", {"relation": "replace_one"}, "claims add_remove only"),
        ("opacus", {"delta": 0.0}, "needs delta > 0"),
        ("dp-ebm", {"n_classes": 3}, "takes 2 classes, not 3"),
        ("dp-ebm", {"delta": 0.0}, "needs delta > 0"),
        ("scikit-learn", {"loss": "squared"}, "logistic loss only"),
    ],
)
def test_problems_that_a_library_does_not_take(name, changes, reason):
    given = {"n_classes": 2, **problem(**changes)}
    assert reason in RIVALS[name].refusal(given)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("diffprivlib", {"relation": "replace_one", "delta": 0.0, "n_classes": 5}),
        ("opacus", {"n_classes": 10}),
        ("dp-ebm", {}),
        ("scikit-learn", {"relation": "replace_one", "delta": 0.0}),
    ],
)
def test_problems_that_a_library_takes(name, changes):
    assert RIVALS[name].refusal({"n_classes": 2, **problem(**changes)}) is None


def test_every_library_has_its_script():
    assert set(RIVALS) == {"diffprivlib", "opacus", "dp-ebm", "scikit-learn", "gradient-boosting"}
    assert all(rival.script.is_file() for rival in RIVALS.values())


# -- environments


def wheel(folder, name="tinyrival", text="answer = 42\n"):
    """A wheel that pip can install without an index."""
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", text)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr(f"{info}/RECORD", "")


def test_the_folder_is_named_or_in_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("DISCREET_CACHE", str(tmp_path))
    monkeypatch.delenv("DISCREET_RIVALS", raising=False)
    assert rivals.folder() == tmp_path / "rivals"
    monkeypatch.setenv("DISCREET_RIVALS", "~/elsewhere")
    assert rivals.folder() == Path("~/elsewhere").expanduser()


@pytest.mark.process
def test_programs_side_by_side_make_one_environment(cache, tmp_path):
    wheel(tmp_path / "wheels")
    tiny = Rival("tiny", ("tinyrival>=1",), ("tinyrival",), tmp_path / "none.py")
    assert "tiny is not installed" in rivals.ready(tiny)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(rivals.install(tiny))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [None, None]
    assert rivals.ready(tiny) is None
    assert [path.name for path in cache.iterdir()] == [environments._name(tiny)]
    assert rivals.install(tiny) is None
    newer = Rival("tiny", ("tinyrival>=2",), ("tinyrival",), tmp_path / "none.py")
    assert rivals.ready(newer) is not None


@pytest.mark.process
def test_a_failed_install_leaves_nothing_and_says_why(cache, tmp_path):
    missing = Rival("gone", ("no-such-package-anywhere",), ("gone",), tmp_path / "none.py")
    reason = rivals.install(missing)
    assert reason == "ERROR: No matching distribution found for no-such-package-anywhere"
    assert list(cache.iterdir()) == []
    assert rivals.ready(missing) is not None


@pytest.mark.process
def test_a_package_that_cannot_be_imported_is_not_kept(cache, tmp_path):
    wheel(tmp_path / "wheels", text="raise ImportError('needs an older friend')\n")
    broken = Rival("broken", ("tinyrival",), ("tinyrival",), tmp_path / "none.py")
    assert rivals.install(broken) == (
        "it was installed but cannot be imported: ImportError: needs an older friend"
    )
    assert list(cache.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_a_reason(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("DISCREET_RIVALS", str(tmp_path / "file"))
    assert rivals.install(RIVALS["opacus"]).startswith("FileExistsError: ")


# -- the benchmark's solvers


def solver_of(name):
    return type("Solver", (rivals.RivalSolver,), {"name": name, "rival": name})()


def objective(rows, **changes):
    X, y, X_test = rows
    return problem(
        X=X, y=y, X_test=X_test, n_classes=2, alpha=0.0, max_norm=2.0, repeat=1, intercept=True,
        bounds=np.array([[0.0, 1.0]] * 3), target_bounds=None, **changes,
    )  # fmt: skip


def test_a_solver_skips_with_a_reason(rows, cache):
    skipped, reason = solver_of("diffprivlib").skip(**objective(rows))
    assert skipped
    assert "claims replace_one only" in reason
    skipped, reason = solver_of("opacus").skip(**objective(rows))
    assert skipped
    assert "opacus is not installed" in reason


def test_a_solver_hands_over_scores_and_the_claim(rows, fake, monkeypatch):
    monkeypatch.setattr(solver, "ready", lambda rival: None)
    monkeypatch.setitem(RIVALS, "fake", fake())
    made = solver_of("fake")
    assert made.skip(**objective(rows)) == (False, None)
    made.set_objective(**objective(rows))
    made.run(None)
    result = made.get_result()
    assert result["probabilities"].shape == (7, 2)
    assert np.all(result["scores"] < 0)  # the first class is the commoner
    assert result["epsilon_spent"] == 1.0
    assert result["variant"] == "rival"
    assert result["claim"].startswith("trust me Settings: n = 60")
    assert (result["guarantee"], result["problem"]) == (None, "")
    assert made.answer.settings["seed"] == 1
    monkeypatch.setitem(RIVALS, "fake", fake("1 / 0", private=False))
    made.run(None)
    result = made.get_result()
    assert result["scores"] is None
    assert result["problem"] == "fake failed: ZeroDivisionError: division by zero"
    assert result["variant"] == "not private"
    assert np.isnan(result["seconds"])


# -- the libraries themselves


@pytest.fixture(scope="module")
def separable():
    """Rows of which a column tells the class, up to a band in which it is chance."""
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(6000, 4))
    y = (X[:, 0] + 0.1 * rng.normal(size=6000) > 0.5).astype(int)
    return X[:5000], y[:5000], X[5000:], y[5000:]


def installed(name):
    reason = rivals.install(RIVALS[name])
    if reason is not None:
        pytest.skip(f"{name} cannot be installed: {reason}")
    return RIVALS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", list(RIVALS))
def test_a_library_learns_and_is_repeatable(name, separable):
    rival = installed(name)
    X, y, X_test, y_test = separable
    given = problem(
        relation=rival.relations[0], epsilon=5.0, delta=1e-6, bounds=[[0.0, 1.0]] * 4, seed=0
    )
    first, again = (rivals.fit(rival, X, y, X_test, **given) for _ in range(2))
    np.testing.assert_array_equal(first.scores, again.scores)
    np.testing.assert_allclose(first.scores.sum(axis=1), 1.0)
    assert np.mean(first.scores.argmax(axis=1) == y_test) > 0.8
    if rival.private:
        assert 4.5 < first.claim.epsilon <= 5.0
        assert first.claim.relation in rival.relations
        other = rivals.fit(rival, X, y, X_test, **given | {"seed": 1})
        assert not np.array_equal(other.scores, first.scores)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["diffprivlib", "opacus", "scikit-learn"])
def test_a_library_tells_several_classes_apart(name, separable):
    rival = installed(name)
    X, _, X_test, _ = separable
    given = problem(relation=rival.relations[0], epsilon=50.0, bounds=[[0.0, 1.0]] * 4, seed=0)
    answer = rivals.fit(rival, X, X[:, :3].argmax(axis=1), X_test, **given)
    assert answer.scores.shape == (1000, 3)
    assert np.mean(answer.scores.argmax(axis=1) == X_test[:, :3].argmax(axis=1)) > 0.8
