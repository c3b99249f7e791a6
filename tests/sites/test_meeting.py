"""The coordinator believes no reply that does not fit, and ends a fit at all sites at once."""

import numpy as np
import pytest

from discreet import Budget, LogisticRegression
from discreet.core import Gaussian
from discreet.core.questions import Gradient, RowSum
from discreet.errors import NotSupported, PrivacyError
from discreet.ledger import Ledger
from discreet.objectives import Logistic
from discreet.sites import Federation, Local, Policy, Site, SiteError, wire
from discreet.tables import Numeric, Schema, Target

BUDGET = Budget(1.0, 1e-6, "add_remove")


class Altered(Local):
    """A site whose replies are changed on the way, and that notes what it was asked."""

    def __init__(self, site, alter=None):
        super().__init__(site)
        object.__setattr__(self, "alter", alter)
        object.__setattr__(self, "asked", [])

    def send(self, message):
        request = wire.decode(message)
        self.asked.append(request)
        reply = wire.decode(self.site.handle(message))
        if self.alter is not None and "answer" in reply:
            reply = self.alter(request, reply)
        return wire.encode(reply)


def sites_of(folder, trust="local", count=3):
    rng = np.random.default_rng(0)
    made = []
    for k in range(count):
        ledger = Ledger(folder / f"{k}.sqlite").create("visits", limit=BUDGET, unit="row")
        X = rng.normal(size=(200, 3))
        y = np.where(rng.random(200) < 0.5, 1.0, -1.0)
        made.append(Site(f"s{k}", X, y, ledger=ledger, policy=Policy(accepts=(trust,))))
    return made


def begun(channels, trust="local"):
    """Return the curator of a fit, opened, and the federation."""
    federation = Federation(channels, trust=trust)
    table, _, _ = federation.open()
    session = table.session(BUDGET, "row", None, None)
    curator = session.curator(table.rows(fit_intercept=False, row_norm=1.0))
    return curator, federation


def altered(folder, alter, trust="local"):
    sites = sites_of(folder, trust)
    return sites, [Altered(sites[0]), Altered(sites[1], alter), Altered(sites[2])]


def changed(do, change):
    """Return an alteration of the answers to one kind of message."""

    def alter(request, reply):
        return reply | {"answer": change(reply["answer"])} if request["do"] == do else reply

    return alter


def test_sites_must_agree_on_what_is_public(tmp_path):
    sites, channels = altered(tmp_path, changed("make", lambda facts: facts | {"public_size": 7}))
    with pytest.raises(SiteError, match=r"disagree on what is public.*nothing was released"):
        begun(channels)
    assert [site.record[-1]["end"] for site in sites] == ["ended by the coordinator"] * 3
    assert all(site.ledger.spent == 0 for site in sites)


@pytest.mark.parametrize("place", [1, 2], ids=["grid", "scale"])
def test_sites_must_agree_on_the_noise(tmp_path, place):
    def change(answers):
        return [tuple(v + (at == place) for at, v in enumerate(each)) for each in answers]

    _, channels = altered(tmp_path, changed("share", change))
    curator, _ = begun(channels)
    curator.open("gdp")
    with pytest.raises(SiteError, match="grid of their noise"):
        curator.ask(RowSum(1.0), Gaussian(100.0))


@pytest.mark.parametrize("field", ["site", "round"])
def test_a_reply_to_another_message_ends_the_fit_at_all_sites(tmp_path, field):
    def alter(request, reply):
        return (
            reply | {field: "s0" if field == "site" else 0} if "charge" in str(request) else reply
        )

    sites, channels = altered(tmp_path, alter)
    curator, _ = begun(channels)
    with pytest.raises(SiteError, match="'s1' answered another message"):
        curator.open("gdp")
    assert [site.record[-1]["budget"] for site in sites] == ["given back"] * 3
    assert all(site.ledger.spent == 0 for site in sites)


def test_a_fit_that_has_ended_asks_nothing_and_ends_once(tmp_path):
    sites = sites_of(tmp_path)
    channels = [Altered(site) for site in sites]
    curator, federation = begun(channels)
    curator.open("gdp")
    curator.ask(RowSum(1.0), Gaussian(100.0))
    federation.meeting.end(released=True)
    asked = len(channels[0].asked)
    with pytest.raises(SiteError, match="has ended"):
        curator.ask(RowSum(1.0), Gaussian(100.0))
    federation.meeting.end(released=False)
    assert len(channels[0].asked) == asked
    assert [site.record[-1]["budget"] for site in sites] == ["counted"] * 3


