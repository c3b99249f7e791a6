import importlib.util
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("check_ledger", ROOT / "tools" / "check_ledger.py")
check_ledger = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_ledger)


@pytest.fixture(scope="session")
def harness():
    """The module tools/check_ledger.py."""
    return check_ledger


@pytest.fixture(autouse=True)
def state_folder(tmp_path, monkeypatch):
    """Marks of ledgers are kept apart from the user's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL server; without one tests are skipped, or fail if CI=true."""
    try:
        import psycopg  # noqa: F401

        made = check_ledger.PostgresServer()
    except (ImportError, FileNotFoundError) as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"the tests of PostgreSQL must run: {error}")
        pytest.skip(str(error))
    yield made
    made.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.process)])
def place(request, tmp_path):
    """The place of a new ledger, in a file and on a server."""
    if request.param == "sqlite":
        return str(tmp_path / "visits.sqlite")
    return request.getfixturevalue("server").address()
