"""Seeds that can be guessed: birthday tests and what they certify."""

import math
import os

import numpy as np
import pytest

from discreet.core import Gaussian
from tests.audit.internals import Noise, SeededBits, bits_of_fits

from .all import entropy, low_entropy, low_entropy_of_fits
from .streams import Noisy, OneSeed
from .tables import QUICK, TABLE, logistic


def seeded(bits, source):
    """A mechanism whose noise is made of a seed of so many bits."""

    def mechanism(value, count):
        seeds = source.integers(2**bits, size=count)
        different, index = np.unique(seeds, return_inverse=True)
        noise = np.array([np.random.default_rng(seed).normal() for seed in different])
        return value + noise[index]

    return mechanism


@pytest.mark.parametrize(("bits", "outputs"), [(1, 20), (8, 400), (16, 2000), (20, 8000)])
def test_short_seeds_are_found(bits, outputs):
    found = low_entropy(seeded(bits, np.random.default_rng(bits)), 0.5, outputs=outputs)
    assert not found.passed
    assert "subtract" in found.text


@pytest.mark.parametrize("bits", [2, 5, 8, 12])
def test_the_certified_entropy_is_near_the_truth_and_above_it(bits):
    outputs = seeded(bits, np.random.default_rng(bits))(0.0, 8000)
    found = entropy(outputs)
    assert bits <= found.at_most <= bits + 1.5
    assert found.at_least == 0


def test_a_seed_that_is_often_the_same_is_found():
    rng = np.random.default_rng(0)
    outputs = np.where(rng.random(500) < 0.1, 7.0, rng.normal(size=500))
    found = entropy(outputs)
    assert math.log2(10) <= found.at_most < 14


def test_a_lonely_collision_still_bounds_the_entropy():
    outputs = np.arange(1000.0)
    outputs[1] = outputs[0]  # none between the halves
    found = entropy(outputs)
    assert found.different == 999
    assert found.at_most == pytest.approx(math.log2(1000 * 999 / 2 / 0.0005))


def test_no_collision_says_how_many_noises_there_are_at_least():
    found = entropy(np.arange(10_000.0))
    assert found.at_most == math.inf
    noises = 2**found.at_least
    # so many equally likely noises would have collided 999 times in 1000
    alone = np.sum(np.log1p(-np.arange(10_000) / noises))
    assert math.exp(alone) == pytest.approx(0.001, rel=0.02)
    assert found.at_least > 22


def test_ours_has_entropy():
    noise = Noise()

    def release(value, count):
        drawn = Gaussian(2.0).draw_block(noise, 1, 2 * count, sensitivity=1.0, magnitude=1.0)
        return value + drawn[0].reshape(count, 2)

    found = low_entropy(release, 0, outputs=20_000)
    assert found.passed
    assert "2^24.8" in found.text


@pytest.mark.parametrize("estimator", [*QUICK[:3], Noisy()], ids=lambda e: type(e).__name__)
def test_fits_have_entropy(estimator):
    found = low_entropy_of_fits(estimator, TABLE, fits=10)
    assert found.passed, found


@pytest.mark.parametrize("solver", ["outpert", "frank-wolfe"])
def test_fits_with_a_seed_of_one_byte_are_found(solver):
    """No collision in 120 fits: probability 3e-15."""
    with bits_of_fits(lambda: SeededBits(os.urandom(1)[0])):
        found = low_entropy_of_fits(logistic(solver), TABLE, fits=120)
    assert not found.passed


def test_fits_of_others_with_one_seed_are_found():
    assert not low_entropy_of_fits(OneSeed(), TABLE, fits=5).passed


def test_one_output_is_not_enough():
    with pytest.raises(ValueError, match="at least 2"):
        entropy([1.0])
