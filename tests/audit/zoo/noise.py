"""Bugs in the noise on one number."""

import math

import numpy as np

from discreet.core.mechanisms import Laplace

from .planting import Promise, column, gaussian_scale, plant, seeded, size
from .vector_noise import release

LARGE = Promise(8.0, 0.1)


@plant(
    "the classical Gaussian constant beyond ε = 1",
    LARGE,
    "a count of 0 or 1",
    trials=4_000_000,
)
def classical_gaussian(rng, world, count, sound):
    """√(2 ln(1.25/δ))/ε is proven for ε < 1 and false for large ε; much code has it for all.

    What it lacks grows with ε and δ, so both are large here.
    """
    classical = math.sqrt(2 * math.log(1.25 / LARGE.delta)) / LARGE.epsilon
    scale = gaussian_scale(LARGE) if sound else classical
    return column(world + scale * rng.standard_normal(count))


@plant(
    "Gaussian noise for a pure promise",
    Promise(1.0),
    "a count of 0 or 1",
    trials=40_000,
)
def gaussian_as_pure(rng, world, count, sound):
    """Gaussian noise of scale Δ/ε, stated as ε-DP: the δ is forgotten, as in tutorials."""
    noise = rng.laplace(0.0, 1.0, count) if sound else rng.standard_normal(count)
    return column(world + noise)


@plant(
    "noise cut off at three scales",
    Promise(1.0),
    "a count of 0 or 1",
    trials=40_000,
)
def truncated(rng, world, count, sound):
    """Noise beyond three scales is drawn again, lest an answer look silly: well-meant code."""
    noise = rng.laplace(0.0, 1.0, count)
    if not sound:
        while (far := np.abs(noise) > 3.0).any():
            noise[far] = rng.laplace(0.0, 1.0, int(far.sum()))
    return column(world + noise)


@plant(
    "negative counts drawn again",
    Promise(1.0),
    "a count of 0 or 1",
    trials=60_000,
)
def redrawn(rng, world, count, sound):
    """Noise is drawn again until the count is not negative, where cutting at 0 would be free."""
    noisy = world + rng.laplace(0.0, 1.0, count)
    if sound:
        return column(np.maximum(noisy, 0.0))
    while (negative := noisy < 0).any():
        noisy[negative] = world + rng.laplace(0.0, 1.0, int(negative.sum()))
    return column(noisy)


@plant(
    "noise that wraps around",
    Promise(1.0),
    "a count of 0 or 1",
    trials=40_000,
)
def wrapped(rng, world, count, sound):
    """Noise in one signed byte, in units of 1/32: beyond ±4 it comes back at the other end."""
    units = np.rint(32 * rng.laplace(0.0, 1.0, count)).astype(np.int64)
    if not sound:
        units = units.astype(np.int8).astype(np.int64)
    return column(world + units / 32)


def float32_laplace(uniforms):
    """Laplace noise by inversion, from numbers in [-1, 1)."""
    return np.sign(uniforms) * -np.log1p(-np.abs(uniforms))


def out_of_reach(outputs):
    """Return 1 if no uniform number on a grid of 2^-23 gives this output from a count of 0."""
    released = outputs[:, 0].astype(np.float32)
    near = np.rint(-np.expm1(-np.abs(outputs[:, 0])) * 2.0**23)
    reached = np.zeros(released.size, dtype=bool)
    for step in range(-3, 4):
        uniforms = np.clip((near + step) * 2.0**-23, 0.0, 1 - 2.0**-23).astype(np.float32)
        reached |= float32_laplace(uniforms) == np.abs(released)
    return (~reached).astype(float)


@plant(
    "Laplace noise in floating point",
    Promise(1.0),
    "a count of 0 or 1",
    trials=4_000,
    statistics={
        "whether its last bits fit a count of 0": out_of_reach,
        "its value": lambda outputs: outputs[:, 0],
    },
)
def last_bits(rng, world, count, sound):
    """The possible last bits of noise from a float depend on the count: Mironov 2012.

    In doubles it is the same.
    """
    if sound:  # the library's own, on a public grid
        return release(Laplace(1.0), np.array([float(world)]), count, 1.0, seeded(rng))
    uniforms = (rng.integers(-(2**23), 2**23, count) * 2.0**-23).astype(np.float32)
    uniforms[uniforms == -1] = 0
    return column(np.float32(world) + float32_laplace(uniforms))


@plant(
    "noise of the local sensitivity",
    Promise(1.0, relation="replace_one"),
    "a median with close neighbours, or with far ones",
    trials=40_000,
    statistics={"size of the answer": size, "its value": lambda outputs: outputs[:, 0]},
)
def local_sensitivity(rng, world, count, sound):
    """Noise on a median in [0, 1] is scaled to its neighbours in this table: local sensitivity."""
    table = np.array([0.0, 0.0, 0.2, 1.0, 1.0] if world else [0.0, 0.0, 0.0, 0.2, 1.0])
    local = max(table[3] - table[2], table[2] - table[1])
    return column(np.median(table) + rng.laplace(0.0, 1.0 if sound else local, count))
