"""Exact noise: the right distribution, the right bits, and no trace of floating point.

Statistical tests fix their seeds. ALPHA, the false-alarm probability of each over the choice of the
seed, is 1e-8, so that the whole file stays below 1e-6. OpenDP cannot be seeded; its tests have the
same probability at each run.
"""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from discreet.core import bits as quantiles
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise, _VectorReach, from_grid, grid_exponent, on_grid

ALPHA = 1e-8
IDEAL = {
    "gaussian": stats.norm,
    "laplace": stats.laplace,
    "exponential": stats.expon,
    "gumbel": stats.gumbel_r,
}
QUANTILE = {
    "gaussian": quantiles.GAUSSIAN,
    "laplace": quantiles.LAPLACE,
    "exponential": quantiles.EXPONENTIAL,
    "gumbel": quantiles.GUMBEL,
}
KINDS = list(IDEAL)


class ReplayBits:
    """Given words first, then a seeded stream."""

    secure = False

    def __init__(self, words, seed=0):
        self._given = [int(word) for word in words]
        self._rest = SeededBits(seed)

    def words(self, count):
        taken, self._given = self._given[:count], self._given[count:]
        rest = self._rest.words(count - len(taken))
        return np.concatenate([np.array(taken, dtype=np.uint64), rest])

    def spawn(self, count):
        return [self] * count


def draw(kind, size, scale, grid, seed, force=False):
    return getattr(Noise(SeededBits(seed), force), kind)(size, scale, grid)


def reference(kind, word, bits=64):
    """The quantile by textbook formulas in 80 digits, at the middle of the interval of the word."""
    with mpmath.workdps(60 + bits // 3):
        half, numerator = word >> (bits - 1), word & (2 ** (bits - 1) - 1)
        p = mpmath.ldexp(2 * numerator + 1, -bits - 1)
        if kind == "exponential":
            return -mpmath.log(2 * p)
        if kind == "laplace":
            return mpmath.log(2 * p) * (-1 if half else 1)
        if kind == "gaussian":
            return mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * p) * (1 if half else -1)
        return -mpmath.log(-mpmath.log(1 - p if half else p))


def nearest(value, steps):
    with mpmath.workdps(120):
        return int(mpmath.nint(value * steps))


def words_of_every_size(count, seed):
    """Words whose tail probability is spread evenly over the exponents down to 2^-40."""
    rng = np.random.default_rng(seed)
    numerators = [int(2 ** rng.uniform(24, 63)) for _ in range(count)]
    return [n | (int(rng.integers(2)) << 63) for n in numerators]


def exact_test(observed, probabilities):
    """Chi-square p-value after merging cells of expected count below 10 into their neighbour."""
    counts, expected = [0.0], [0.0]
    for o, e in zip(observed, probabilities * observed.sum(), strict=True):
        if expected[-1] >= 10:
            counts.append(0.0)
            expected.append(0.0)
        counts[-1] += o
        expected[-1] += e
    counts[-2:], expected[-2:] = [sum(counts[-2:])], [sum(expected[-2:])]
    return stats.chisquare(counts, np.array(expected) * sum(counts) / sum(expected)).pvalue


# The distribution


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1.0, 0.7, 3e5, 1e-200])
def test_fine_grid_has_the_ideal_distribution(kind, scale):
    """Kolmogorov-Smirnov with 10^5 draws; false-alarm probability 1e-8 each."""
    grid = grid_exponent(scale, 10 * scale)
    values = from_grid(draw(kind, 100_000, scale, grid, 1), grid) / scale
    assert stats.kstest(values, IDEAL[kind].cdf).pvalue > ALPHA


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ratio", [4.0, 1.0, 0.6, 0.25])
def test_coarse_grid_has_exact_probabilities(kind, ratio):
    """Chi-square against P(round(ratio Z) = m); false-alarm probability 1e-8 each."""
    draws = draw(kind, 200_000, ratio * 8, 3, 2)
    support = np.arange(draws.min() - 1, draws.max() + 2)
    cdf = IDEAL[kind].cdf
    probabilities = cdf((support + 0.5) / ratio) - cdf((support - 0.5) / ratio)
    assert (
        exact_test(np.bincount(draws - support[0], minlength=support.size), probabilities) > ALPHA
    )


