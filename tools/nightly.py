"""Run what is too long for a test, in a small form: the lines ``nightly`` of tools/commands.toml.

    python tools/nightly.py [WORD …] [--list]

With words, only lines whose names have one of them. What a line prints goes to a file of its own in
``out/nightly``. A line that lacks a program is left out, and named. The exit code is 1 if a line
fails or exceeds its time.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_name("commands.toml")
LOGS = Path("out/nightly")


@dataclass(frozen=True)
class Job:
    """A line to run, its limit of time, and a program that it needs."""

    name: str
    line: str
    minutes: float = 30.0
    needs: str | None = None

    @property
    def missing(self) -> bool:
        """True if the program is not installed."""
        if self.needs == "postgresql":  # Debian keeps its programs off the PATH
            servers = Path("/usr/lib/postgresql").glob("*/bin/initdb")
            return shutil.which("initdb") is None and not any(servers)
        return self.needs is not None and shutil.which(self.needs) is None

    @property
    def command(self) -> list[str]:
        """The words of the line; Python and the command are those of this environment."""
        first, *words = shlex.split(self.line)
        here = {"python": [sys.executable], "discreet": [sys.executable, "-m", "discreet"]}
        return [*here.get(first, [first]), *words]


def jobs(path: Path = TABLE) -> list[Job]:
    """Return the lines of the table that run at night."""
    table = tomllib.loads(path.read_text("utf-8"))
    return [
        Job(name, entry["nightly"], entry.get("minutes", 30.0), entry.get("needs"))
        for name, entry in table.items()
        if "nightly" in entry
    ]


def run(job: Job, log: Path) -> str:
    """Run a job; return "done", or how it ended."""
    with log.open("w", encoding="utf-8") as stream:
        started = subprocess.Popen(
            job.command, cwd=ROOT, stdout=stream, stderr=stream, start_new_session=True
        )
        try:
            code = started.wait(60 * job.minutes)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)  # the session that this job started
            started.wait()
            return f"FAILED: more than {job.minutes:g} minutes"
    return "done" if code == 0 else f"FAILED: exit code {code}"


def main(arguments: list[str] | None = None) -> int:
    """Run the jobs one after the other; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("words", nargs="*", help="only lines whose names have one of these words")
    parser.add_argument("--list", action="store_true", help="print the lines and run nothing")
    parser.add_argument("--table", type=Path, default=TABLE, help="another table")
    given = parser.parse_args(arguments)
    chosen = [
        job for job in jobs(given.table) if any(word in job.name for word in given.words or [""])
    ]
    if not chosen:
        parser.error(f"no line of {given.table} has one of these words.")
    if given.list:
        for job in chosen:
            print(f"{job.name:45} {job.line}")
        return 0
    folder = ROOT / LOGS
    folder.mkdir(parents=True, exist_ok=True)
    failed = False
    for job in chosen:
        log, start = (
            folder / f"{job.name.replace(' ', '-').replace('/', '-')}.log",
            time.monotonic(),
        )
        ended = f"left out: {job.needs} is not installed" if job.missing else run(job, log)
        failed |= ended.startswith("FAILED")
        where = f" ({log.relative_to(ROOT)})" if ended.startswith("FAILED") else ""
        print(f"{job.name:45} {time.monotonic() - start:7.0f} s  {ended}{where}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
