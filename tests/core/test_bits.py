"""Where bits come from: fresh everywhere for the system's, repeatable for seeded ones."""

import multiprocessing
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest

from discreet.core.bits import SeededBits, SystemBits
from discreet.core.noise import Noise


def _draw(noise: Noise) -> bytes:
    return noise.gaussian(8, 1.0, -30).tobytes()


def _all_differ(draws: list[bytes]) -> None:
    """Eight Gaussians of 30 bits repeat with probability below 2^-200 for each pair."""
    assert len(set(draws)) == len(draws)


def _send(noise: Noise, connection) -> None:
    connection.send(_draw(noise))


def test_words_are_uniform():
    """Each bit of 20,000 words: normal bound at 6.5 deviations, 64 bits, false alarm below 1e-8."""
    for bits in (SystemBits(), SeededBits(11)):
        words = bits.words(20_000)
        assert words.dtype == np.uint64
        assert words.shape == (20_000,)
        ones = [int(((words >> np.uint64(i)) & np.uint64(1)).sum()) for i in range(64)]
        assert np.all(np.abs(np.array(ones) - 10_000) < 6.5 * np.sqrt(5_000))


def test_security_is_declared():
    assert SystemBits().secure
    assert not SeededBits(0).secure
    assert Noise().bits.secure


def test_threads_differ():
    noise = Noise()
    with ThreadPoolExecutor(4) as pool:
        _all_differ([*pool.map(_draw, [noise] * 8), _draw(noise)])


def test_forked_children_differ():
    noise = Noise()
    _draw(noise)
    draws = []
    for _ in range(3):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover
            os.write(writer, _draw(noise))
            os._exit(0)
        os.waitpid(child, 0)
        draws.append(os.read(reader, 64))
        os.close(reader)
        os.close(writer)
    _all_differ([*draws, _draw(noise)])


@pytest.mark.process
def test_multiprocessing_fork_children_differ():
    noise = Noise()
    context = multiprocessing.get_context("fork")
    draws = []
    for _ in range(2):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_send, args=(noise, sender))
        process.start()
        draws.append(receiver.recv())
        process.join()
    _all_differ([*draws, _draw(noise)])


def test_pickled_copies_differ():
    noise = Noise()
    copies = [pickle.loads(pickle.dumps(noise)) for _ in range(3)]
    assert all(copy == noise for copy in copies)
    _all_differ([_draw(copy) for copy in [noise, *copies]])


@pytest.mark.process
@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_joblib_workers_differ(backend):
    noise = Noise()

    def task(noise):
        return noise.gaussian(8, 1.0, -30).tobytes()

    draws = joblib.Parallel(n_jobs=2, backend=backend)(
        joblib.delayed(task)(noise) for _ in range(6)
    )
    _all_differ([*draws, _draw(noise)])


def test_spawn_gives_each_task_its_own_stream():
    seeded = SeededBits(3)
    children = seeded.spawn(3) + seeded.spawn(2)
    draws = [bits.words(4).tobytes() for bits in [seeded, *children]]
    _all_differ(draws)
    again = SeededBits(3)
    assert [b.words(4).tobytes() for b in [again, *again.spawn(3), *again.spawn(2)]] == draws
    assert all(_draw(Noise(bits)) for bits in SystemBits().spawn(2))


def test_seeded_bits_repeat():
    assert np.array_equal(SeededBits(7).words(100), SeededBits(7).words(100))
    assert not np.array_equal(SeededBits(7).words(100), SeededBits(8).words(100))
    bits = SeededBits(7)
    first = np.concatenate([bits.words(3), bits.words(5)])
    assert np.array_equal(first, SeededBits(7).words(8))


@pytest.mark.parametrize("seed", [-1, 1.5, None, True, "0"])
def test_bad_seeds(seed):
    with pytest.raises(ValueError, match="seed must be an integer of at least 0"):
        SeededBits(seed)
