"""Four clinics with made-up tables, each a site with its own ledger, at sockets of one folder.

    python clinics.py clinics

They serve until they are interrupted. ``flwr run`` then fits one model over them:

    flwr run . --stream --federation-config num-supernodes=4 --run-config RUN.toml

RUN.toml holds the full paths of the folder and of the model to write: ``sockets`` and ``output``.

A real clinic runs ``discreet site serve --socket`` at its own machine, beside Flower's SuperNode,
which should be another user of the operating system: Flower runs the app's code there.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np

from discreet import Budget, Ledger, tables
from discreet.sites import Policy, Site
from discreet.sites.federation import introduce
from discreet.sites.sockets import SocketServer
from discreet.tables import Numeric, Schema, Target

SIZES = {"north": 6000, "south": 2500, "east": 1500, "west": 800}

SCHEMA = Schema(
    {"age": Numeric(18, 95), "emergencies": Numeric(0, 5), "days": Numeric(1, 14)},
    target=Target("readmitted", classes=["no", "yes"]),
)


def table(n: int, seed: int) -> dict[str, np.ndarray]:
    """Return the made-up visits of one clinic."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 95, n)
    emergencies = np.minimum(rng.poisson(0.7, n), 5)
    days = np.clip(rng.poisson(4, n), 1, 14)
    score = 0.02 * (age - 60) + 0.7 * emergencies + 0.1 * (days - 4) - 0.8
    back = rng.uniform(size=n) < 1 / (1 + np.exp(-score))
    readmitted = np.where(back, "yes", "no")
    return {"age": age, "emergencies": emergencies, "days": days, "readmitted": readmitted}


def clinics(folder: Path, trust: str = "secure") -> list[Site]:
    """Return the four sites; each has a ledger with a limit of its own in the folder."""
    sites = []
    for seed, (name, size) in enumerate(SIZES.items()):
        ledger = Ledger(folder / f"{name}.sqlite")
        dataset = ledger.create("visits", limit=Budget(1.5, 1e-6, "add_remove"), unit="row")
        X, y, _ = tables.read(table(size, seed), SCHEMA)
        policy = Policy(accepts=(trust,))
        sites.append(Site(name, X, y, schema=SCHEMA, ledger=dataset, policy=policy))
    introduce(sites)
    return sites


def serve(sites: list[Site], folder: Path) -> list[SocketServer]:
    """Serve each site at a socket of its number."""
    servers = []
    for number, site in enumerate(sites):
        server = SocketServer(site, folder / f"{number}.sock")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
    return servers


def main() -> None:
    """Serve until interrupted."""
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    servers = serve(clinics(folder), folder)
    print(f"{len(servers)} clinics serve at {folder}.", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        for server in servers:
            server.shutdown()
            server.server_close()


if __name__ == "__main__":
    main()
