"""The study of fits over sites: rivals spend what they say, and a small run writes its tables."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from discreet.accounting.subsampling import SampledGaussian
from discreet.core import Relation

ROOT = Path(__file__).parents[2]


@pytest.fixture
def rivals(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("bench.studies.site_rivals")


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("bench.studies.sites")


@pytest.mark.parametrize("plan", range(3))
def test_dp_sgd_costs_its_budget(rivals, plan):
    plan = rivals.PLANS[plan]
    sigma = rivals.multiplier(1.0, 1e-6, plan)
    steps = plan.rounds * plan.local
    costs = [
        SampledGaussian(each, plan.sampling, Relation.ADD_REMOVE).epsilon(steps, 1e-6)
        for each in (sigma, 0.99 * sigma)
    ]
    assert costs[0] <= 1.0 < costs[1]


def test_dp_sgd_adds_its_noise_to_clipped_gradients(rivals):
    plan = rivals.Plan(1.0, 1, 1)
    rng = np.random.default_rng(0)
    rows, targets = np.zeros((50, 400)), np.zeros(50)
    moved = rivals.noisy_steps(3.0, plan, 2.0, rng)(np.zeros(400), (rows, targets))
    statistic = np.square(moved / (2.0 * 3.0 * rivals.CLIP / 50)).sum()
    assert chi2.ppf(1e-6, 400) < statistic < chi2.ppf(1 - 1e-6, 400)
    rows = np.zeros((50, 4))
    rows[0] = 1e6
    moved = rivals.noisy_steps(0.0, plan, 2.0, rng)(np.zeros(4), (rows, np.ones(50)))
    assert np.linalg.norm(moved) == pytest.approx(2.0 * rivals.CLIP / 50)


def test_a_filter_sends_a_tenth_and_states_its_cost(rivals):
    filter = rivals.SparseVector()
    assert filter.cost(106) == pytest.approx(1.2)
    assert filter.cost(7_000_000) == pytest.approx(70_000.1)
    sent = filter.filtered(np.linspace(-1, 1, 106), 10, np.random.default_rng(0))
    assert 1 <= np.count_nonzero(sent) <= 11
    large = rivals.SparseVector(1e9, 1e9, clip=0.5)  # hardly any noise: clipped values
    sent = large.filtered(np.full(106, -10.0), 1, np.random.default_rng(0))
    np.testing.assert_allclose(np.abs(sent[sent != 0]), 0.5, atol=1e-6)


def test_fed_avg_learns_without_noise(rivals):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = (X[:, 0] > 0).astype(float)
    train = rivals.noisy_steps(0.0, rivals.Plan(1.0, 20, 1), 2.0, rng)
    weights = rivals.averaged([(X[k::4], y[k::4]) for k in range(4)], 20, train)
    assert np.mean((X @ weights > 0) == y) > 0.97


@pytest.mark.filterwarnings("ignore")
def test_a_small_run_writes_its_tables(study, monkeypatch, tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    made = (X, (X[:, 0] + rng.logistic(size=600) > 0).astype(int))
    monkeypatch.setattr(study, "tables", lambda folder: {"Adult": made})
    monkeypatch.setattr(study, "SITES", 3)
    monkeypatch.setattr(study, "BUDGETS", (1.0,))
    monkeypatch.setattr(study, "DEFAULTS", "none")
    monkeypatch.setattr(study, "PAGE", tmp_path / "page.md")
    schemes = ["rows pooled", "secure sum, t = 1", study.FILTER]
    words = ["sites", str(tmp_path), "--seeds", "2", "--output", str(tmp_path / "found.csv")]
    for _ in range(2):  # the second run has nothing to do
        monkeypatch.setattr(sys, "argv", [*words, "--schemes", *schemes])
        study.main()
    assert capsys.readouterr().out.count("seed") == 6
    (tmp_path / "page.md").write_text("a\n<!-- sites -->\nold\n<!-- end of sites -->\nb\n")
    monkeypatch.setattr(sys, "argv", [*words, "--page"])
    study.main()
    page = (tmp_path / "page.md").read_text()
    assert "old" not in page
    assert "| | Adult, ε = 1 |" in page
    assert page.count("±") == 3
    assert "| Adult: 600 rows, 2 columns, ε = 1 |" in page


def test_the_page_has_the_tables_of_the_committed_results(study):
    page = study.PAGE.read_text("utf-8")
    assert study.page(page, study.kept(study.RESULTS)) == page
