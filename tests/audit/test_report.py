import json
import math

import pytest

from discreet.audit import report
from discreet.audit.result import Audit, CurvePoint, Verdict
from discreet.audit.statistics import sharpness

GOOD = Audit(
    subject="gd",
    pair="an extreme row",
    statistic="the projection",
    epsilon=1.0,
    delta=1e-5,
    relation="add_remove",
    epsilon_bound=0.42789,
    mu_bound=0.2,
    epsilon_if_gaussian=0.869,
    confidence=0.9995,
    trials=400_000,
    sharpness=1.9,
    trials_needed=None,
    seconds=1.74,
    curve=(CurvePoint(0.0, 0.0), CurvePoint(0.01, 0.02), CurvePoint(1.0, 1.0)),
)


def changed(**fields):
    return Audit(**{**{name: getattr(GOOD, name) for name in GOOD.__dataclass_fields__}, **fields})


BAD = changed(subject="leaky", epsilon_bound=2.019, pair="a|b")
WEAK = changed(subject="amp", epsilon_bound=0.0, sharpness=math.inf, trials_needed=203_817)


def test_a_row_rounds_bounds_down():
    cells = dict(zip(report.HEADINGS, report.row(GOOD), strict=True))
    assert cells["certified ε ≥"] == "0.427"
    assert cells["promised ε"] == "1"
    assert cells["trials"] == "400,000"
    assert cells["verdict"] == "consistent"


def test_a_refuted_promise_never_looks_kept_by_rounding():
    bound = report.bound_in_words(changed(epsilon_bound=1.000049))
    assert 1 < float(bound) <= 1.000049
    assert report.bound_in_words(changed(epsilon_bound=0.99996)) == "0.999"


def test_a_bound_beyond_json_and_a_missing_number_are_shown_as_nothing():
    pure = changed(delta=0.0, epsilon_if_gaussian=math.inf)
    assert report.row(pure)[6] == "–"
    told = report.document([pure], settings={})
    assert json.loads(json.dumps(told, allow_nan=False))["audits"][0]["epsilon_if_gaussian"] is None


@pytest.mark.parametrize(
    ("needed", "said"),
    [(203_817, "about 210,000 trials would"), (100, "about 100 trials"), (None, "may not help")],
)
def test_a_weak_audit_says_what_would_tell(needed, said):
    weak = changed(epsilon_bound=0.0, trials_needed=needed)
    assert weak.verdict is Verdict.TOO_WEAK
    assert said in report.row(weak)[-1]


def test_an_audit_that_saw_nothing_in_a_few_trials_needs_more_of_them():
    few = changed(epsilon_bound=0.0, trials=2000, sharpness=math.inf)
    assert "; at least 3" in report.row(few)[-1]
    fewest = report.trials_that_tell(few.epsilon, few.delta, few.confidence)
    tested = int(0.8 * fewest / 2)
    assert sharpness(few.epsilon, few.delta, tested, alpha=1 - few.confidence) <= 2 * few.epsilon
    assert report.trials_that_tell(1e-9, 0.5, 0.999) is None


def test_text_has_one_aligned_line_an_audit():
    lines = report.text([GOOD, BAD, WEAK]).splitlines()
    assert len(lines) == 5
    at = lines[0].index("verdict")
    assert [line[at:].split(";")[0] for line in lines[2:]] == list(
        map(str, (Verdict.CONSISTENT, Verdict.REFUTED, Verdict.TOO_WEAK))
    )


def test_markdown_keeps_its_columns_whatever_names_hold():
    lines = report.markdown([GOOD, BAD]).splitlines()
    assert len(lines) == 4
    assert {line.replace("\\|", "").count("|") for line in lines} == {len(report.HEADINGS) + 1}
    assert "add\\_remove" in lines[2]


def test_words_for_promises_that_stood():
    words = report.in_words([GOOD, GOOD])
    assert "No promise was refuted. 2 attacks would have" in words
    assert "at most 1 in 1,000" in words  # two bounds that are wrong 1 time in 2,000 each
    assert "No audit proves a guarantee" in words


def test_words_for_a_broken_promise():
    words = report.in_words([GOOD, BAD, WEAK])
    assert words.startswith("REFUTED: leaky.")
    assert "at least 2.01, and 1 was promised" in words
    assert "One attack was too weak to tell and says nothing either way" in words
    assert "No promise" not in words


def test_words_for_audits_that_say_nothing():
    assert "no attack was strong enough to tell" in report.in_words([WEAK])
    assert "how many trials it would take" in report.in_words([WEAK])
    assert "how many" not in report.in_words([GOOD])
    assert "nothing is known" in report.in_words([])


def test_a_bound_that_rests_on_an_assumption_refutes_nothing():
    laplace = changed(epsilon_if_gaussian=3.0)
    assert laplace.verdict is Verdict.CONSISTENT
    assert '"if Gaussian" refutes nothing' in report.in_words([GOOD, laplace])
    assert "if Gaussian" not in report.in_words([GOOD])


def test_the_document_holds_everything():
    told = report.document(
        [GOOD, BAD], settings={"trials": 7}, left_out={"sgd": "why"}, complete=False
    )
    told = json.loads(json.dumps(told, allow_nan=False))
    assert told["verdicts"] == {"refuted": 1, "consistent": 1, "too weak to tell": 0}
    assert told["settings"] == {"trials": 7}
    assert told["left_out"] == {"sgd": "why"}
    assert told["complete"] is False
    assert told["audits"][1]["verdict"] == "refuted"
    assert told["audits"][0]["curve"][1] == {"fpr": 0.01, "tpr": 0.02}
    assert {"discreet", "python", "numpy"} <= set(told["versions"])
