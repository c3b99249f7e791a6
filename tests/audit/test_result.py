"""Verdicts, words and plain data."""

import json
import math
from dataclasses import replace

import pytest

from discreet.audit.result import Audit, CurvePoint, Verdict
from discreet.audit.statistics import SHARP

FOUND = Audit(
    subject="gd",
    pair="one row more",
    statistic="the projection on it",
    epsilon=1.0,
    delta=1e-5,
    relation="add_remove",
    epsilon_bound=0.8,
    mu_bound=0.25,
    epsilon_if_gaussian=0.9,
    confidence=0.999,
    trials=200_000,
    sharpness=1.9,
    trials_needed=204_000,
    seconds=1.5,
    curve=(CurvePoint(0.0, 0.0), CurvePoint(0.1, 0.3), CurvePoint(1.0, 1.0)),
)


@pytest.mark.parametrize(
    ("bound", "sharpness", "verdict"),
    [
        (1.0001, 1.5, Verdict.REFUTED),
        (1.0001, math.inf, Verdict.REFUTED),  # a refutation needs no power beforehand
        (math.inf, 1.5, Verdict.REFUTED),
        (1.0, 1.5, Verdict.CONSISTENT),
        (0.1, SHARP, Verdict.CONSISTENT),
        (0.09, SHARP, Verdict.TOO_WEAK),  # next to nothing of the row was seen
        (0.1, SHARP + 1e-9, Verdict.TOO_WEAK),
        (0.0, 1.5, Verdict.TOO_WEAK),  # the row was not seen at all
        (0.9, math.inf, Verdict.TOO_WEAK),
    ],
)
def test_verdicts(bound, sharpness, verdict):
    found = replace(FOUND, epsilon_bound=bound, sharpness=sharpness)
    assert found.verdict is verdict
    assert str(verdict) in str(found)


def test_a_bound_that_is_no_number_does_not_refute():
    assert replace(FOUND, epsilon_bound=math.nan).verdict is Verdict.TOO_WEAK


def test_words():
    words = str(FOUND)
    for part in ("gd: consistent", "ε = 1 at δ = 1e-05 (add_remove)", "ε ≥ 0.8", "99.9 %"):
        assert part in words
    assert "200,000" in words
    assert "would be enough" not in words
    weak = replace(FOUND, epsilon_bound=0.0)
    assert "About 204,000 trials would be enough" in str(weak)
    assert "More trials would not help this attack" in str(replace(weak, trials_needed=None))


def test_plain_data_and_back():
    plain = json.loads(json.dumps(FOUND.to_dict()))
    assert plain == json.loads(json.dumps(FOUND.to_dict()))
    assert plain["verdict"] == "consistent"
    assert plain["curve"][1] == {"fpr": 0.1, "tpr": 0.3}
    assert plain["epsilon_bound"] == 0.8
    assert set(plain) >= {"subject", "pair", "statistic", "trials", "seconds", "sharpness"}


@pytest.mark.parametrize("field", ["sharpness", "epsilon_if_gaussian", "epsilon_bound"])
def test_numbers_that_json_has_no_word_for_become_none(field):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    found = replace(FOUND, **{field: math.inf})
    assert json.loads(json.dumps(found.to_dict()), parse_constant=refuse)[field] is None
    assert found.to_dict()[field] is None
