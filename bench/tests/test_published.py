"""Printed numbers are found for the right problem, and only for it."""

import pytest

from discreet_bench import datasets
from discreet_bench.lines import METHODS
from discreet_bench.published import PUBLISHED, entries, published
from discreet_bench.runs import COLUMNS


def test_every_entry_names_what_exists():
    names = set(datasets.names())
    for entry in PUBLISHED:
        assert entry.method in METHODS
        assert entry.measure in COLUMNS
        assert entry.data in names | {""}
        assert entry.source
        assert entry.note
        if entry.measure == "accuracy":
            assert 0.5 < entry.value < 1


def test_there_is_one_number_for_each_question():
    questions = [(e.data, e.loss, e.epsilon, e.method, e.measure, e.alpha, e.at) for e in PUBLISHED]
    assert len(set(questions)) == len(questions)
    # 2 figures × 9 data sets × 7 methods; 5 data sets × 2 penalties × 4 ε × 4; 11 × 3; 1
    assert len(PUBLISHED) == 126 + 160 + 33 + 1


def test_figures_1_and_3_on_adult():
    assert published("amp-fig1", "adult", "logistic", 0.1, "accuracy") == {
        "nonprivate": 0.848, "amp": 0.791, "amp-hf": 0.787, "sgd": 0.785, "permutation-sgd": 0.774,
        "permutation-sgd-sc": 0.772, "frank-wolfe": 0.769,
    }  # fmt: skip
    assert published("amp-fig3", "adult", "huber-hinge", 0.1, "accuracy")["amp"] == 0.796


@pytest.mark.parametrize("experiment", ["amp-fig1", "amp-fig2", "auto-table"])
def test_a_cut_of_the_data_does_not_matter(experiment):
    found = published(experiment, "kddcup99 (70,000 rows)", "logistic", 0.1, "accuracy")
    assert found["permutation-sgd"] == 0.981


def test_a_number_holds_for_its_papers_relation_only():
    def found(relation):
        return published("amp-fig1", "adult", "logistic", 0.1, "accuracy", relation=relation)

    assert found("replace_one") == found(None)
    assert found("add_remove") == {"nonprivate": 0.848}  # without privacy, any relation will do
    papers = {"Iyengar": "replace_one", "Zhang": "replace_one", "Lee": "add_remove"}
    for entry in PUBLISHED:
        expected = "" if entry.method == "nonprivate" else papers[entry.source.split()[0]]
        assert entry.relation == expected
    where = ("dpagd-table1", "adult", "logistic", 0.0225, "objective")
    assert published(*where, at=0, relation="replace_one") == {}
    assert published(*where, at=0, relation="add_remove") == {"noisy-gd": 0.69315}


def test_the_authors_own_warning_stands_by_the_numbers_it_is_about():
    warned = {(e.loss, e.data) for e in PUBLISHED if "misses the trend" in e.note}
    assert warned == {("huber-hinge", "rcv1"), ("huber-hinge", "synthetic-h")}
    plain = [e for e in PUBLISHED if e.method == "nonprivate"]
    assert not any("trend" in e.note for e in plain)


def test_nothing_is_found_for_another_problem():
    def found(experiment="amp-fig1", data="mnist", loss="logistic", epsilon=1.0):
        return published(experiment, data, loss, epsilon, "accuracy")

    assert found()["amp"] == 0.719
    assert set(found(epsilon=0.1)) == {"nonprivate"}  # without privacy, any ε will do
    assert found(loss="hinge") == {}
    assert found(experiment="amp-fig3") == {}
    assert found(data="mnist-like") == {}
    assert published("amp-fig1", "mnist", "logistic", 1.0, "seconds") == {}


def test_errors_and_seconds_depend_on_the_penalty():
    def found(measure, alpha):
        return published("outpert-table3", "bank", "logistic", 0.5, measure, alpha=alpha)

    assert found("excess_objective", 0.0) == {"outpert": 0.2231, "sgd-adv": 1.4585}
    assert found("excess_objective", 0.1) == {"outpert": 0.0106, "sgd-adv": 0.4090}
    assert found("seconds", 0.1) == {"outpert": 40.541, "sgd-adv": 519.44}
    assert found("excess_objective", None) == {}
    assert found("excess_objective", 0.2) == {}


def test_descent_on_its_way():
    def found(measure, at):
        return published("dpagd-table1", "adult", "logistic", 0.0225, measure, at=at)

    assert found("gradient_norm", 0) == {"noisy-gd": 0.72558}
    assert found("noisy_gradient_norm", 10) == {"noisy-gd": 0.51636}
    assert found("objective", 10) == {"noisy-gd": 0.37542}
    assert found("objective", None) == {}
    assert found("objective", 11) == {}
    assert published("dpagd-table1", "adult", "logistic", 0.045, "objective", at=0) == {}
    one = entries("dpagd-fig2", "adult", "logistic", 0.4, "epsilon_spent", at=1)
    assert [e.value for e in one] == [0.5756]