@pytest.mark.parametrize("kind", KINDS)
def test_grid_far_coarser_than_the_noise_gives_zero(kind):
    assert not draw(kind, 1000, 1.0, 60, 3).any()
    assert not draw(kind, 50, 1.0, 60, 3, force=True).any()


@pytest.mark.parametrize("kind", KINDS)
def test_forced_refinement_has_the_same_distribution(kind):
    """Kolmogorov-Smirnov with 3,000 refined draws; false-alarm probability 1e-8 each."""
    values = from_grid(draw(kind, 3_000, 1.0, -30, 4, force=True), -30)
    assert stats.kstest(values, IDEAL[kind].cdf).pvalue > ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_draws(kind):
    """Kolmogorov-Smirnov with 10^7 draws; false-alarm probability 1e-8 each."""
    values = from_grid(draw(kind, 10_000_000, 1.0, -30, 5), -30)
    assert stats.kstest(values, IDEAL[kind].cdf).pvalue > ALPHA


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_against_opendp(kind):
    """Two-sample chi-square in 40 cells, scale 1000 steps; false-alarm probability 1e-8 each.

    OpenDP's noise is the discrete distribution, ours the rounded one: at this scale they differ by
    less than 1e-6 in any cell, far below what 20,000 draws show.
    """
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=int))
    if kind == "gaussian":
        measurement = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=1000.0)
    else:
        measurement = dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=1000.0)
    theirs = np.array(measurement([0] * 20_000))
    ours = draw(kind, 100_000, 1000.0, 0, 6)
    edges = np.quantile(ours, np.linspace(0, 1, 41)[1:-1])
    table = [np.bincount(np.searchsorted(edges, x), minlength=40) for x in (theirs, ours)]
    assert stats.chi2_contingency(table).pvalue > ALPHA


