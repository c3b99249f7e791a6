"""Kill and race processes that charge a ledger and fit: ``python tools/check_ledger.py --help``.

Workers fit small models in a loop, each fit with a token that its entry has as purpose. A worker
writes the token to a file when its model has read the rows. They are killed with SIGKILL at random
moments. After each round: every token in the file has an entry, no limit is exceeded, the chain
verifies, and a new charge needs no more than a few seconds. The race lets many processes take the
last of a budget at the same moment.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from discreet import Budget, BudgetExceeded, Ledger, LogisticRegression
from discreet.accounting.conversions import epsilon_from_mu
from discreet.ledger import Dataset
from discreet.solvers import GD

FIT = Budget(0.1, 1e-6, "add_remove")
X = np.array([[1.0, 0.5], [0.3, -0.2], [-0.7, 0.1], [0.2, 0.9]])
Y = np.array([0, 1, 1, 0])


class PostgresServer:
    """A PostgreSQL server of its own, on a socket in a temporary folder."""

    def __init__(self) -> None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        on_path = shutil.which("initdb")
        if not found and on_path is None:
            raise FileNotFoundError("PostgreSQL is not installed: apt-get install postgresql.")
        self._programs = found[-1].parent if found else Path(str(on_path)).parent
        self.folder = Path(tempfile.mkdtemp(prefix="discreet-pg-"))
        self.folder.chmod(0o777)
        self._data = self.folder / "data"
        self._run("initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust")
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        if os.getuid() == 0:  # the server refuses to run as root
            command = ["runuser", "-u", "postgres", "--", *command]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/")
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stdout}{done.stderr}")

    def start(self) -> None:
        """Start the server, with fsync, and wait for it."""
        options = f"-k {self.folder} -c listen_addresses='' -c max_connections=200"
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", str(self._data), "-l", log, "-o", options, "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server; "immediate" is a crash."""
        self._run("pg_ctl", "-D", str(self._data), "-m", mode, "-w", "stop")

    def close(self) -> None:
        """Stop the server and remove its files."""
        with contextlib.suppress(RuntimeError):
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self) -> str:
        """Return the address of a new, empty schema."""
        import psycopg

        name = f"s{uuid.uuid4().hex}"
        plain = f"postgresql://postgres@/postgres?host={self.folder}"
        with psycopg.connect(plain) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{plain}&options=-csearch_path%3D{name}"


@contextlib.contextmanager
def places(kind: str) -> Iterator[Callable[[], str]]:
    """Yield a function that returns the place of a new ledger."""
    with tempfile.TemporaryDirectory(prefix="discreet-ledger-", dir=os.getcwd()) as folder:
        os.environ["XDG_STATE_HOME"] = folder
        if kind == "sqlite":
            yield lambda: os.path.join(folder, f"{uuid.uuid4().hex}.sqlite")
        else:
            server = PostgresServer()
            try:
                yield server.address
            finally:
                server.close()


def limit_for(fits: int) -> Budget:
    """Return a limit that exactly this many fits exhaust."""
    mu = FIT.to_gdp().mu * math.sqrt(fits + 0.5)
    return Budget(epsilon_from_mu(mu, FIT.delta), FIT.delta, FIT.relation)


def fit(dataset: Dataset, token: str, reads: int) -> None:
    """Fit a model that a ledger counts; the token is written when the rows have been read."""

    def progress(_: object) -> None:
        os.write(reads, f"{token}\n".encode())

    LogisticRegression(
        epsilon=FIT.epsilon,
        delta=FIT.delta,
        solver=GD(iterations=1),
        data_norm=1.0,
        classes=[0, 1],
        ledger=dataset.noting(purpose=token),
        progress=progress,
    ).fit(X, Y)


def forked(work: Callable[[], int]) -> int:
    """Run a function in a forked process; its result is the exit code."""
    child = os.fork()
    if child:
        return child
    code = 99
    try:
        code = work()
    except BaseException as error:
        sys.stderr.write(f"worker: {type(error).__name__}: {error}\n")
    finally:
        sys.stderr.flush()
        os._exit(code)


def hammer(dataset: Dataset, reads: int) -> int:
    """Fit until killed."""
    while True:
        with contextlib.suppress(BudgetExceeded):
            fit(dataset, uuid.uuid4().hex, reads)


