"""No test here sees the machine's own data sets or the network."""

import pooch
import pytest
from requests.exceptions import ConnectionError


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch, tmp_path):
    """No folder of the machine's is searched, and nothing can be downloaded."""
    monkeypatch.delenv("DISCREET_DATA", raising=False)
    monkeypatch.setenv("DISCREET_CACHE", str(tmp_path / "cache"))

    def offline(*arguments, **options):
        raise ConnectionError("offline")

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", offline)
    monkeypatch.setattr(pooch.core.time, "sleep", lambda seconds: None)
