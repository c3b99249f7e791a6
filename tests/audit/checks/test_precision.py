"""Attacks on low bits: floating-point noise falls to them, noise on a public grid does not."""

from dataclasses import dataclass

import numpy as np
import pytest

from discreet.core import Gaussian
from discreet.core.mechanisms import Laplace
from tests.audit.internals import Noise, SeededBits

from .all import low_bits, off_grid
from .precision import finest_bit, spare_bits
from .streams import Noisy
from .tables import NEIGHBOURS, PRIVATE, QUICK, SLOW, logistic, named


def test_bits():
    values = np.array([1.0, 3.0, 0.75, 2.0**-1074, -6.0, 0.0, 1 + 2.0**-52])
    assert finest_bit(values).tolist() == [0, 0, -2, -1074, 1, 1100, -52]
    assert spare_bits(values[[0, 1, 4, 5, 6]]).tolist() == [52, 51, 51, 53, 0]


def laplace_by_inversion(value, count, rng):
    """Inverse distribution function of uniforms of 53 bits, as textbooks have it."""
    uniform = rng.random(count) - 0.5
    return value - np.sign(uniform) * np.log1p(-2 * np.abs(uniform))


NAIVE = {
    "laplace by inversion": laplace_by_inversion,
    "numpy's laplace": lambda value, count, rng: value + rng.laplace(size=count),
    "numpy's laplace, located": lambda value, count, rng: rng.laplace(value, size=count),
    "numpy's normal": lambda value, count, rng: value + rng.normal(scale=3.0, size=count),
}


@pytest.mark.parametrize("name", NAIVE)
@pytest.mark.parametrize("pair", [(0.0, 1.0), (1.0, 2.0), (0.1, 1.1)])
def test_floating_point_noise_is_refuted(name, pair):
    rng = np.random.default_rng(0)
    found = low_bits(lambda value, count: NAIVE[name](value, count, rng), pair, epsilon=1.0)
    assert not found.passed, found
    assert "depends on rows" in found.text


def test_low_bits_refute_many_times_the_promised_epsilon():
    rng = np.random.default_rng(0)
    found = low_bits(
        lambda value, count: laplace_by_inversion(value, count, rng), (0.0, 1.0), epsilon=4.0
    )
    assert not found.passed, found


@pytest.mark.parametrize("offset", [0.0, 0.1])
def test_noise_on_a_grid_that_the_value_is_not_on_is_refuted(offset):
    rng = np.random.default_rng(1)

    def grid_noise(value, count):
        return value + np.rint(rng.laplace(size=count) * 2.0**20) * 2.0**-20

    pair = (offset, offset + 1 / 3)
    assert not low_bits(grid_noise, pair, epsilon=1.0, values=pair).passed


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_single_precision_noise_is_refuted(kind):
    rng = np.random.default_rng(2)

    def single(value, count):
        return kind(value) + rng.laplace(scale=4.0, size=count).astype(np.float32)

    pair = (0.1, 0.1 + 1 / 3)
    assert not low_bits(single, pair, epsilon=1.0, values=pair).passed


@pytest.mark.parametrize("mechanism", [Gaussian(2.0), Laplace(1.0)], ids=repr)
@pytest.mark.parametrize("pair", [(0.0, 1.0), (1.0, 2.0), (0.1, 1.1)])
def test_releases_on_a_grid_stand(mechanism, pair):
    noise = Noise(SeededBits(0))

    def release(value, count):
        exact = np.full(count, value)
        drawn = mechanism.draw_block(noise, 1, count, sensitivity=1.0, magnitude=10.0)
        integers, grid, _ = drawn
        one = mechanism.release(exact[:1], sensitivity=1.0, magnitude=10.0, noise=noise)[0]
        rest = (np.rint(exact * 2.0**-grid) + integers[0]) * 2.0**grid
        return np.concatenate([one, rest[1:]])

    delta = 1e-3 if isinstance(mechanism, Gaussian) else 0.0
    found = low_bits(release, pair, epsilon=2.0, delta=delta, values=pair)
    assert found.passed, found


def test_many_single_releases_stand():
    """The curator's own way of adding noise, one release at a time."""
    mechanism, noise = Laplace(1.0), Noise(SeededBits(1))

    def release(value, count):
        return [
            mechanism.release(np.array([value]), sensitivity=1.0, magnitude=4.0, noise=noise)[0]
            for _ in range(count)
        ]

    found = low_bits(release, (0.0, 1.0), epsilon=1.2, values=(0.0, 1.0), trials=6000)
    assert found.passed, found


def test_one_leaking_number_among_several_is_found():
    rng = np.random.default_rng(3)

    def outputs(value, count):
        clean = np.rint(rng.laplace(size=(count, 2)) * 2.0**20) * 2.0**-20
        return np.column_stack([clean, value + rng.laplace(size=count)])

    found = low_bits(outputs, (0.0, 1.0), epsilon=1.0)
    assert not found.passed


@pytest.mark.parametrize(
    "estimator",
    [*(logistic(name) for name in PRIVATE if name not in SLOW), *QUICK[3:]],
    ids=named,
)
def test_ours_release_on_a_grid(estimator):
    found = off_grid(estimator, NEIGHBOURS)
    assert found.passed, found


def test_others_cannot_be_watched():
    assert off_grid(Noisy(), NEIGHBOURS) is None


@dataclass(frozen=True)
class FloatGaussian(Gaussian):
    """Gaussian noise as numpy makes it."""

    def release(self, values, *, sensitivity, magnitude, noise):
        scale = self.scale(sensitivity)
        return values + np.random.default_rng().normal(scale=scale, size=values.size), scale


@dataclass(frozen=True)
class OffGridGaussian(Gaussian):
    """Noise of the grid, and a value that is not put on it."""

    def release(self, values, *, sensitivity, magnitude, noise):
        drawn, grid, scale = self.draw_block(
            noise, 1, values.size, sensitivity=sensitivity, magnitude=magnitude
        )
        return values + drawn[0] * 2.0**grid, scale


@pytest.mark.parametrize("kind", [FloatGaussian, OffGridGaussian])
def test_an_answer_off_the_grid_is_seen(kind, monkeypatch):
    monkeypatch.setattr("discreet.solvers.gd.Gaussian", kind)
    found = off_grid(logistic("gd"), NEIGHBOURS)
    assert not found.passed
    assert "grid" in found.text