def kill_round(place: str, kills: int, fits: int, workers: int, longest: float) -> Counter[str]:
    """Kill workers on one data set, then check everything; returns counts."""
    ledger = Ledger(place)
    dataset = ledger.create("visits", limit_for(fits), gaussian_share=1.0)
    assert dataset.fits_left(FIT) == fits
    counts: Counter[str] = Counter()
    with tempfile.TemporaryFile() as file:
        reads = os.dup(file.fileno())
        os.set_inheritable(reads, True)
        fcntl.fcntl(reads, fcntl.F_SETFL, os.O_APPEND)
        running: list[int] = []
        for _ in range(kills):
            while len(running) < workers:
                running.append(forked(lambda: hammer(dataset, reads)))
            time.sleep(random.uniform(0.0, longest))
            victim = running.pop(random.randrange(len(running)))
            os.kill(victim, signal.SIGKILL)
            _, status = os.waitpid(victim, 0)
            counts["kills"] += os.WIFSIGNALED(status)
            counts["workers that ended by themselves"] += not os.WIFSIGNALED(status)
        for victim in running:
            os.kill(victim, signal.SIGKILL)
            os.waitpid(victim, 0)
        os.lseek(reads, 0, os.SEEK_SET)
        tokens = set(os.read(reads, 2**26).decode().split())
        os.close(reads)
    start = time.perf_counter()
    again = Ledger(place).open("visits")
    with contextlib.suppress(BudgetExceeded):
        again.add(gaussian=1 / FIT.to_gdp().mu, planned=True)
    waited = time.perf_counter() - start
    records = again.records()
    counting = [record for record in records if record["status"] != "returned"]
    entered = {record["purpose"] for record in counting}
    verified = Ledger(place).verify()
    counts["entries"] += len(counting)
    counts["confirmed"] += sum(record["status"] == "confirmed" for record in records)
    counts["left reserved by a kill"] += sum(record["status"] == "reserved" for record in records)
    counts["fits that read rows"] += len(tokens)
    counts["reads without an entry"] += len(tokens - entered)
    counts["data sets overspent"] += len(counting) > fits
    counts["data sets exhausted"] += len(counting) == fits
    counts["ledgers not verified"] += not verified.ok
    counts["locks stuck"] += waited > 10
    return counts


FAULTS = (
    "reads without an entry", "data sets overspent", "ledgers not verified", "locks stuck",
    "workers that ended by themselves",
)  # fmt: skip


def kill(kind: str, kills: int, *, per_round: int = 100, workers: int = 4) -> Counter[str]:
    """Kill processes in rounds, each on a new ledger."""
    total: Counter[str] = Counter(dict.fromkeys(FAULTS, 0))
    with places(kind) as place:
        while total["kills"] < kills:
            number = min(per_round, kills - total["kills"])
            fits = random.choice((10, number // 2 + 10, 20 * number))
            total += kill_round(place(), number, fits, workers, 0.06)
            for fault in FAULTS:
                total.setdefault(fault, 0)
            total["rounds"] += 1
            if total["rounds"] % 10 == 0:
                print(f"  … {total['kills']:,} kills", flush=True)
    return total


def race(kind: str, repetitions: int, *, processes: int = 64, fits: int = 10) -> Counter[str]:
    """Let processes race for the last of a budget; returns how often each number succeeded."""
    found: Counter[str] = Counter()
    with places(kind) as place:
        for _ in range(repetitions):
            dataset = Ledger(place()).create("visits", limit_for(fits), gaussian_share=1.0)
            start, go = os.pipe()
            null = os.open(os.devnull, os.O_WRONLY)

            def attempt(dataset=dataset, start=start, go=go, null=null) -> int:
                os.close(go)
                os.read(start, 1)  # until the parent closes its end
                try:
                    fit(dataset, uuid.uuid4().hex, null)
                except BudgetExceeded:
                    return 3
                return 0

            children = [forked(attempt) for _ in range(processes)]
            os.close(go)
            codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
            os.close(start)
            os.close(null)
            won = codes.count(0)
            found[f"{won} of {processes} succeeded"] += 1
            assert won + codes.count(3) == processes, codes
            assert dataset.entries == won
    return found


def main() -> int:
    """Run both harnesses and print their counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10_000)
    parser.add_argument("--races", type=int, default=100)
    parser.add_argument("--stores", nargs="+", default=["sqlite", "postgresql"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    fit(Ledger().create("warm", FIT), "", os.open(os.devnull, os.O_WRONLY))  # compile once
    bad = False
    for kind in arguments.stores:
        begun = time.perf_counter()
        killed = kill(kind, arguments.kills)
        print(f"{kind}: kills ({time.perf_counter() - begun:.0f} s)", flush=True)
        for name, count in killed.items():
            print(f"  {name}: {count:,}", flush=True)
        begun = time.perf_counter()
        raced = race(kind, arguments.races)
        print(f"{kind}: races ({time.perf_counter() - begun:.0f} s)", flush=True)
        for name, count in raced.items():
            print(f"  {name}: {count:,} times", flush=True)
        bad = bad or any(killed[fault] for fault in FAULTS) or set(raced) != {"10 of 64 succeeded"}
    print("FAILED" if bad else "All as it should be.")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
