"""An interrupt that was swallowed comes again; afterwards everything is as before."""

import signal
import time

import pytest

from discreet_bench.interrupts import insistent_interrupts


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
