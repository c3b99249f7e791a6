"""A site answers what it agreed to, once and in order, and charges before it reads."""

from fractions import Fraction

import numpy as np
import pytest

from discreet import Budget
from discreet.core import ExponentialMechanism, Gaussian, PrivacyFilter
from discreet.core.questions import Gradient, MedianNorm, RowSum
from discreet.ledger import Ledger
from discreet.objectives import Logistic, Softmax
from discreet.preparation.pipeline import Written
from discreet.rows import AffineMap, Rows
from discreet.sites import Policy, Site, Terms, wire
from discreet.sites.federation import introduce
from discreet.sites.masks import Identity

BUDGET = Budget(1.0, 1e-6, "add_remove")
TOTAL = BUDGET.total("gdp")


def table(n=50, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(rng.random(n) < 0.5, 1.0, -1.0)


def terms(trust="local", sites=("a", "b"), sizes=(50, 50), unit="row", colluding=0, session="s1"):
    return Terms(session, trust, colluding, sites, sizes, unit, 1.0, 1e-6, "add_remove")


class Caller:
    """A coordinator of one site, which may send anything."""

    def __init__(self, site, agreed=None):
        self.site = site
        self.terms = agreed or terms()
        self.round = 0

    def raw(self, content):
        return wire.decode(self.site.handle(wire.encode(content)))

    def join(self):
        self.round = 0
        return self.raw({"do": "join", "terms": self.terms})

    def send(self, do, **settings):
        self.round += 1
        about = {"session": self.terms.session, "round": self.round}
        return self.raw({"do": do, **about, "settings": settings})

    def charge(self):
        return self.send("charge", measure="gdp", total=str(TOTAL), delta="0")

    def rows(self, handle=1):
        arguments = {"fit_intercept": True, "row_norm": None}
        return self.send("make", source=0, handle=handle, step="rows", arguments=arguments)

    def opened(self):
        for reply in (self.join(), self.charge(), self.rows()):
            assert "answer" in reply, reply
        return self

    def share(self, question=None, mechanism=None, handle=1):
        question = question or Gradient(Logistic(), np.zeros(4), 1.0)
        return self.send("share", handle=handle, asked=[(question, mechanism or Gaussian(100.0))])


def local(**about):
    return Site("a", *table(), policy=Policy(accepts=("local",)), **about)


def test_a_site_answers_with_noise():
    reply = Caller(local(random_state=0)).opened().share()
    [(words, grid, scale)] = reply["answer"]
    assert words.dtype == np.uint64
    assert words.size == 4
    assert scale == pytest.approx(100.0, rel=1e-3)
    assert np.abs(words.view(np.int64) * 2.0**grid).max() < 1000


def test_what_is_public_of_a_site():
    site = Site("a", *table(), groups=np.arange(50) // 2)
    about = Caller(site).raw({"do": "describe"})["answer"]
    assert about["size"] == 25
    assert about["unit"] == "person"
    assert set(about) == {
        "columns", "width", "dtype", "sparse", "size", "unit", "schema", "accepts"
    }  # fmt: skip


class Watched:
    """A ledger that records when it was charged, and can refuse."""

    def __init__(self, refuses=False):
        self.events = []
        self.refuses = refuses

    def noting(self, **details):
        return self

    def charge(self, measure, total, delta, budget, unit):
        if self.refuses:
            raise wire.PrivacyError("The limit is reached.")
        self.events.append((measure, total, unit))
        return self

    def confirm(self):
        self.events.append("confirmed")

    def give_back(self):
        self.events.append("given back")


def test_nothing_is_read_before_the_ledger_was_charged():
    caller = Caller(local(ledger=Watched()))
    caller.join()
    caller.rows()
    assert "once the fit was charged" in caller.share()["refused"]
    assert caller.site.ledger.events == []
    caller.charge()
    assert caller.site.ledger.events == [("gdp", TOTAL, "row")]
    assert "answer" in caller.share()


def test_a_fit_is_charged_for_once():
    """A second charge would open a second filter."""
    caller = Caller(local(ledger=Watched())).opened()
    mechanism = Gaussian.sharing(float(TOTAL) * 0.9)
    assert "answer" in caller.share(mechanism=mechanism)
    assert "charged before" in caller.charge()["refused"]
    assert len(caller.site.ledger.events) == 1
    assert "is left" in caller.share(mechanism=mechanism)["refused"]


def test_a_ledger_that_refuses_ends_it():
    caller = Caller(local(ledger=Watched(refuses=True)))
    caller.join()
    assert "refused" in caller.charge()
    caller.rows()
    assert "once the fit was charged" in caller.share()["refused"]


def test_the_site_charges_its_own_budget_whatever_the_coordinator_says():
    caller = Caller(local(ledger=Watched()))
    caller.join()
    caller.send("charge", measure="gdp", total="1/1000000", delta="0")
    assert caller.site.ledger.events == [("gdp", TOTAL, "row")]


def test_the_filter_of_a_site_ends_its_answers():
    """Two answers that cost two fifths of μ² each fit, and a third does not."""
    mechanism = Gaussian.sharing(float(TOTAL) * 0.4)
    caller = Caller(local()).opened()
    for _ in range(2):
        assert "answer" in caller.share(mechanism=mechanism)
    assert "is left" in caller.share(mechanism=mechanism)["refused"]
    assert "answer" in caller.share(mechanism=Gaussian.sharing(float(TOTAL) * 0.15))


def test_the_filter_is_charged_before_rows_are_read(monkeypatch):
    """Of a question that the filter refuses, no row is read; of another, after its charge."""
    events = []
    answer = Rows.answer
    charge = PrivacyFilter.charge_all

    def answered(rows, questions):
        events.append("read")
        return answer(rows, questions)

    def charged(own, uses):
        charge(own, uses)
        events.append("charged")

    monkeypatch.setattr(Rows, "answer", answered)
    monkeypatch.setattr(PrivacyFilter, "charge_all", charged)
    caller = Caller(local()).opened()
    assert "is left" in caller.share(mechanism=Gaussian.sharing(float(TOTAL) * 1.1))["refused"]
    assert events == []
    assert "answer" in caller.share()
    assert events == ["charged", "read"]


def test_rows_of_another_step_spend_from_the_same_filter():
    mechanism = Gaussian.sharing(float(TOTAL) * 0.9)
    caller = Caller(local()).opened()
    caller.rows(handle=2)
    assert "answer" in caller.share(mechanism=mechanism, handle=1)
    assert "is left" in caller.share(mechanism=mechanism, handle=2)["refused"]


def test_a_message_counts_once_and_in_order():
    caller = Caller(local()).opened()
    caller.share()
    for wrong in (caller.round, caller.round - 1, caller.round + 2, 0):
        caller_round, caller.round = caller.round, wrong - 1
        assert "came after message" in caller.share()["refused"]
        caller.round = caller_round
    assert "answer" in caller.share()
    other = Caller(caller.site, terms(session="s2"))
    assert "no message of a fit" in other.share()["refused"]


def test_exact_answers_are_for_a_trusted_aggregator():
    caller = Caller(local()).opened()
    question = Gradient(Logistic(), np.zeros(4), 1.0)
    assert "nothing exact" in caller.send("exact", handle=1, asked=[question])["refused"]
    site = Site("a", *table(), policy=Policy(accepts=("aggregator",)))
    trusting = Caller(site, terms("aggregator")).opened()
    [(kind, values, error)] = trusting.send("exact", handle=1, asked=[question])["answer"]
    X, y = table()
    expected = -0.5 * np.column_stack([X, np.ones(50)]) * y[:, None]
    norms = np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(values, (expected / np.maximum(norms, 1)).sum(axis=0), atol=1e-9)
    assert kind == "sum"
    assert error > 0
    assert "coordinator adds the noise" in trusting.share()["refused"]


@pytest.mark.parametrize(
    ("agreed", "text"),
    [
        (terms("secure"), "trust='local' only"),
        (terms(sites=("b", "c")), "not among the sites"),
        (terms(sizes=(49, 50)), "another unit, or number of units"),
        (terms(unit="person"), "another unit, or number of units"),
    ],
)
def test_other_terms_are_refused(agreed, text):
    assert text in Caller(local(), agreed).join()["refused"]


def test_secure_aggregation_needs_known_peers_and_enough_colluders():
    identity = Identity()

    def joined(colluding=1, **about):
        policy = Policy(accepts=("secure",), **about)
        site = Site("a", *table(), policy=policy)
        return Caller(site, terms("secure", colluding=colluding)).join()

    peers = {"b": Identity().public}
    assert "no key of its own" in joined(peers=peers)["refused"]
    assert "'b'" in joined(identity=identity)["refused"]
    asked = {"identity": identity, "peers": peers}
    assert "this site needs 1" in joined(0, least_colluding=1, **asked)["refused"]
    assert "answer" in joined(**asked)


def test_a_site_may_refuse():
    policy = Policy(accepts=("local",), approve=lambda asked: f"no study {asked.session}")
    site = Site("a", *table(), policy=policy)
    assert "no study s1" in Caller(site).join()["refused"]
    caller = Caller(local()).opened()
    caller.share()
    caller.site.refuse("the ethics board stopped the study")
    assert "ethics board" in caller.share()["refused"]


def test_a_fit_that_read_nothing_gives_back_its_charge_and_any_other_counts():
    site = local(ledger=Watched())
    caller = Caller(site).opened()
    caller.send("end", released=False)
    assert site.ledger.events[1:] == ["given back"]
    caller = Caller(site).opened()
    caller.share()
    caller.send("end", released=False)
    assert site.ledger.events[3:] == ["confirmed"]
    assert [entry["budget"] for entry in site.record] == ["given back", "counted"]
    assert [entry["answers"] for entry in site.record] == [0, 1]


def test_another_fit_ends_the_one_before():
    site = local(ledger=Watched())
    caller = Caller(site).opened()
    caller.share()
    Caller(site, terms(session="s2")).join()
    assert site.ledger.events[1:] == ["confirmed"]
    assert "no message of a fit" in caller.share()["refused"]


def test_an_answer_that_was_refused_half_way_counts():
    """A question that fails after the charge may have been read for."""
    site = local(ledger=Watched())
    caller = Caller(site).opened()
    assert "refused" in caller.share(Gradient(Logistic(), np.zeros(9), 1.0))
    caller.send("end", released=False)
    assert site.ledger.events[1:] == ["confirmed"]


@pytest.mark.parametrize(
    "question",
    [MedianNorm(), RowSum(1.0), Gradient(Logistic(), np.zeros(3), 1.0)],
    ids=["selection", "no norm", "other width"],
)
def test_questions_without_a_proof_are_refused(question):
    assert "refused" in Caller(local()).opened().share(question)


def test_a_question_that_does_not_fit_is_refused_before_it_is_charged_for():
    caller = Caller(local()).opened()
    mechanism = Gaussian.sharing(float(TOTAL) * 0.9)
    for wrong in (Gradient(Logistic(), np.zeros(9), 1.0), MedianNorm()):
        assert "refused" in caller.share(wrong, mechanism)
    assert "answer" in caller.share(mechanism=mechanism)


def test_only_sums_with_gaussian_noise_have_shares():
    caller = Caller(local()).opened()
    for question, mechanism in (
        (MedianNorm(), ExponentialMechanism(0.1, monotone=False)),
        (RowSum(1.0), ExponentialMechanism(0.1, monotone=False)),
        (MedianNorm(), Gaussian(100.0)),
    ):
        assert "sums with Gaussian noise alone" in caller.share(question, mechanism)["refused"]


def test_every_question_of_a_message_is_charged_for(monkeypatch):
    question = Gradient(Logistic(), np.zeros(4), 1.0)
    caller = Caller(local()).opened()
    asked = [(question, Gaussian.sharing(float(TOTAL) * 0.6))] * 2
    assert "is left" in caller.send("share", handle=1, asked=asked)["refused"]
    monkeypatch.setattr(Gradient, "uses", 2)
    assert "answer" in caller.share(mechanism=Gaussian.sharing(float(TOTAL) * 0.4))
    assert "is left" in caller.share(mechanism=Gaussian.sharing(float(TOTAL) * 0.2))["refused"]


def test_samples_are_of_rows_that_are_units():
    site = Site("a", *table(), groups=np.arange(50) // 2, policy=Policy(accepts=("local",)))
    caller = Caller(site, terms(sizes=(25, 50), unit="person")).opened()
    arguments = {"rate": 0.5, "seed": [1, 2]}
    reply = caller.send("make", source=1, handle=2, step="sample", arguments=arguments)
    assert "rows are the units" in reply["refused"]
    plain = Caller(local()).opened()
    assert "answer" in plain.send("make", source=1, handle=2, step="sample", arguments=arguments)


def test_terms_have_a_size_for_each_site():
    with pytest.raises(ValueError, match="one size for each site"):
        terms(sizes=(50,))


def test_maps_and_targets_that_loops_would_not_check_are_refused():
    caller = Caller(local()).opened()
    wide = AffineMap.to_norm(np.inf, 5)
    arguments = {"map": wide, "fit_intercept": True}
    plain = {"fit_intercept": False, "row_norm": None}
    caller.send("make", source=0, handle=2, step="rows", arguments=plain)
    reply = caller.send("make", source=2, handle=3, step="transformed", arguments=arguments)
    assert "not of 3 columns" in reply["refused"]
    by = {"by": Written(wide)}
    reply = caller.send("make", source=0, handle=4, step="applied", arguments=by)
    assert "not of 3 columns" in reply["refused"]
    softmax = Gradient(Softmax(3), np.zeros(12), 1.0)  # targets are -1 and 1
    assert "whole numbers below 3" in caller.share(softmax)["refused"]


@pytest.mark.parametrize("step", ["take", "with_weights", "margins", "__class__"])
def test_other_methods_of_rows_are_refused(step):
    caller = Caller(local()).opened()
    reply = caller.send("make", source=1, handle=2, step=step, arguments={})
    assert f"no other rows by '{step}'" in reply["refused"]


def test_no_reply_shows_a_cell():
    X, y = table()
    X[7, 1] = 123456.789
    site = Site("a", X, y, policy=Policy(accepts=("local",)))
    caller = Caller(site)
    for message in (b"", b"\xff", wire.encode(3), wire.encode({"do": "join", "terms": 1})):
        assert "123456" not in str(wire.decode(site.handle(message)))
    caller.opened()
    assert "refused" in caller.send("share", handle=9, asked=[])
    assert "refused" in caller.send("unknown")


def test_a_real_ledger_shows_at_least_what_was_released(tmp_path):
    ledger = Ledger(tmp_path / "a.sqlite").create(
        "visits", limit=Budget(1.5, 1e-6, "add_remove"), unit="row"
    )
    site = local(ledger=ledger)
    caller = Caller(site).opened()
    caller.share()
    del caller  # the coordinator is gone, and nobody ended the fit
    assert ledger.spent >= 0.99
    again = Caller(site, terms(session="s2"))
    again.join()
    assert "limit" in again.charge()["refused"]
    assert Fraction(ledger.spent) > 0


def test_exact_answers_count_as_released():
    policy = Policy(accepts=("aggregator",))
    site = Site("a", *table(), policy=policy, ledger=Watched())
    caller = Caller(site, terms("aggregator")).opened()
    caller.send("exact", handle=1, asked=[Gradient(Logistic(), np.zeros(4), 1.0)])
    caller.send("end", released=False)
    assert site.ledger.events[1:] == ["confirmed"]
    assert site.record[-1]["answers"] == 1


def paired():
    """Return two sites that have agreed on keys and opened a fit with secure aggregation."""
    sites = [Site(name, *table(), policy=Policy(accepts=("secure",))) for name in "ab"]
    introduce(sites)
    callers = [Caller(site, terms("secure", colluding=1)) for site in sites]
    keys = {caller.site.name: caller.join()["answer"]["key"] for caller in callers}
    for caller in callers:
        for reply in (caller.send("agree", keys=keys), caller.charge(), caller.rows()):
            assert "answer" in reply
    return callers


def test_a_coordinator_cannot_leave_a_site_out_of_the_keys():
    """Masks with a colluding site alone would hide nothing from it."""
    sites = [Site(name, *table(), policy=Policy(accepts=("secure",))) for name in "abc"]
    introduce(sites)
    agreed = terms("secure", sites=("a", "b", "c"), sizes=(50, 50, 50), colluding=1)
    callers = [Caller(site, agreed) for site in sites]
    keys = {caller.site.name: caller.join()["answer"]["key"] for caller in callers}
    fewer = {name: key for name, key in keys.items() if name != "b"}
    assert "those of all sites" in callers[0].send("agree", keys=fewer)["refused"]
    callers[0].charge()
    callers[0].rows()
    assert "No keys were agreed on" in callers[0].share()["refused"]
    assert "answer" in callers[2].send("agree", keys=keys)


def largest(words):
    """Return the size of a sum: 2^63 of uniform numbers, far less of noise."""
    return np.abs(words.view(np.int64).astype(float)).max()


def test_two_answers_in_one_message_have_masks_of_their_own():
    """The difference of two answers of one site would show the difference of its sums."""
    question = Gradient(Logistic(), np.zeros(4), 1.0)
    asked = [(question, Gaussian(100.0)), (question, Gaussian(100.0))]
    answers = [caller.send("share", handle=1, asked=asked)["answer"] for caller in paired()]
    for first, second in answers:
        assert largest(first[0] - second[0]) > 2.0**55
    for at in range(2):
        assert largest(answers[0][at][0] + answers[1][at][0]) < 2.0**50


@pytest.mark.parametrize("changed", ["grid", "scale", None])
def test_masks_cancel_only_for_one_grid_and_scale(changed, monkeypatch):
    """A site whose noise has another scale would weaken that of the sum."""
    from discreet.sites import site as module

    calls = []

    def share_of(*arguments, **settings):
        share = original(*arguments, **settings)
        calls.append(share)
        if len(calls) == 1 or changed is None:
            return share
        return share._replace(**{changed: getattr(share, changed) * 2})

    original = module.share_of
    monkeypatch.setattr(module, "share_of", share_of)
    words = [caller.share()["answer"][0][0] for caller in paired()]
    assert len(calls) == 2
    assert (largest(words[0] + words[1]) < 2.0**50) == (changed is None)


@pytest.mark.parametrize("differs", [False, True])
def test_masks_cancel_only_if_all_sites_got_the_same_messages(differs):
    """A coordinator that asks two sites for different things gets uniform numbers."""
    sites = [Site(name, *table(), policy=Policy(accepts=("secure",))) for name in "ab"]
    introduce(sites)
    callers = [Caller(site, terms("secure", colluding=1)) for site in sites]
    keys = {caller.site.name: caller.join()["answer"]["key"] for caller in callers}
    for k, caller in enumerate(callers):
        assert "answer" in caller.send("agree", keys=keys)
        assert "answer" in caller.charge()
        arguments = {"fit_intercept": True, "row_norm": 1.0 if differs and k else 2.0}
        caller.send("make", source=0, handle=1, step="rows", arguments=arguments)
    answers = [[caller.share()["answer"][0][0] for _ in range(2)] for caller in callers]
    for total in np.add.reduce(np.array(answers), axis=0).view(np.int64).astype(float):
        assert (np.abs(total).max() < 2.0**50) != differs
    for words in answers:  # a mask is used once: the difference of two answers is masked, too
        between = (words[0] - words[1]).view(np.int64).astype(float)
        assert np.abs(between).max() > 2.0**55
