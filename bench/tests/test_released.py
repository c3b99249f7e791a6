"""Released code learns, has the defects it is listed for, and what is made private has not.

Statistical tests have fixed seeds; their chance of a false alarm with another seed is stated.
"""

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import beta

from discreet import LogisticRegression, PrivacyLeakWarning
from discreet.core import PermuteAndFlip
from discreet.core.bits import SeededBits, poisson_index
from discreet.core.noise import Noise
from discreet.objectives import HuberHinge, Logistic
from discreet.solvers import OutPert
from discreet_bench.released import RELEASED, Released, agd, amp, frank_wolfe, objpert, outpert, sgd
from discreet_bench.released.common import rows_of
from discreet_bench.solvers import solver_class

FILES = {f"{name}-released": method for name, method in RELEASED.items()}
CASES = [(name, loss) for name, method in RELEASED.items() for loss in method.LOSSES]


def table(n=3000, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    logits = 4 * (X @ np.array([2.0, -1.0, 0.5, 0.0][:d])) + 1
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-logits)), 1.0, -1.0)


def accuracy(method, weights, X, y):
    margins = method.prepared(X, intercept=True).margins(weights)
    return np.mean(np.where(margins > 0, 1, -1) == y)


def asked(**other):
    given = {"epsilon": 1.0, "delta": 1e-6, "loss": "logistic", "intercept": True, "seed": 0}
    return given | other


# -- all of them


@pytest.mark.parametrize(("name", "loss"), CASES)
def test_learns(name, loss):
    X, y = table()
    with pytest.warns(PrivacyLeakWarning):
        model = LogisticRegression(solver="nonprivate", classes=[-1, 1]).fit(X, y)
    found = RELEASED[name].fit(X, y, **asked(epsilon=10.0, loss=loss))
    assert found.weights.shape == (X.shape[1] + 1,)
    assert accuracy(RELEASED[name], found.weights, X, y) > model.score(X, y) - 0.03


