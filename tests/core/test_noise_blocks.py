"""Vectors of noise in blocks: the same draws as one by one, and few of them refined."""

import math

import numpy as np
import pytest
from scipy import stats

import discreet.core.noise as noise_module
from discreet.core.bits import SeededBits
from discreet.core.mechanisms import Gaussian, L2Norm, Laplace
from discreet.core.noise import Noise, from_grid, on_grid


@pytest.mark.parametrize("size", [1, 2, 7, 40, 300])
def test_a_block_is_what_single_draws_give(size):
    """The same bits: none of these draws is refined on so coarse a grid."""
    block = Noise(SeededBits(3)).l2_norm(size, 1.3, -12, 20)
    alone = Noise(SeededBits(3))
    assert np.array_equal(block, [alone.l2_norm(size, 1.3, -12) for _ in range(20)])


@pytest.mark.parametrize(("size", "count"), [(1, 30), (2, 30), (3, 20), (20, 8)])
def test_forced_refinement_gives_the_same_block(size, count):
    """Refined draws take their further bits after the block's, which changes no integer."""
    fast = Noise(SeededBits(size)).l2_norm(size, 1.3, -28, count)
    slow = Noise(SeededBits(size), force_refinement=True).l2_norm(size, 1.3, -28, count)
    assert np.array_equal(fast, slow)


def test_undecided_vectors_are_refined_and_the_others_kept(monkeypatch):
    """On a very fine grid some are undecided; decided or not, the integers are the same."""
    refined = []
    original = Noise._vector_precisely

    def counting(self, *arguments):
        refined.append(1)
        return original(self, *arguments)

    forced = Noise(SeededBits(8), force_refinement=True).l2_norm(3, 1.0, -39, 40)
    monkeypatch.setattr(Noise, "_vector_precisely", counting)
    drawn = Noise(SeededBits(8)).l2_norm(3, 1.0, -39, 40)
    assert 0 < len(refined) < 40
    assert np.array_equal(drawn, forced)


def test_blocks_that_do_not_fit_the_working_size(monkeypatch):
    whole = Noise(SeededBits(4)).l2_norm(5, 1.0, -10, 33)
    monkeypatch.setattr(noise_module, "_BLOCK", 20)
    assert np.array_equal(Noise(SeededBits(4)).l2_norm(5, 1.0, -10, 33), whole)


def test_lengths_and_directions_of_a_block():
    # 5 tests at p > 1e-7: false alarm below 1e-6.
    count, size = 40_000, 6
    vectors = from_grid(Noise(SeededBits(5)).l2_norm(size, 0.7, -20, count), -20) / 0.7
    lengths = np.linalg.norm(vectors, axis=1)
    assert stats.kstest(lengths, stats.gamma(size).cdf).pvalue > 1e-7
    coordinate = stats.beta((size - 1) / 2, (size - 1) / 2, loc=-1, scale=2)
    for column in (0, 5):
        unit = vectors[:, column] / lengths
        assert stats.kstest(unit, coordinate.cdf).pvalue > 1e-7
        assert stats.spearmanr(unit**2, lengths).pvalue > 1e-7


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 1e6])
@pytest.mark.parametrize("size", [5, 100])
def test_refinement_is_rare_and_the_grid_is_nearly_free(monkeypatch, epsilon, size):
    # A vector of 100 is refined with probability about 6e-4/64 at ε = 1 and 6e-4 at ε = 0.01;
    # 50 of 5,000 at the larger of them has probability below 1e-30.
    refined = []
    monkeypatch.setattr(
        Noise, "_vector_precisely", lambda self, *a: refined.append(1) or np.zeros(size)
    )
    mechanism = L2Norm(epsilon)
    _, _, scale = mechanism.draw_block(
        Noise(SeededBits(6)), 5_000, size, sensitivity=2.0, magnitude=50.0
    )
    assert len(refined) < 50
    assert 2 / epsilon < scale <= 2 / epsilon * 1.002


@pytest.mark.parametrize("mechanism", [Gaussian(1.5), L2Norm(0.8), Laplace(0.8)])
def test_a_block_is_the_noise_of_releases(mechanism):
    values = np.linspace(-3, 3, 9)
    settings = {"sensitivity": 0.5, "magnitude": 2.0}
    released, scale = mechanism.release(values, noise=Noise(SeededBits(1)), **settings)
    integers, grid, block_scale = mechanism.draw_block(Noise(SeededBits(1)), 1, 9, **settings)
    assert block_scale == scale
    assert np.array_equal(
        released, from_grid(on_grid(np.clip(values, -2, 2), grid) + integers[0], grid)
    )
    assert mechanism.draw_block(Noise(SeededBits(1)), 4, 9, **settings)[0].shape == (4, 9)


def test_a_block_of_gaussians_has_their_scale():
    integers, grid, scale = Gaussian(3.0).draw_block(
        Noise(SeededBits(2)), 3_000, 10, sensitivity=0.5, magnitude=5.0
    )
    values = from_grid(integers, grid)
    assert scale == pytest.approx(1.5, rel=1e-6)
    # the variance of 30,000 draws is within 6 deviations of its own, √(2/30,000): p < 2e-9
    assert values.var() == pytest.approx(1.5**2, rel=6 * math.sqrt(2 / 30_000))


@pytest.mark.parametrize("count", [0, -1, 2.5, True])
def test_bad_counts(count):
    with pytest.raises(ValueError, match="count must be an integer"):
        Noise(SeededBits(0)).l2_norm(3, 1.0, -10, count)


def test_long_vectors_are_rarely_refined():
    # expected: 0.3 of 300; 20 or more have probability below 1e-25
    refined = []

    class Counting(Noise):
        def _vector_precisely(self, *arguments):
            refined.append(1)
            return np.zeros(1000)

    L2Norm(1.0).draw_block(Counting(SeededBits(7)), 300, 1000, sensitivity=1.0, magnitude=9.0)
    assert len(refined) < 20
