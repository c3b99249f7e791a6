"""No test here sees the machine's own data sets or the network."""

import urllib.error
import urllib.request

import pytest
import sklearn.datasets

from discreet_bench.datasets import fetching

from .files import FETCHERS


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch, tmp_path):
    """No folder of the machine's is looked into, and nothing can be downloaded."""
    monkeypatch.delenv("DISCREET_DATA", raising=False)
    monkeypatch.setenv("DISCREET_CACHE", str(tmp_path / "cache"))

    def offline(*arguments, **options):
        raise urllib.error.URLError("offline")

    for name in FETCHERS:
        monkeypatch.setattr(sklearn.datasets, name, offline)
    monkeypatch.setattr(fetching.urllib.request, "urlopen", offline)
    monkeypatch.setattr(fetching.time, "sleep", lambda seconds: None)
