"""SGD without noise and noisy descent with fixed steps."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from discreet import LogisticRegression
from discreet.objectives import Logistic
from discreet.solvers import Progress
from discreet_bench.plain import checkpoints, fixed_steps, sgd_without_noise

pytestmark = pytest.mark.filterwarnings("ignore:random_state fixes the noise")

N, D, ALPHA = 203, 4, 0.05
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D))
Y = np.where(X @ np.array([1.0, -2.0, 0.5, 0.0]) + RNG.standard_normal(N) > 0, 1.0, -1.0)


def by_hand(
    batch: int, steps: np.ndarray, passes: int, seed: int, intercept: bool, norm: float | None
) -> np.ndarray:
    """The same walk, a row at a time, from the definition."""
    rng, rows = np.random.default_rng(seed), X.copy()
    if norm is not None:
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True) / norm, 1.0)
    if intercept:
        rows = np.hstack([rows, np.ones((N, 1))])
    weights, t = np.zeros(rows.shape[1]), 0
    for _ in range(passes):
        order = rng.permutation(N)
        for start in range(0, N - batch + 1, batch):
            if t == len(steps):
                return weights
            gradient = ALPHA * weights
            for i in order[start : start + batch]:
                gradient = (
                    gradient - Y[i] * rows[i] / (1 + np.exp(Y[i] * rows[i] @ weights)) / batch
                )
            weights, t = weights - steps[t] * gradient, t + 1
    return weights


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("batch", "passes", "updates", "intercept", "norm"),
    [
        (1, 1, None, False, 1.0),
        (10, 3, None, True, 1.0),
        (7, 2, 40, True, None),
        (5, 1, 9, False, 2.0),
    ],
)
def test_sgd_is_what_its_definition_says(
    batch: int, passes: int, updates: int | None, intercept: bool, norm: float | None, sparse: bool
) -> None:
    walk = sgd_without_noise(
        sp.csr_array(X) if sparse else X,
        Y,
        Logistic(),
        alpha=ALPHA,
        batch_size=batch,
        step_size=10.0,
        passes=passes,
        updates=updates,
        intercept=intercept,
        norm=norm,
        rng=np.random.default_rng(5),
    )
    total = passes * (N // batch) if updates is None else updates
    smoothness = ALPHA if norm is None else (norm**2 + intercept) / 4 + ALPHA
    steps = np.minimum(10 / np.sqrt(np.arange(1, total + 1)), 1 / smoothness)
    expected = by_hand(batch, steps, passes, 5, intercept, norm)
    np.testing.assert_allclose(walk, expected, rtol=1e-9, atol=1e-12)


def test_strong_steps_are_one_over_alpha_t_but_never_too_long() -> None:
    walk = sgd_without_noise(
        X,
        Y,
        Logistic(),
        alpha=ALPHA,
        schedule="strong",
        intercept=False,
        norm=1.0,
        rng=np.random.default_rng(1),
    )
    steps = np.minimum(1 / (ALPHA * np.arange(1, N + 1)), 1 / (0.25 + ALPHA))
    expected = by_hand(1, steps, 1, 1, intercept=False, norm=1.0)
    np.testing.assert_allclose(walk, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch_size": N + 1}, "batch_size must be from 1 to the number of rows, 203"),
        ({"batch_size": 10, "updates": 21}, "updates must be from 1 to 20"),
        ({"schedule": "strong", "alpha": 0.0}, "needs a penalty"),
    ],
)
def test_sgd_refuses_what_cannot_be(wrong: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sgd_without_noise(X, Y, Logistic(), rng=RNG, **{"alpha": ALPHA, **wrong})


def noisy_descent(epsilon: float) -> tuple[list[Progress], LogisticRegression]:
    seen: list[Progress] = []
    model = LogisticRegression(
        epsilon=epsilon,
        delta=1e-6,
        solver=fixed_steps(6, 0.5, gradient_clip=3.0),
        alpha=ALPHA,
        data_norm=None,
        classes=[-1, 1],
        random_state=0,
        progress=seen.append,
    )
    return seen, model.fit(X, Y)


def test_noisy_descent_is_checkpoints_where_its_gradients_were_measured() -> None:
    """With next to no noise, the noisy gradients are the true ones at the points."""
    seen, model = noisy_descent(1e6)
    points = checkpoints(seen)
    assert [point["at"] for point in points] == list(range(6))
    assert not points[0]["weights"].any()
    rows = np.hstack([X, np.ones((N, 1))])
    weights = np.zeros(D + 1)
    for point in points:
        np.testing.assert_allclose(point["weights"], weights, atol=1e-2)
        slopes = -Y / (1 + np.exp(Y * (rows @ weights)))
        lengths = np.abs(slopes) * np.linalg.norm(rows, axis=1)
        slopes /= np.maximum(lengths / 3.0, 1.0)
        gradient = rows.T @ slopes / N + ALPHA * weights
        assert point["noisy_gradient_norm"] == pytest.approx(np.linalg.norm(gradient), abs=1e-2)
        weights = weights - 0.5 * gradient
    end = np.append(model.coef_, model.intercept_)
    np.testing.assert_allclose(end, weights, atol=1e-2)


def test_noisy_descent_spends_what_was_asked() -> None:
    _, model = noisy_descent(0.5)
    assert model.guarantee_.epsilon == 0.5
    assert model.guarantee_.delta == 1e-6


def test_noise_hides_the_gradient() -> None:
    """At ε = 0.01 noise is much longer than any clipped gradient (at most 3).

    The six lengths come of 30 Gaussian numbers with deviations above 10, so that the mean of their
    squares is below 9 has a chance of P(χ² with 30 degrees < 0.6) < 1e-20.
    """
    seen, _ = noisy_descent(0.01)
    lengths = np.array([point["noisy_gradient_norm"] for point in checkpoints(seen)])
    assert np.mean(lengths**2) > 9.0
