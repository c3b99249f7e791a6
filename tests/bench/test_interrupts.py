"""An interrupt that was swallowed comes again; afterwards everything is as before."""

import signal
import time

import pytest

from discreet.bench.interrupts import insistent_interrupts


def test_a_swallowed_interrupt_comes_again():
    before = signal.getsignal(signal.SIGINT)
    swallowed = 0
    with pytest.raises(KeyboardInterrupt), insistent_interrupts():
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            swallowed += 1
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            time.sleep(0.05)
    assert swallowed == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_nothing_is_raised_when_nobody_asks():
    with insistent_interrupts():
        time.sleep(0.3)