@pytest.mark.parametrize("kind", ["gumbel", "exponential"])
def test_selection_against_opendp(kind):
    """Two-sample chi-square, 4 candidates; false-alarm probability 1e-8 each."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    measure = dp.zero_concentrated_divergence() if kind == "gumbel" else dp.max_divergence()
    measurement = dp.m.make_noisy_max(*space, measure, scale=2.0)
    noise = Noise(SeededBits(7))
    scores = [0, 1, 2, 4]
    theirs = np.bincount([measurement(scores) for _ in range(5_000)], minlength=4)
    ours = np.bincount([noise.select(scores, 2.0, kind) for _ in range(5_000)], minlength=4)
    assert stats.chi2_contingency([theirs, ours]).pvalue > ALPHA


# The bits: same words, same value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1.0, 1.9, 1e-9])
def test_both_paths_agree_bit_for_bit(kind, scale):
    """The same words give the same integer, by double precision or by refinement."""
    assert np.array_equal(draw(kind, 1_000, scale, -30, 8), draw(kind, 1_000, scale, -30, 8, True))


@pytest.mark.parametrize("kind", KINDS)
def test_both_paths_agree_in_the_tails(kind):
    """Here bits after the first word matter too: each draw has its own, the same in both paths."""
    for seed, word in enumerate(words_of_every_size(500, 9)):
        fast, slow = (
            getattr(Noise(ReplayBits([word], seed), force), kind)(1, 1.0, -30)[0]
            for force in (False, True)
        )
        assert fast == slow


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("force", [False, True])
def test_against_textbook_formulas_in_high_precision(kind, force):
    words = [int(word) for word in SeededBits(10).words(300)] + words_of_every_size(100, 10)
    draws = getattr(Noise(ReplayBits(words), force), kind)(400, 1.0, -16)
    expected = [nearest(reference(kind, word), 2**16) for word in words]
    assert draws.tolist() == expected


@pytest.mark.parametrize("kind", KINDS)
def test_extreme_words(kind):
    """All bits 0 or 1, or nearly: the draw asks for more bits, and the far tail is right."""
    for first in (0, 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1):
        following = [0, 0, 12345, 678]
        noise = Noise(ReplayBits([first, *following]))
        whole = first
        for word in following:
            whole = (whole << 64) | word
        expected = reference(kind, whole, 320)
        value = int(getattr(noise, kind)(1, 1.0, -16)[0])
        assert abs(value - expected * 2**16) <= 0.5 + 1e-9


def test_gaussian_refines_beyond_the_range_of_doubles():
    """p near 2^-1280: the double start comes from the logarithm, the error stays verified."""
    uniform = quantiles.LazyUniform(2**63, ReplayBits([0] * 19 + [2**63, 7, 8]))
    value, error = quantiles.GAUSSIAN.refine(uniform)
    assert uniform.length >= 64 * 21
    with mpmath.workprec(3000):
        p = mpmath.ldexp(uniform.numerator, -uniform.length)
        tail = mpmath.erfc(mpmath.mpf(value) / mpmath.sqrt(2)) / 2
        assert abs(tail - p) / mpmath.npdf(value) <= error
    assert 41 < value < 43


@pytest.mark.parametrize("kind", KINDS)
def test_more_bits_narrow_the_interval_and_stay_inside(kind):
    for seed, word in enumerate(words_of_every_size(30, 12)):
        uniform = quantiles.LazyUniform(word, SeededBits(seed))
        value, error = QUANTILE[kind].refine(uniform)
        for _ in range(3):
            next_value, next_error = QUANTILE[kind].refine(uniform)
            assert abs(next_value - value) <= error + next_error
            assert next_error <= mpmath.ldexp(2, -uniform.length // 2)
            value, error = next_value, next_error


# The hardest cases: draws made to fall next to a rounding boundary or a tie


def distribution(kind, x):
    """The tail probability and half of a point, the inverse of ``reference``."""
    if kind == "gaussian":
        return mpmath.ncdf(-abs(x)), x > 0
    if kind in ("laplace", "exponential"):
        return mpmath.exp(-abs(x)) / 2, x > 0
    uniform = mpmath.exp(-mpmath.exp(-x))
    return min(uniform, 1 - uniform), uniform > 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_draws_next_to_a_rounding_boundary(kind):
    """The words around each boundary: no double can decide them, the bits that follow may."""
    rng = np.random.default_rng(70)
    low = 0.01 if kind == "exponential" else -2.5
    for point in rng.uniform(low, 6, size=60):
        with mpmath.workdps(60):
            boundary = (mpmath.floor(mpmath.mpf(point) * 2**30) + 0.5) / 2**30
            tail, half = distribution(kind, boundary)
            numerator = int(mpmath.floor(tail * 2**64))
        for neighbour, extra in itertools.product((-1, 0, 1), (0, 2**63, 2**64 - 1)):
            word = (numerator + neighbour) | (int(half) << 63)
            value = getattr(Noise(ReplayBits([word, extra])), kind)(1, 1.0, -30)[0]
            exact = reference(kind, (word << 64) | extra, 128)
            assert value == nearest(exact, 2**30)


@pytest.mark.parametrize("kind", ["gumbel", "exponential"])
def test_selections_next_to_a_tie(kind):
    """Scores that differ by what the noises differ, to the last bit of a double."""
    for seed in range(200):
        words = [int(word) for word in SeededBits(seed).words(3)]
        extra = [int(word) for word in SeededBits(seed).words(6)[3:]]
        whole = [(word << 64) | more for word, more in zip(words, extra, strict=True)]
        noises = [reference(kind, word, 128) for word in whole]
        scores = [float(1 - noise) * 0.75 for noise in noises]
        with mpmath.workdps(60):
            noisy = [mpmath.mpf(s) + 0.75 * z for s, z in zip(scores, noises, strict=True)]
        # The bits that follow are drawn in the order of the candidates.
        chosen = Noise(ReplayBits(words + extra)).select(scores, 0.75, kind)
        assert chosen == noisy.index(max(noisy))


@pytest.mark.parametrize("size", [1, 3, 8])
def test_vectors_next_to_a_rounding_boundary(size):
    """The scale puts one coordinate within 1e-6 of a step of the middle between two steps."""
    for seed in range(20):
        words = [int(word) for word in SeededBits(seed).words(2 * size)]
        with mpmath.workdps(60):
            normals = [reference("gaussian", word) for word in words[:size]]
            length = mpmath.fsum(reference("exponential", word) for word in words[size:])
            norm = mpmath.sqrt(mpmath.fsum(x * x for x in normals))
            ideal = [x / norm * length for x in normals]
            scale = float((mpmath.floor(abs(ideal[0]) * 2**30) + 0.5) / abs(ideal[0]) / 2**30)
            expected = [nearest(x * mpmath.mpf(scale), 2**30) for x in ideal]
        assert Noise(ReplayBits(words)).l2_norm(size, scale, -30).tolist() == expected


# The numeric bounds


@pytest.mark.parametrize("kind", KINDS)
def test_double_precision_error_is_30_times_below_its_bound(kind):
    words = words_of_every_size(3_000, 13) + [int(word) for word in SeededBits(13).words(2_000)]
    values, _ = QUANTILE[kind].approximate(np.array(words, dtype=np.uint64))
    worst = 0.0
    context = quantiles.precise_context(192)
    for word, value in zip(words, values, strict=True):
        uniform = quantiles.LazyUniform(word, SeededBits(0))
        uniform.numerator = ((uniform.numerator | 1) << 64) + 0
        uniform.length = 128
        p = context.ldexp(uniform.numerator, -128)
        exact, _ = QUANTILE[kind].precise(context, p, uniform)
        worst = max(worst, abs(float(exact - float(value))))
    print(f"{kind}: worst error {worst:.2e}, bound {quantiles.NUMERIC:.1e}")
    two_roundings = 2 * 28 * 2.0**-53  # quantiles at p >= 2^-40 are below 28
    assert 30 * worst + two_roundings <= quantiles.NUMERIC


@pytest.mark.parametrize("kind", KINDS)
def test_condition_number(kind):
    """|dq| <= 1.5 dp / p: what bits not drawn yet can do."""
    for exponent, half in itertools.product(np.linspace(1.0, 200, 60), (False, True)):
        uniform = quantiles.LazyUniform(half << 63, SeededBits(0))
        with mpmath.workprec(600):
            p = mpmath.mpf(2) ** -mpmath.mpf(exponent)
        context = quantiles.precise_context(400)
        ends = []
        for factor in (context.mpf(1), 1 - context.ldexp(1, -100)):
            uniform.length = 400
            uniform.numerator = int(context.floor(context.ldexp(context.mpf(p) * factor, 400)))
            ends.append(
                QUANTILE[kind].precise(context, context.ldexp(uniform.numerator, -400), uniform)[0]
            )
        slope = abs(ends[0] - ends[1]) * context.ldexp(1, 100)
        assert slope <= 1.4428 < quantiles.CONDITION


def test_mpmath_is_as_accurate_as_assumed():
    """erfc, exp and log at 192 bits have at least 170 right ones (64 more than any bound uses)."""
    low, high = mpmath.MPContext(), mpmath.MPContext()
    low.prec, high.prec = 192, 600
    for z in np.concatenate([np.geomspace(1e-12, 40, 300), [0.999, 1.0, 1.001, 1.999, 2.0, 2.001]]):
        z = float(z)
        for name, x in (
            ("erfc", z),
            ("exp", z * z / 2),
            ("log", 1 - min(z, 0.5)),
            ("log", z + 1e-30),
        ):
            exact, rounded = getattr(high, name)(high.mpf(x)), getattr(low, name)(low.mpf(x))
            assert abs(high.mpf(rounded) - exact) <= abs(exact) * high.ldexp(1, -170)


def test_disagreement_of_the_two_computations_is_caught(monkeypatch):
    broken = quantiles.Quantile(
        quantiles.GAUSSIAN.fast, lambda context, p, uniform: (context.mpf(1.25), 0)
    )
    with pytest.raises(ArithmeticError, match="nothing was released"):
        broken.refine(quantiles.LazyUniform(2**62, SeededBits(0)))


@pytest.mark.parametrize("kind", KINDS)
def test_few_draws_are_refined(kind, monkeypatch):
    """2^30 steps a scale: 1.4 in 10,000 expected; 2.2 of 10^6 is 6.7 deviations away."""
    refined = []
    original = Noise._round_precisely

    def counted(self, *args):
        refined.append(1)
        return original(self, *args)

    monkeypatch.setattr(Noise, "_round_precisely", counted)
    draw(kind, 1_000_000, 1.0, -30, 14)
    assert 20 < len(refined) < 220


def test_refinement_in_threads():
    """Each thread has its own precision: concurrent refinement gives what a lone one gives."""

    def task(seed):
        return draw(KINDS[seed % 4], 60, 1.0, -30, seed, force=True).tolist()

    alone = [task(seed) for seed in range(12)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(task, range(12))) == alone


# The precision attack


def off_lattice(outputs, spacing):
    """Outputs in (-1/4, 1/4) that are no multiple of the spacing.

    In double precision 1 + z within (-1/4, 1/4) is always a multiple of 2^-53, so an output off
    that lattice betrays that the value was not 1.
    """
    small = outputs[np.abs(outputs) < 0.25]
    assert small.size > 100
    return int(np.sum(small / spacing != np.rint(small / spacing)))


def test_naive_noise_is_betrayed_by_its_low_bits():
    rng = np.random.default_rng(15)
    assert off_lattice(0.0 + rng.normal(scale=1.0, size=10_000), 2.0**-53) > 1_000
    assert off_lattice(1.0 + rng.normal(scale=1.0, size=10_000), 2.0**-53) == 0


@pytest.mark.parametrize("kind", ["gaussian", "laplace", "gumbel"])
def test_exact_noise_has_the_same_lattice_for_both_neighbours(kind):
    """The same attack finds nothing, and low bits are uniform from both values.

    Chi-square of the low 6 bits of 10^5 outputs; false-alarm probability 1e-8 each.
    """
    grid = grid_exponent(1.0, 2.0)
    for seed, value in ((16, 0.0), (17, 1.0)):
        noisy = on_grid([value], grid) + draw(kind, 100_000, 1.0, grid, seed)
        released = from_grid(noisy, grid)
        assert off_lattice(released, 2.0**-53) == 0
        assert off_lattice(released, 2.0**grid) == 0
        low = np.bincount(noisy & 63, minlength=64)
        assert stats.chisquare(low).pvalue > ALPHA


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_every_output_is_reachable_from_both_neighbours(kind):
    """On a coarse grid the supports can be listed: both neighbours fill the whole centre."""
    zero = set(on_grid([0.0], -4) + draw(kind, 50_000, 1.0, -4, 18))
    one = set(on_grid([1.0], -4) + draw(kind, 50_000, 1.0, -4, 19))
    assert set(range(-16, 33)) <= zero & one


# The vector of exponential length


@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_vector_length_and_direction(size):
    """Length Gamma(size); direction uniform on the sphere; independent.

    Kolmogorov-Smirnov (1e-8 each), means at 6 deviations (2e-9 each, at most 65 of them), rank
    correlation (1e-8): false-alarm probability below 2e-7 a size.
    """
    noise = Noise(SeededBits(20 + size))
    draws = noise.l2_norm(size, 0.7, -30, count=4_000)
    vectors = from_grid(draws, -30) / 0.7
    length = np.linalg.norm(vectors, axis=1)
    units = vectors / length[:, None]
    assert stats.kstest(length, stats.gamma(size).cdf).pvalue > ALPHA
    assert np.all(np.abs(units.mean(axis=0)) < 6 / np.sqrt(size * 4_000))
    products = units[:, :, None] * units[:, None, :]
    deviation = products.std(axis=0) + 1e-12
    assert np.all(
        np.abs(products.mean(axis=0) - np.eye(size) / size) <= 6 * deviation / np.sqrt(4_000)
    )
    if size == 2:
        angle = np.arctan2(units[:, 1], units[:, 0]) / (2 * np.pi) + 0.5
        assert stats.kstest(angle, "uniform").pvalue > ALPHA
    if size > 1:
        coordinate = stats.beta((size - 1) / 2, (size - 1) / 2, loc=-1, scale=2)
        for column in (0, size - 1):
            assert stats.kstest(units[:, column], coordinate.cdf).pvalue > ALPHA
            assert stats.spearmanr(units[:, column], length).pvalue > ALPHA
            assert stats.spearmanr(units[:, column] ** 2, length).pvalue > ALPHA


def test_vector_of_size_one_is_laplace_on_a_coarse_grid():
    """Chi-square against rounded Laplace noise; false-alarm probability 1e-8."""
    noise = Noise(SeededBits(40))
    draws = noise.l2_norm(1, 1.5, 0, count=8_000)[:, 0]
    support = np.arange(draws.min() - 1, draws.max() + 2)
    cdf = stats.laplace(scale=1.5).cdf
    probabilities = cdf(support + 0.5) - cdf(support - 0.5)
    assert (
        exact_test(np.bincount(draws - support[0], minlength=support.size), probabilities) > ALPHA
    )


@pytest.mark.parametrize("size", [1, 2, 3, 10, 40])
def test_vector_paths_agree_bit_for_bit(size):
    for seed in range(12):
        fast = Noise(SeededBits(seed)).l2_norm(size, 1.3, -28)
        slow = Noise(SeededBits(seed), force_refinement=True).l2_norm(size, 1.3, -28)
        assert np.array_equal(fast, slow)


def test_vector_against_high_precision():
    """The same words through textbook formulas in 60 digits."""
    for seed, size in ((1, 1), (2, 5), (3, 20)):
        words = [int(word) for word in SeededBits(seed).words(2 * size)]
        ours = Noise(ReplayBits(words)).l2_norm(size, 2.0, -20)
        with mpmath.workdps(60):
            normals = [reference("gaussian", word) for word in words[:size]]
            length = mpmath.fsum(reference("exponential", word) for word in words[size:])
            norm = mpmath.sqrt(mpmath.fsum(x * x for x in normals))
            expected = [nearest(x / norm * length, 2**21) for x in normals]
        assert ours.tolist() == expected


@pytest.mark.parametrize("words", [[2**63 - 1, 2**63], [0, 0], [2**63 + 1, 2**63 - 1]])
def test_vector_with_extreme_words(words):
    """A Gaussian next to 0 and one of the far tail: refined until it is certain."""
    for force in (False, True):
        assert Noise(ReplayBits(words), force).l2_norm(1, 1.0, -30).shape == (1,)
        assert Noise(ReplayBits(words + words), force).l2_norm(2, 1.0, -30).shape == (2,)


def test_large_vector_is_refined_and_right():
    noise = Noise(SeededBits(50))
    vector = from_grid(noise.l2_norm(600, 1.0, -30), -30)
    assert abs(np.linalg.norm(vector) - 600) < 8 * math.sqrt(600)


# Selection


def permute_and_flip(scores, scale):
    """Probabilities by enumeration of the orders (McKenna and Sheldon 2020, algorithm 1)."""
    accept = np.exp((np.array(scores) - max(scores)) / scale)
    result = np.zeros(len(scores))
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = 1.0 / len(orders)
        for candidate in order:
            result[candidate] += reached * accept[candidate]
            reached *= 1 - accept[candidate]
    return result


@pytest.mark.parametrize(
    ("offset", "force"), [(0.0, False), (-(2.0**40), False), (1e12, True), (0.0, True)]
)
@pytest.mark.parametrize("kind", ["gumbel", "exponential"])
def test_selection_frequencies(kind, offset, force):
    """Chi-square against softmax or permute-and-flip; false-alarm probability 1e-8 each."""
    scores = offset + np.array([0.0, 0.5, 1.25])
    noise = Noise(SeededBits(60), force)
    count = 600 if force else 6_000
    chosen = np.bincount([noise.select(scores, 0.75, kind) for _ in range(count)], minlength=3)
    gaps = scores - scores.max()
    if kind == "gumbel":
        ideal = np.exp(gaps / 0.75) / np.exp(gaps / 0.75).sum()
    else:
        ideal = permute_and_flip(gaps, 0.75)
    assert stats.chisquare(chosen, ideal * count).pvalue > ALPHA


@pytest.mark.parametrize("kind", ["gumbel", "exponential"])
@pytest.mark.parametrize("score", [0.0, 1e300, -1e300, 5e-324])
def test_tied_candidates_are_equally_likely(kind, score):
    """Chi-square; false-alarm probability 1e-8 each."""
    noise = Noise(SeededBits(61))
    chosen = [noise.select(np.full(5, score), 1e-3, kind) for _ in range(5_000)]
    assert stats.chisquare(np.bincount(chosen, minlength=5)).pvalue > ALPHA


@pytest.mark.parametrize("kind", ["gumbel", "exponential"])
def test_selection_paths_agree(kind):
    for seed in range(100):
        scores = np.random.default_rng(seed).normal(size=21) * 10.0 ** (seed % 7 - 3)
        fast = Noise(SeededBits(seed)).select(scores, 1.0, kind)
        assert fast == Noise(SeededBits(seed), force_refinement=True).select(scores, 1.0, kind)


@pytest.mark.parametrize("kind", ["gumbel", "exponential"])
def test_selection_decides_noises_that_start_with_the_same_word(kind):
    """Equal first words tie in the first stage; the bits that follow decide."""
    for word in (0, 1, 2**62, 2**63, 2**64 - 1):
        winners = {
            Noise(ReplayBits([word] * 3, seed)).select([1.0, 1.0, 1.0], 1.0, kind)
            for seed in range(80)
        }
        assert winners == {0, 1, 2}  # false-alarm probability 3 (2/3)^80 = 3e-14


def test_selection_of_extreme_scores():
    largest = np.finfo(float).max
    noise = Noise()
    assert noise.select([-largest, largest], 1.0) == 1
    assert noise.select([-largest, 0.0, -largest], 2.0**-900, "exponential") == 1
    assert noise.select([1e300, 1e300 * (1 + 2.0**-52)], 1.0) == 1
    assert noise.select([0.0, 5e-324], 2.0**900) in (0, 1)
    assert noise.select([3.0], 1.0) == 0
    assert Noise(force_refinement=True).select([-largest, largest, 0.0], 1.0) == 1


def test_selection_among_a_million():
    """One candidate 40 scales ahead of a million: the others win with probability 5e-12."""
    scores = np.zeros(1_000_000)
    scores[123_456] = 40.0
    assert Noise(SeededBits(62)).select(scores, 1.0) == 123_456


# The grid


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-1000, 1000))
def test_on_grid_is_exact(value, grid):
    exact = Fraction(value) / Fraction(2) ** grid
    if abs(round(exact)) >= 2**62:
        with pytest.raises(ValueError, match=r"below 2\^62 grid steps"):
            on_grid([value], grid)
    else:
        assert on_grid([value], grid).tolist() == [round(exact)]


@given(st.integers(-(2**53), 2**53), st.integers(-1000, 900))
def test_from_grid_inverts_on_grid(integer, grid):
    back = from_grid(np.array([integer]), grid)
    assert Fraction(back[0]) == integer * Fraction(2) ** grid
    assert on_grid(back, grid).tolist() == [integer]


@given(st.floats(1e-200, 1e200), st.floats(0, 1e300))
def test_grid_exponent(scale, magnitude):
    grid = grid_exponent(scale, magnitude)
    steps = (Fraction(magnitude) + 64 * Fraction(scale)) / Fraction(2) ** grid
    assert steps < 2**61
    natural = math.frexp(scale)[1] - 31
    assert grid >= natural
    assert grid == natural or steps * 4 >= 2**61


def test_large_ratio_is_exact_too():
    """2^40 steps a scale: mostly decided by refinement, and right."""
    words = [int(word) for word in SeededBits(63).words(40)]
    ours = Noise(ReplayBits(words)).gaussian(40, 1.0, -40)
    expected = [nearest(reference("gaussian", word), 2**40) for word in words]
    assert ours.tolist() == expected


# Bad input


@pytest.mark.parametrize("kind", [*KINDS, "l2_norm"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1.0, 0), "size must be an integer from 1"),
        ((2.5, 1.0, 0), "size must be an integer"),
        ((True, 1.0, 0), "size must be an integer"),
        ((1, 0.0, 0), "scale must be a finite number"),
        ((1, -1.0, 0), "scale must be a finite number"),
        ((1, math.nan, 0), "scale must be a finite number"),
        ((1, math.inf, 0), "scale must be a finite number"),
        ((1, 1.0, 0.5), "grid must be an integer from -1000"),
        ((1, 1.0, True), "grid must be an integer from -1000"),
        ((1, 1.0, 10**9), "grid must be an integer from -1000"),
        ((1, 1.0, -42), r"scale / 2\^grid must lie between"),
        ((1, 1.0, 200), r"scale / 2\^grid must lie between"),
    ],
)
def test_bad_arguments(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(Noise(), kind)(*arguments)


@pytest.mark.parametrize("scores", [[], [math.nan, 1.0], [math.inf], [[1.0, 2.0]], 3.0])
def test_bad_scores(scores):
    with pytest.raises(ValueError, match="scores must be a vector"):
        Noise().select(scores, 1.0)


def test_bad_selection_arguments():
    with pytest.raises(ValueError, match="kind must be"):
        Noise().select([1.0], 1.0, "laplace")
    with pytest.raises(ValueError, match="scale must be a finite number"):
        Noise().select([1.0], 0.0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2.0**62])
def test_bad_values_for_the_grid(value):
    with pytest.raises(ValueError, match=r"finite and below 2\^62"):
        on_grid([0.0, value], 0)


def test_bad_grid_arguments():
    with pytest.raises(ValueError, match="integer array"):
        from_grid([0.5], 0)
    for magnitude in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="magnitude must be a finite number"):
            grid_exponent(1.0, magnitude)
    with pytest.raises(ValueError, match="scale must be a finite number"):
        grid_exponent(0.0, 1.0)


def test_the_bound_of_a_coordinate_of_vector_noise_by_hand():
    """noise.md: 1.01·(|u|·A + L·(e + |u|·E)/n); each of the three terms counts."""
    reach = _VectorReach(
        norm=4.0, length=10.0, normal_error=0.001, normal_errors=0.002, length_error=0.004
    )
    for unit in (0.0, 0.5, 1.0):
        stated = 1.01 * (unit * 0.004 + 10.0 * (0.001 + unit * 0.002) / 4.0)
        assert reach.of(unit) == pytest.approx(stated, rel=1e-12)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_bound_of_vector_noise_covers_errors_that_add_up(sign):
    """Gaussians and the length are off by all that is allowed, in the worst direction."""
    normals = np.array([3.0, 4.0, 12.0])
    length, length_error = 20.0, 1e-4
    errors = np.array([1e-4, 1e-4, 1e-4])
    norm = np.linalg.norm(normals)
    reach = _VectorReach(norm, length, errors.max(), np.linalg.norm(errors), length_error)
    assert reach.valid
    worst = np.zeros(3)
    for moves in itertools.product((-1.0, 0.0, 1.0), repeat=3):
        moved = normals + errors * moves
        ideal = (length + sign * length_error) * moved / np.linalg.norm(moved)
        worst = np.maximum(worst, np.abs(ideal - length * normals / norm))
    stated = np.array([reach.of(unit) for unit in normals / norm])
    assert (worst <= stated).all()
    assert (stated <= 4 * worst).all()
