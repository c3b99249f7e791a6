"""Build a release: distributions, a check in an empty environment, materials and checksums.

    python tools/release.py out/release

makes the wheel and the source distribution, installs the wheel in an empty environment and fits a
model there, writes a software bill of materials of that environment (CycloneDX 1.5, JSON), and the
checksums of all files. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import uuid
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements.lock"

SMOKE = """
import numpy as np
from discreet import LogisticRegression
rng = np.random.default_rng(0)
X = rng.normal(size=(5000, 4))
model = LogisticRegression(epsilon=1.0, classes=[0, 1]).fit(X, (X[:, 0] > 0).astype(int))
assert model.score(X, X[:, 0] > 0) > 0.8
print(model.guarantee_)
"""
"""Script that an installed release must run."""

LIST = """
import json
from importlib.metadata import distributions
found = [
    [d.metadata["Name"], d.version, d.metadata.get("License-Expression") or "", d.requires or []]
    for d in distributions()
]
print(json.dumps(sorted(found)))
"""
"""Lists the distributions of an environment."""


def run(*command: str | Path) -> str:
    """Run a command and return what it writes; stop if it fails."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command], env=clean, check=False, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(map(str, command))}")
    return done.stdout


def build(folder: Path) -> tuple[Path, Path]:
    """Build the source distribution, and the wheel from it; return both."""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, source)
    return wheel, source


def check_wheel(wheel: Path) -> None:
    """Refuse a wheel that lacks a file of the package, or has one of something else."""
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    package = ROOT / "src" / "discreet"
    expected = {
        f"discreet/{path.relative_to(package).as_posix()}"
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    if found != expected:
        raise SystemExit(f"the wheel differs from src/discreet in {sorted(found ^ expected)}.")


def installed(wheel: Path, folder: Path, interpreter: str) -> list[Any]:
    """Install a wheel with the locked versions in an empty environment, fit a model, list it."""
    run(interpreter, "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", LOCK)
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", wheel)
    run(python, "-m", "pip", "check")
    print(run(python, "-c", SMOKE), end="")
    run(folder / "bin" / "discreet", "--version")
    listed: list[Any] = json.loads(run(python, "-c", LIST))
    return [each for each in listed if each[0].lower() not in ("pip", "setuptools")]


def bill(wheel: Path, listed: list[Any]) -> dict[str, Any]:
    """Return a software bill of materials: all that is installed, and what needs what."""
    references = {
        normal(name): f"pkg:pypi/{normal(name)}@{version}" for name, version, *_ in listed
    }
    components = [
        {
            "type": "library",
            "bom-ref": references[normal(name)],
            "name": name,
            "version": version,
            "purl": references[normal(name)],
            **({"licenses": [{"expression": licence}]} if licence else {}),
        }
        for name, version, licence, _ in listed
    ]
    own = next(each for each in components if each["name"] == "discreet")
    needs = [
        {
            "ref": references[normal(name)],
            "dependsOn": sorted(
                {references[other] for each in requires if (other := needed(each)) in references}
            ),
        }
        for name, _, _, requires in listed
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, checksum(wheel))}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {**own, "hashes": [{"alg": "SHA-256", "content": checksum(wheel)}]},
        },
        "components": [each for each in components if each is not own],
        "dependencies": needs,
    }


def normal(name: str) -> str:
    """Return the normal form of a distribution's name."""
    return name.lower().replace("_", "-").replace(".", "-")


def needed(requirement: str) -> str:
    """Return the name in a requirement such as ``numpy>=1.26; extra == "x"``."""
    name = requirement.split(";")[0]
    for mark in "[<>=!~( ":
        name = name.split(mark)[0]
    return normal(name.strip())


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    """Make all files of a release in a folder that is empty or not there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the files go; must be empty")
    parser.add_argument("--python", default=sys.executable, help="interpreter that tries the wheel")
    asked = parser.parse_args()
    if asked.folder.exists() and any(asked.folder.iterdir()):
        raise SystemExit(f"{asked.folder} is not empty: a release starts from nothing.")
    asked.folder.mkdir(parents=True, exist_ok=True)
    wheel, _ = build(asked.folder)
    check_wheel(wheel)
    with tempfile.TemporaryDirectory() as folder:
        listed = installed(wheel, Path(folder) / "empty", asked.python)
    path = asked.folder / f"{wheel.name.split('-py3')[0]}.cdx.json"
    path.write_text(json.dumps(bill(wheel, listed), indent=2) + "\n", "utf-8")
    files = sorted(asked.folder.iterdir())
    sums = "".join(f"{checksum(each)}  {each.name}\n" for each in files)
    (asked.folder / "SHA256SUMS").write_text(sums, "utf-8")
    print(f"{len(listed)} distributions are listed in {path.name}\n{sums}", end="")


if __name__ == "__main__":
    main()
