"""Sites in their own processes are killed at random; no ledger has less than was released.

Children are forked, so that compiled code is shared. Each writes down every message that it
answered with numbers about rows, before the reply is sent: that is more than the coordinator has
got. `python tests/sites/test_kills.py 1000` kills as often.
"""

import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from discreet import Budget, LogisticRegression
from discreet.ledger import Ledger
from discreet.sites import Federation, Policy, Site, SiteError
from discreet.sites.masks import Identity

FORK = multiprocessing.get_context("fork")
NAMES = ("north", "south", "east", "west")
TRUST = ("secure", "local", "aggregator")


def table(k):
    rng = np.random.default_rng(k)
    X = rng.normal(size=(300, 3))
    return X, (X[:, 0] + rng.logistic(size=300) > 0).astype(int)


def serve(k, folder, pipe, identities):
    """Answer messages until the pipe is closed or the process is killed."""
    ledger = Ledger(folder / f"{NAMES[k]}.sqlite").open("visits")
    peers = {name: each.public for name, each in identities.items() if name != NAMES[k]}
    policy = Policy(accepts=TRUST, peers=peers, identity=identities[NAMES[k]])
    site = Site(NAMES[k], *table(k), ledger=ledger, policy=policy)
    released = os.open(folder / f"{NAMES[k]}.released", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    while True:
        try:
            message = pipe.recv_bytes()
        except EOFError:
            os._exit(0)
        before = 0 if site._visit is None else site._visit.answers
        reply = site.handle(message)
        visit = site._visit
        if visit is not None and visit.answers > before:
            os.write(released, f"{visit.terms.session}\n".encode())
        pipe.send_bytes(reply)


class Pipe:
    """A site in another process."""

    def __init__(self, k, folder, identities):
        self.name = NAMES[k]
        self.pipe, theirs = FORK.Pipe()
        self.process = FORK.Process(target=serve, args=(k, folder, theirs, identities), daemon=True)
        self.process.start()
        theirs.close()

    def send(self, message):
        try:
            self.pipe.send_bytes(message)
            return self.pipe.recv_bytes()
        except (EOFError, OSError):
            raise SiteError(f"Site {self.name!r} is lost.") from None


def model():
    settings = {"solver": "gd", "preparation": None, "data_norm": 4.0, "classes": [0, 1]}
    return LogisticRegression(epsilon=1.0, delta=1e-6, **settings)


def kill_often(folder, kills, seed):
    """Fit again and again, with a kill at a random moment; return numbers of fits and failures."""
    chance = random.Random(seed)
    identities = {name: Identity() for name in NAMES}
    for name in NAMES:
        Ledger(folder / f"{name}.sqlite").create(
            "visits", limit=Budget(1e6, 1e-6, "add_remove"), unit="row"
        )
    for trust in TRUST:  # compiles, before processes are forked
        model().fit(*Federation([table(k) for k in range(4)], trust=trust).open())
    sites = [Pipe(k, folder, identities) for k in range(4)]
    done = failed = 0
    for _ in range(kills):
        k = chance.randrange(4)
        wait = chance.uniform(0, 0.35)
        victim = sites[k].process

        def kill(victim=victim, wait=wait):
            time.sleep(wait)
            os.kill(victim.pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        trust = chance.choice(TRUST)
        try:
            model().fit(*Federation(sites, trust=trust).open())
            done += 1
        except SiteError:
            failed += 1
        killer.join()
        victim.join()
        sites[k].pipe.close()
        sites[k] = Pipe(k, folder, identities)
    for site in sites:
        site.process.kill()
        site.process.join()
    return done, failed


def check(folder):
    """Every fit that a site answered in is an entry of its ledger that counts."""
    fits = 0
    for name in NAMES:
        path = folder / f"{name}.released"
        sessions = set(path.read_text().split()) if path.exists() else set()
        dataset = Ledger(folder / f"{name}.sqlite").open("visits")
        counted = {
            entry["settings"]["fit"] for entry in dataset.records() if entry["status"] != "returned"
        }
        assert sessions <= counted, name
        fits += len(sessions)
    return fits


@pytest.mark.process
def test_no_ledger_has_less_than_its_site_released(tmp_path):
    done, failed = kill_often(tmp_path, 25, seed=0)
    assert done + failed == 25
    assert failed > 0
    assert check(tmp_path) > 0


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        ended = kill_often(Path(place), int(sys.argv[1]), seed=1)
        print("fits done, fits ended by a kill:", ended)
        print("fits that a site answered in, all in its ledger:", check(Path(place)))
