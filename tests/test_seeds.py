"""tools/seeds.py: a few of its cases, and comparisons that must fail."""

import copy
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from discreet import solvers

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("seeds", ROOT / "tools" / "seeds.py")
seeds = importlib.util.module_from_spec(spec)
sys.modules["seeds"] = seeds
spec.loader.exec_module(seeds)

KEYS = (
    "plain logistic gd float64 rows replace_one data_norm=3.0",
    "plain logistic objpert csr rows replace_one data_norm=3.0",
    "plain logistic rrpsgd dask rows replace_one data_norm=3.0",
    "mapped logistic auto float64 rows add_remove",
    "mapped squared auto float64 people add_remove inference=True",
    "copied logistic agd float64 rows replace_one preparation=radius+centre+scale",
    "copied logistic agd float32 rows replace_one preparation=radius+centre+scale+whiten",
)


@pytest.fixture(scope="module")
def records():
    """Results of a few cases of each kind, by key."""
    found = {}
    for key in (*KEYS, "other PrivateScaler bounds=None rows add_remove"):
        matching = [record for record in seeds.run_all(key) if record.key == key]
        assert len(matching) == 1, key
        found[key] = matching[0]
    return found


def changed(records, key, **fields):
    """Return a copy of results in which one has other fields."""
    other = copy.deepcopy(records)
    for name, value in fields.items():
        setattr(other[key], name, value)
    return other


def moved(records, key, by):
    """Return a copy of results in which the first coefficient of one has moved."""
    other = copy.deepcopy(records)
    coefficients = other[key].arrays["coef"]
    largest = np.abs(coefficients).max()
    coefficients.flat[0] += by * largest
    return other


def test_cases_cover_every_solver_and_have_keys_of_their_own():
    cases = seeds.cases()
    assert len(cases) > 1000
    assert len({case.key for case in cases}) == len(cases)
    used = {case.solver.partition(":")[0] for case in cases}
    own = {name for name in solvers.names() if solvers.describe(name).package == "discreet"}
    assert used == own
    calibrated = {name for name in own if "calibration" in solvers.describe(name).parameters}
    published = {case.solver.partition(":")[0] for case in cases if "published" in case.solver}
    assert published == calibrated


def test_results_are_complete_and_a_refusal_is_a_result(records):
    refused = records[KEYS[2]]
    assert refused.error == "NotSupported"
    assert refused.arrays == {}
    for key in KEYS[:2] + KEYS[3:]:
        record = records[key]
        assert record.error == ""
        assert record.trace > 0
        assert record.guarantee["epsilon"] == 8.0
        assert np.isfinite(record.arrays["coef"]).all()
        assert record.arrays["coef"].any()
        assert record.arrays["predicted"].shape[0] == 20
    assert "errors" in records[KEYS[4]].arrays


def test_a_file_is_the_same_as_itself(records, tmp_path, capsys):
    path = tmp_path / "results.npz"
    seeds.save(path, records.values())
    assert seeds.main(["--compare", str(path), str(path)]) == 0
    shown = capsys.readouterr().out
    assert "0 cases differ by more than they may" in shown
    assert "mapped              2            0            0            0" in shown
    loaded = seeds.load(path)
    assert loaded.keys() == records.keys()
    assert all(seeds.difference(records[key], loaded[key]) == 0 for key in records)


@pytest.mark.parametrize("key", [KEYS[0], KEYS[3]])
def test_one_changed_bit_of_plain_and_mapped_cases_fails(records, key, capsys):
    other = copy.deepcopy(records)
    coefficients = other[key].arrays["coef"]
    coefficients.flat[0] = np.nextafter(coefficients.flat[0], np.inf)
    assert seeds.compare(records, other) == 1
    shown = capsys.readouterr().out
    assert f": {key}" in shown
    assert "1 cases differ by more than they may" in shown


@pytest.mark.parametrize(
    ("key", "by", "code"),
    [(KEYS[5], 1e-10, 0), (KEYS[5], 1e-8, 1), (KEYS[6], 1e-6, 0), (KEYS[6], 1e-4, 1)],
)
def test_copied_cases_may_differ_by_rounding(records, key, by, code):
    assert seeds.compare(records, moved(records, key, by)) == code


def test_other_cases_are_reported_only(records, capsys):
    key = "other PrivateScaler bounds=None rows add_remove"
    other = copy.deepcopy(records)
    other[key].arrays["mean"] += 1.0
    assert seeds.compare(records, other) == 0
    assert f"which is allowed: {key}" in capsys.readouterr().out


def test_what_is_no_array_must_be_the_same(records, capsys):
    key = KEYS[0]
    guarantee = records[key].guarantee
    for fields in (
        {"error": "ValueError"},
        {"trace": 1},
        {"guarantee": guarantee | {"epsilon": 7.0}},
        {"arrays": {}},
    ):
        assert seeds.compare(records, changed(records, key, **fields)) == 1
    fewer = {name: value for name, value in records.items() if name != key}
    assert seeds.compare(records, fewer) == 1
    assert f"missing: {key}" in capsys.readouterr().out
    assert seeds.compare(fewer, records) == 0


def test_changed_sentences_of_a_guarantee_are_listed(records, capsys):
    guarantee = records[KEYS[0]].guarantee
    renamed = guarantee | {"public": [*guarantee["public"][1:], "the number of windows"]}
    assert seeds.compare(records, changed(records, KEYS[0], guarantee=renamed)) == 0
    shown = capsys.readouterr().out
    assert f"in a guarantee: - {guarantee['public'][0]}\n" in shown
    assert "in a guarantee: + the number of windows\n" in shown


def test_another_copy_of_the_package_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert seeds.main(["--write", str(tmp_path / "x.npz"), "--source", str(tmp_path)]) == 2
    assert "not from" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