def test_a_site_that_is_lost_at_the_end_keeps_nobody_from_ending(tmp_path):
    sites = sites_of(tmp_path)

    class Lost(Altered):
        def send(self, message):
            if wire.decode(message)["do"] == "end":
                raise SiteError("lost")
            return super().send(message)

    _, federation = begun([Lost(sites[0]), *map(Local, sites[1:])])
    federation.meeting.end(released=False)
    assert [len(site.record) for site in sites] == [0, 1, 1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("trust", ["aggregator", "local"])
def test_sites_are_told_whether_a_fit_was_released(tmp_path, trust):
    sites = sites_of(tmp_path, trust)
    channels = [Altered(site) for site in sites]
    model = LogisticRegression(epsilon=0.5, delta=1e-7, classes=[-1, 1])
    model.fit(*Federation(channels, trust=trust).open())
    last = channels[0].asked[-1]
    assert (last["do"], last["settings"]) == ("end", {"released": True})
    _, federation = begun(channels, trust)
    session = federation.meeting.terms.session
    assert len(session) == 32
    assert session != last["session"]
    assert [request["do"] for request in channels[0].asked].count("end") == 1


def test_a_question_is_checked_before_it_is_sent(tmp_path):
    channels = [Altered(site) for site in sites_of(tmp_path)]
    curator, _ = begun(channels)
    curator.open("gdp")
    asked = len(channels[0].asked)
    with pytest.raises(ValueError, match="weights"):
        curator.ask(Gradient(Logistic(), np.zeros(9), 1.0), Gaussian(100.0))
    assert len(channels[0].asked) == asked
    assert curator.spent_share == 0


def test_the_ledgers_are_charged_what_the_coordinator_holds(tmp_path):
    """A trusted aggregator says what its account may spend; sites charge that."""
    channels = [Altered(site) for site in sites_of(tmp_path, "aggregator")]
    curator, _ = begun(channels, "aggregator")
    curator.open("gdp")
    [charge] = [each for each in channels[0].asked if each["do"] == "charge"]
    assert charge["settings"]["total"] == str(BUDGET.total("gdp"))
    assert all(channel.site.ledger.spent >= 0.99 for channel in channels)


def test_questions_that_are_asked_together_have_their_own_answers(tmp_path):
    curator, _ = begun(sites_of(tmp_path, "aggregator"), "aggregator")
    curator.open("gdp")
    gradient = Gradient(Logistic(), np.zeros(3), 1.0)
    both = curator.ask_all([(RowSum(1.0), Gaussian(30.0)), (gradient, Gaussian(60.0))])
    assert [each.deviation for each in both] == pytest.approx([30.0, 60.0], rel=1e-3)
    rows, questions = curator._rows, [RowSum(1.0), gradient]
    together = rows.answer(questions)
    for question, found in zip(questions, together, strict=True):
        np.testing.assert_allclose(found.values, rows.answer([question])[0].values, atol=1e-9)
    assert np.abs(together[0].values - together[1].values).max() > 1.0


@pytest.mark.parametrize("name", ["sampled_gradient", "descend", "release", "run", "reveal"])
def test_a_curator_over_sites_does_nothing_with_single_rows(tmp_path, name):
    curator, _ = begun(sites_of(tmp_path, "aggregator"), "aggregator")
    curator.open("gdp")
    with pytest.raises(NotSupported, match="not supported over sites"):
        getattr(curator, name)()


@pytest.mark.parametrize("name", ["check_batches", "check_sampling", "take", "take_units"])
def test_rows_over_sites_have_no_single_rows(tmp_path, name):
    table, _, _ = Federation(sites_of(tmp_path), trust="local").open()
    table.session(BUDGET, "row", None, None)
    with pytest.raises(NotSupported, match="not supported over sites"):
        getattr(table.rows(), name)()


def test_other_measures_are_refused_where_sites_add_noise(tmp_path):
    curator, _ = begun(sites_of(tmp_path))
    with pytest.raises(NotSupported, match="filters in Gaussian DP"):
        curator.open("epsilon")


def test_a_given_schema_must_be_that_of_the_sites():
    rng = np.random.default_rng(0)
    schema = Schema({"age": Numeric(0, 100)}, target=Target("sick", classes=["no", "yes"]))
    other = Schema({"age": Numeric(0, 90)}, target=Target("sick", classes=["no", "yes"]))
    policy = Policy(accepts=("local",))
    X, y = rng.normal(size=(20, 1)), np.ones(20)
    with_schema = [Site(f"s{k}", X, y, schema=schema, policy=policy) for k in range(2)]
    federation = Federation(with_schema, trust="local")
    federation.open(schema)
    with pytest.raises(SiteError, match=r"given schema and that of the sites.*'age'"):
        federation.open(other)
    without = [Site(f"s{k}", X, y, policy=policy) for k in range(2)]
    with pytest.raises(SiteError, match="have no schema"):
        Federation(without, trust="local").open(schema)


def test_the_number_of_colluding_sites_is_for_secure_aggregation_alone(tmp_path):
    _, federation = begun(sites_of(tmp_path))
    assert federation.meeting.terms.colluding == 0
    assert federation.meeting.terms.sharing == 1


@pytest.mark.filterwarnings("ignore")
def test_predictions_for_rows_of_sites_are_made_there(tmp_path):
    federation = Federation(sites_of(tmp_path), trust="local")
    X, y, _ = federation.open()
    model = LogisticRegression(epsilon=0.5, delta=1e-7, classes=[-1, 1]).fit(X, y)
    with pytest.raises(TypeError, match="Rows of sites stay where they are"):
        model.predict(X)


def test_a_fit_must_have_begun():
    X = np.zeros((10, 1))
    with pytest.raises(PrivacyError, match="No fit over these sites has begun"):
        assert Federation([(X, X[:, 0]), (X, X[:, 0])], trust="local").meeting
