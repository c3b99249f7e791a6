import json
import math

import pytest

from discreet.audit import result as report
from discreet.audit.result import Audit, CurvePoint, Verdict
from discreet.audit.statistics import sharpness, trials_needed

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
    bound = report.bound_text(changed(epsilon_bound=1.000049))
    assert 1 < float(bound) <= 1.000049
    assert report.bound_text(changed(epsilon_bound=0.99996)) == "0.999"


def test_infinite_numbers_are_shown_as_a_dash():
    pure = changed(delta=0.0, epsilon_if_gaussian=math.inf)
    assert report.row(pure)[6] == "–"
    document = report.document([pure], settings={})
    assert (
        json.loads(json.dumps(document, allow_nan=False))["audits"][0]["epsilon_if_gaussian"]
        is None
    )


@pytest.mark.parametrize(
    ("needed", "said"),
    [(203_817, "needs about 210,000 trials"), (100, "about 100 trials"), (None, "may not help")],
)
def test_a_weak_audit_says_what_would_tell(needed, said):
    weak = changed(epsilon_bound=0.0, trials_needed=needed)
    assert weak.verdict is Verdict.TOO_WEAK
    assert said in report.row(weak)[-1]


def test_an_audit_with_few_trials_states_how_many_are_needed():
    few = changed(epsilon_bound=0.0, trials=2000, sharpness=math.inf)
    assert "; needs at least 3" in report.row(few)[-1]
    fewest = trials_needed(few.epsilon, few.delta, few.confidence)
    tested = int(0.8 * fewest / 2)
    assert sharpness(few.epsilon, few.delta, tested, alpha=1 - few.confidence) <= 2 * few.epsilon


def test_text_has_one_aligned_line_per_audit():
    lines = report.text([GOOD, BAD, WEAK]).splitlines()
    assert len(lines) == 4
    at = lines[0].index("verdict")
    assert [line[at:].split(";")[0] for line in lines[1:]] == list(
        map(str, (Verdict.CONSISTENT, Verdict.REFUTED, Verdict.TOO_WEAK))
    )


def test_markdown_keeps_its_columns_whatever_names_hold():
    lines = report.markdown([GOOD, BAD]).splitlines()
    assert len(lines) == 4
    assert {line.replace("\\|", "").count("|") for line in lines} == {len(report.HEADINGS) + 1}
    assert "add\\_remove" in lines[2]


def test_summary_of_guarantees_that_were_not_refuted():
    text = report.summary([GOOD, GOOD])
    assert "No guarantee was refuted. 2 attacks would have" in text
    assert "at most 0.1 %" in text  # two bounds that are wrong 1 time in 2,000 each
    assert "An audit cannot prove a guarantee" in text


def test_summary_of_a_refuted_guarantee():
    text = report.summary([GOOD, BAD, WEAK])
    assert text.startswith("REFUTED: leaky.")
    assert "at least 2.01; 1 was promised" in text
    assert "One attack was too weak to tell." in text
    assert "No guarantee" not in text


def test_summary_of_audits_that_are_too_weak():
    assert "no attack was strong enough to tell" in report.summary([WEAK])
    assert "how many trials would be enough" in report.summary([WEAK])
    assert "how many" not in report.summary([GOOD])
    assert "No attack was carried out" in report.summary([])


def test_a_bound_that_rests_on_an_assumption_refutes_nothing():
    laplace = changed(epsilon_if_gaussian=3.0)
    assert laplace.verdict is Verdict.CONSISTENT
    assert '"if Gaussian" refutes nothing' in report.summary([GOOD, laplace])
    assert "if Gaussian" not in report.summary([GOOD])


def test_the_document_holds_everything():
    document = report.document(
        [GOOD, BAD], settings={"trials": 7}, left_out={"sgd": "why"}, complete=False
    )
    document = json.loads(json.dumps(document, allow_nan=False))
    assert document["verdicts"] == {"refuted": 1, "consistent": 1, "too weak to tell": 0}
    assert document["settings"] == {"trials": 7}
    assert document["left_out"] == {"sgd": "why"}
    assert document["complete"] is False
    assert document["audits"][1]["verdict"] == "refuted"
    assert document["audits"][0]["curve"][1] == {"fpr": 0.01, "tpr": 0.02}
    assert {"discreet", "python", "numpy"} <= set(document["versions"])
