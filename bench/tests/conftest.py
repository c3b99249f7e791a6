"""Runs, and a page of them, that several tests look at."""

import pytest

from discreet_bench.report import report

from .made_runs import COMMANDS, few, made_runs


@pytest.fixture(scope="session")
def runs():
    return few(made_runs())


@pytest.fixture(scope="session")
def page(runs):
    return report(runs, title="A benchmark", commands=COMMANDS)