@pytest.mark.parametrize("name", RELEASED)
def test_sparse_and_dense_rows_give_the_same(name):
    X, y = table(n=500)
    dense = RELEASED[name].fit(X, y, **asked())
    compressed = RELEASED[name].fit(sparse.csr_array(X), y, **asked())
    np.testing.assert_allclose(dense.weights, compressed.weights, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", RELEASED)
def test_says_what_is_wrong(name):
    X, y = table(n=2000)
    assert RELEASED[name].SOURCE.startswith("github.com/")
    assert all(mistake.what and mistake.effect for mistake in RELEASED[name].MISTAKES)
    found = RELEASED[name].fit(X, y, **asked())
    claim = found.claim(1.0)
    assert claim.startswith(("NOT PRIVATE.", "NO PROOF OF PRIVACY."))
    assert "Claimed ε = 1;" in claim
    assert found.why in claim
    assert found.true_epsilon is None or found.true_epsilon > 1.0


def test_refuses_losses_that_a_method_does_not_take():
    X, y = table(n=50)
    with pytest.raises(ValueError, match="Use one of logistic, huber-hinge"):
        amp.fit(X, y, **asked(loss="hinge"))


def test_claims_in_words():
    weights = np.zeros(1)
    assert "the true ε is at least 2.5." in Released(weights, 2.5, "Why.").claim(1.0)
    assert "no finite ε is true." in Released(weights, math.inf, "Why.").claim(1.0)
    assert "the true ε is not known." in Released(weights, None, "Why.").claim(1.0)


# -- DP-AGD


def refuted(select, trials=4000, sure=5e-7):
    """The ε that a selection among 21 candidates surely exceeds, by one pair and one event.

    The pair: equal losses, and a row more that has the loss 1 at all candidates but the first. The
    event: the first is chosen. Two Clopper-Pearson bounds, each wrong with probability ``sure``.
    """
    raised = np.append(0.0, np.ones(20))
    before = sum(select(np.zeros(21)) == 0 for _ in range(trials))
    after = sum(select(raised) == 0 for _ in range(trials))
    at_most = beta.ppf(1 - sure, before + 1, trials - before)
    at_least = beta.ppf(sure, after, trials - after + 1)
    return math.log(at_least / at_most)


def test_selection_breaks_its_claim_and_the_private_one_does_not():
    # False alarm: 1e-6 in either half.
    claimed, rng, noise = 0.5, np.random.default_rng(1), Noise(SeededBits(1))
    private = PermuteAndFlip(claimed, monotone=True)
    assert refuted(lambda losses: agd.choose(losses, 1 / claimed, rng)) > 3 * claimed
    assert refuted(lambda losses: private.select(-losses, sensitivity=1.0, noise=noise)) < claimed


def test_true_epsilon_of_a_selection_is_that_of_the_worst_pair():
    # 21 candidates, one of them t behind the rest: it wins with probability e^(-20 t)/21.
    rng, trials, t = np.random.default_rng(2), 200_000, 0.05
    noisy = np.append(t, np.zeros(20)) + rng.exponential(size=(trials, 21))
    share = np.mean(noisy.argmin(axis=1) == 0)
    exact = math.exp(-20 * t) / 21
    assert abs(share - exact) < 5 * math.sqrt(exact / trials)  # false alarm: 6e-7
    assert agd.selection_epsilon(t, 20) == pytest.approx(20 * t)
    # With next to no δ, one selection shows all of it.
    assert agd.least_epsilon(0.01, 20, 1, 1e-12) == pytest.approx(0.2, rel=1e-6)


def test_least_epsilon_is_far_above_the_claim():
    # 349 selections is what a claim of ε = 0.1 at δ = 1e-8 pays for.
    assert 0.7 < agd.least_epsilon(0.1 / 120, 20, 349, 1e-8) < 0.9


def test_true_epsilon_grows_with_the_claim():
    X, y = table(n=500)
    for epsilon in (0.1, 1.0):
        found = agd.fit(X, y, **asked(epsilon=epsilon))
        assert found.true_epsilon > 5 * epsilon


def test_the_step_before_the_chosen_one_is_taken(monkeypatch):
    X, y = table(n=200)
    monkeypatch.setattr(agd, "choose", lambda *_: 1)
    assert not agd.fit(X, y, **asked()).weights.any()
    chosen = iter([2])
    monkeypatch.setattr(agd, "choose", lambda *_: next(chosen, 1))
    assert np.linalg.norm(agd.fit(X, y, **asked()).weights) == pytest.approx(2.0 / 20)


def test_accepted_steps_are_charged_twice(monkeypatch):
    """By hand: an iteration of the printed code without refinement costs 2 ρ_ng + ρ_nmax."""
    X, y = table(n=200)
    counted = []
    monkeypatch.setattr(agd, "choose", lambda *_: counted.append(1) or 2)
    agd.fit(X, y, **asked(epsilon=1.0, delta=1e-8))
    each = 2 * 9.3125e-07 + 3.4722e-05  # ρ_ng and ρ_nmax of ε = 1, δ = 1e-8 and 60 splits
    assert len(counted) == pytest.approx(0.0132154 / each, abs=1.5)


def test_the_penalty_is_added_after_the_gradient_was_normalised(monkeypatch):
    X, y = np.zeros((100, 2)), np.tile([1.0, -1.0], 50)
    measurements = iter([np.array([5.0, 0, 0]), np.array([0, 5.0, 0])])
    chosen = iter([2, 2])
    monkeypatch.setattr(agd, "_noise", lambda *_: next(measurements, np.ones(3)))
    monkeypatch.setattr(agd, "choose", lambda *_: next(chosen, 1))
    weights = agd.fit(X, y, **asked()).weights
    first = np.array([-0.1, 0, 0])
    second = first - 0.1 * (np.array([0, 1.0, 0]) + 1e-3 * first)
    np.testing.assert_allclose(weights, second)


def test_only_the_first_measurement_is_kept_when_a_gradient_is_refined(monkeypatch):
    X, y = np.zeros((100, 2)), np.tile([1.0, -1.0], 50)  # the exact gradient is 0
    measurements = iter([np.array([1.0, 0, 0]), np.array([0, 1e6, 0]), np.array([0, 0, 1.0])])
    chosen = iter([0, 0, 2])
    monkeypatch.setattr(agd, "_noise", lambda *_: next(measurements, np.ones(3)))
    monkeypatch.setattr(agd, "choose", lambda *_: next(chosen, 1))
    weights = agd.fit(X, y, **asked()).weights
    direction = np.array([1.1, 0, 0.11])  # by budget; the second measurement is forgotten
    np.testing.assert_allclose(weights, -0.1 * direction / np.linalg.norm(direction))


# -- objective perturbation


def test_the_intercept_is_left_out_of_the_penalty_of_the_proof():
    X, y = table(n=2000)
    epsilon, delta = 0.5, 1e-6
    found = objpert.fit(X, y, **asked(epsilon=epsilon)).weights
    rows = objpert.prepared(X)
    np.testing.assert_allclose(rows.norms(), math.sqrt(2))  # the noise is for norm 1
    tilt = objpert.perturbation_of(np.random.default_rng(0), epsilon, delta, rows.size)
    slopes = Logistic().derivative(rows.margins(found), y)
    left = rows.combine(slopes) + tilt
    own = 2000 * 1e-3
    np.testing.assert_allclose(left[:-1], -(own + 2 / epsilon + 2) * found[:-1], atol=1e-3)
    assert left[-1] == pytest.approx(-own * found[-1], abs=1e-3)


def test_pure_noise_of_objective_perturbation_has_gamma_length():
    rng = np.random.default_rng(3)
    lengths = [np.linalg.norm(objpert.perturbation_of(rng, 0.5, 0.0, 6)) for _ in range(2000)]
    # mean 6·2/0.5 = 24, standard deviation of the mean 4·√6/√2000 = 0.22: false alarm 6e-7
    assert abs(np.mean(lengths) - 24) < 5 * 0.22


# -- output perturbation


@pytest.mark.parametrize("loss", [Logistic(), HuberHinge()], ids=lambda loss: loss.name)
def test_long_steps_drive_neighbours_apart(loss):
    n, iterations, longest = 10_000, 20, 3.6
    stable = 1 / (loss.curvature_bound * longest**2)
    hidden = 3 * iterations * 4 * stable / n
    assert outpert.distance(loss, n, longest, iterations, 4 * stable, 0.0) > 3 * hidden
    # With steps and rows as the proof has them, the published sensitivity covers it.
    stable = 1 / loss.curvature_bound
    apart = outpert.distance(loss, n, 1.0, iterations, stable, 0.0)
    assert apart <= 3 * iterations * stable / n


def test_noise_of_output_perturbation_ignores_the_rows():
    X, y = table(n=1000)
    noisy = [outpert.fit(X, y, **asked(seed=seed)).weights for seed in range(200)]
    # The spread of 1,000 numbers is found to 1/√2000 = 2.2 %. Beyond 5 times that: 6e-7.
    found = np.std(noisy, axis=0, ddof=1)
    expected = outpert.noise_scale(1000, 50, 1.0, 1.0, 1e-6)
    assert np.sqrt(np.mean(found**2)) == pytest.approx(expected, rel=0.11)
    assert outpert.noise_scale(1000, 20, 0.5, 1.0, 1e-6) == pytest.approx(
        3 * 20 * 0.5 / 1000 * math.sqrt(2 * math.log(2e6))
    )


def test_made_private_output_perturbation_refuses_long_steps():
    X, y = table(n=1000)
    model = LogisticRegression(
        epsilon=1.0,
        delta=1e-6,
        relation="add_remove",
        solver=OutPert(step_size=4 / 0.25),
        classes=[-1, 1],
        data_norm=1.0,
    )
    with pytest.raises(ValueError, match="too long"):
        model.fit(X, y)


# -- SGD


def test_batches_have_a_fixed_size_and_poisson_samples_do_not():
    rng, bits = np.random.default_rng(4), SeededBits(4)
    sizes = {len(np.unique(sgd.draw(rng, 900, 30))) for _ in range(200)}
    assert sizes == {30}
    # Sizes of the private sampler have standard deviation 5.4. That 200 are equal has a
    # probability far below 1e-6.
    assert len({len(poisson_index(900, 30 / 900, bits)) for _ in range(200)}) > 1


def _steps_within(epsilon):
    return max(k for k in sgd.STEPS if sgd.claimed(73 / 4000, k, 1e-6) <= epsilon)


def test_the_released_accountant_has_the_papers_number():
    # Lee & Kifer, section 6.3: a single update costs ε = 0.5756 at δ = 1e-8.
    assert sgd.claimed(0.005, 1, 1e-8) == pytest.approx(0.5756, abs=1e-4)
    X, y = table(n=500)
    with pytest.raises(ValueError, match="said to cost"):
        sgd.fit(X, y, **asked(epsilon=0.1))


def test_fixed_size_batches_cost_more_than_accounted():
    X, y = table(n=4000)
    for epsilon in (2.0, 10.0):
        steps = _steps_within(epsilon)
        true = sgd.pair_epsilon(sgd.SIGMA, 4000, 73, steps, 1e-6)
        assert true > 1.2 * sgd.claimed(73 / 4000, steps, 1e-6)
        found = sgd.fit(X, y, **asked(epsilon=epsilon))
        assert found.true_epsilon == (true if true > epsilon else None)
    # One batch of all rows: the pair is twice the clip apart, and nothing is sampled.
    assert sgd.pair_epsilon(4.0, 10**9, 10**9, 1, 1e-6) == pytest.approx(
        sgd.pair_epsilon(4.0 * 3, 10**9, 10**9, 9, 1e-6), rel=1e-3
    )


# -- AMP


def test_there_are_at_most_256_noises():
    X, y = table(n=40, d=2)
    outputs = {amp.fit(X, y, **asked(seed=seed)).weights.tobytes() for seed in range(520)}
    # 520 seeds miss any one byte with probability 13 %: about 222 of the 256 are expected.
    assert 180 < len(outputs) <= amp.SEEDS


def test_the_private_one_has_more_noises():
    # 257 that all differ cannot come from 256 seeds. Two equal ones: below 1e-7, at 40 bits.
    X, y = table(n=40, d=2)
    model = LogisticRegression(1.0, 1e-6, relation="replace_one", solver="amp", classes=[-1, 1])
    model.set_params(data_norm=1.0)
    assert len({model.fit(X, y).coef_.tobytes() for _ in range(257)}) == 257


def test_whoever_tries_all_noises_tells_neighbours_apart():
    X, y = table(n=40, d=2)
    changed = y.copy()
    changed[0] *= -1
    ours, theirs = (
        {amp.fit(X, labels, **asked(seed=seed)).weights.tobytes() for seed in range(100)}
        for labels in (y, changed)
    )
    assert ours.isdisjoint(theirs)


def test_smoothness_is_the_same_for_every_loss(monkeypatch):
    X, y = table(n=2000)
    monkeypatch.setattr(amp, "gaussian_factor", lambda _: 0.0)  # no noise: the penalty shows
    rows = rows_of(X, longest=1.0)
    for loss in (Logistic(), HuberHinge()):
        weights = amp.fit(X, y, **asked(loss=loss.name)).weights
        slopes = rows.combine(loss.derivative(rows.margins(weights), y))
        ridge = -(slopes @ weights) / (weights @ weights)
        assert ridge == pytest.approx(2 * 1.0 / (0.99 * 0.1), rel=1e-3)  # 2·L²/(ε₁ − ε₃)


def test_the_gradient_bound_doubles_until_it_is_met():
    def never_below(weights):
        return float(weights @ weights), np.array([1e-3])

    _, gamma = amp._descend(never_below, np.zeros(1), 1e-6)
    assert 1e-3 <= gamma < 2e-3
    with pytest.raises(RuntimeError, match="nowhere near a minimum"):
        amp._descend(lambda w: (math.nan, np.array([math.nan])), np.zeros(1), 1e-6)


# -- Frank–Wolfe


def test_noise_is_scaled_for_all_rows_although_batches_are_used(monkeypatch):
    X, y = table(n=5000)
    scales, sizes = [], []
    monkeypatch.setattr(
        frank_wolfe,
        "noise_scale",
        lambda n, *rest, real=frank_wolfe.noise_scale: scales.append(n) or real(n, *rest),
    )
    take = frank_wolfe.rows_of(X).__class__.take
    monkeypatch.setattr(
        "discreet_bench.released.common.Rows.take",
        lambda rows, which: sizes.append(len(which)) or take(rows, which),
    )
    found = frank_wolfe.fit(X, y, **asked())
    assert scales == [5000]
    assert set(sizes) == {frank_wolfe.BATCH}
    assert "scaled for all 5,000" in found.why


def test_weights_stay_in_the_ball():
    X, y = table(n=3000)
    weights = frank_wolfe.fit(X, y, **asked(radius=2.0)).weights
    assert np.abs(weights).sum() <= 2.0 + 1e-9


def test_noise_of_frank_wolfe_is_half_of_the_published_one():
    released = frank_wolfe.noise_scale(40_000, 0.1, 1e-8, 10.0, 100)
    published = 10 * math.sqrt(32 * 100 * math.log(1e8)) / (40_000 * 0.1)
    assert released == pytest.approx(published / 2)


def test_the_first_step_goes_all_the_way_to_a_corner():
    X, y = table(n=3000)
    weights = frank_wolfe.fit(X, y, **asked(iterations=1)).weights
    assert sorted(np.abs(weights)) == [0.0] * 4 + [10.0]


def test_there_are_at_most_256_runs_of_frank_wolfe():
    X, y = table(n=1200, d=2)
    given = {"iterations": 2, "epsilon": 1e-3}
    outputs = {
        frank_wolfe.fit(X, y, **asked(seed=seed, **given)).weights.tobytes() for seed in range(600)
    }
    assert len(outputs) <= 256


# -- in the benchmark


def solver_of(name):
    return solver_class(name).get_instance()


def problem(method, classes=2, **other):
    X, y = table(n=600)
    codes = (y > 0).astype(int) if classes == 2 else np.digitize(X[:, 0], [-0.3, 0.3])
    given = {
        "X": X[:500],
        "y": codes[:500],
        "X_test": X[500:],
        "n_classes": classes,
        "epsilon": 3.0,
        "delta": 1e-6,
        "relation": method.RELATION,
        "loss": "logistic",
        "alpha": 1e-4,
        "intercept": True,
        "bounds": np.array([[-1.0, 1.0]] * 4),
        "max_norm": 2.0,
        "target_bounds": None,
        "repeat": 0,
    }
    return given | other


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("classes", [2, 3])
def test_runs_as_a_solver(file, classes):
    solver, given = solver_of(file), problem(FILES[file], classes)
    assert solver.skip(**given) == (False, None)
    solver.set_objective(**given)
    solver.run(None)
    result = solver.get_result()
    assert result["problem"] == ""
    assert result["variant"] == "as released"
    assert result["guarantee"] is None
    assert result["scores"].shape == ((100,) if classes == 2 else (100, 3))
    assert ("3 models" in result["claim"]) == (classes == 3)
    if classes == 2:
        weights = result["weights"]
        rows = FILES[file].prepared(given["X_test"], intercept=True)
        np.testing.assert_allclose(result["scores"], rows.margins(weights))
        assert result["train_scores"].shape == (500,)


def test_what_the_claim_is_not_about_is_skipped():
    solver = solver_of("amp-released")
    assert solver.skip(**problem(amp, loss="hinge"))[0]
    assert "replace_one" in solver.skip(**problem(amp, relation="add_remove"))[1]
    assert solver.skip(**problem(amp, intercept=False)) == (False, None)
    assert solver_of("agd-released").skip(**problem(agd, intercept=False))[0]


def test_a_failure_is_the_result(monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("The optimiser gave up. More about it.")

    monkeypatch.setattr(amp, "fit", fails)
    solver = solver_of("amp-released")
    solver.set_objective(**problem(amp))
    solver.run(None)
    result = solver.get_result()
    assert result["scores"] is None
    assert result["variant"] == "as released"
    assert result["problem"] == "RuntimeError: The optimiser gave up."
