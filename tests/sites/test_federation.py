"""A fit over sites is the fit of the pooled table, up to where noise is added."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from discreet import (
    Budget,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    PoissonRegressor,
    PrivacyError,
)
from discreet.core import Gaussian
from discreet.core.questions import Gradient, RowSum
from discreet.errors import BudgetExceeded, NotSupported
from discreet.ledger import Ledger
from discreet.objectives import Logistic
from discreet.rows import as_rows
from discreet.sites import Federation, Local, Policy, Site, SiteError, wire
from discreet.tables import Categorical, Numeric, Schema, Target

SIZES = (100, 900, 500, 1500)


def rows(seed=0, classes=2, n=3000):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * [1.0, 2.0, 0.5, 100.0]
    if classes == 0:
        return X, np.clip(X[:, 0] + rng.normal(size=n), -4, 4)
    scores = X[:, :1] * np.arange(classes) + rng.gumbel(size=(n, classes))
    return X, scores.argmax(axis=1)


def parts(X, y, *more):
    """Return the tables of unequal sites."""
    ends = np.cumsum(SIZES)[:-1]
    cut = [np.split(each, ends) if isinstance(each, np.ndarray) else each for each in (y, *more)]
    starts = (0, *ends)
    tables = [X[start : start + size] for start, size in zip(starts, SIZES, strict=True)]
    return list(zip(tables, *cut, strict=True))


def classifier(**about):
    settings = {"epsilon": 1.0, "delta": 1e-6, "classes": [0, 1], "random_state": 0}
    return LogisticRegression(**settings | about)


CASES = {
    "logistic": (classifier(), 2),
    "inference": (classifier(inference=True), 2),
    "no preparation": (classifier(solver="gd", preparation=None, data_norm=10.0), 2),
    "agd": (classifier(solver="agd", data_norm=10.0), 2),
    "svm": (LinearSVC(epsilon=1.0, delta=1e-6, classes=[0, 1], random_state=0), 2),
    "three classes": (classifier(classes=[0, 1, 2]), 3),
    "newton": (
        LinearRegression(
            epsilon=1.0, delta=1e-6, target_bounds=(-4, 4), solver="newton", random_state=0
        ),
        0,
    ),
    "squared": (
        LinearRegression(epsilon=1.0, delta=1e-6, target_bounds=(-4, 4), random_state=0),
        0,
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_a_trusted_aggregator_gives_the_pooled_fit(name):
    """The same seed gives the same coefficients to 1e-9, and the same privacy."""
    estimator, classes = CASES[name]
    X, y = rows(classes=classes)
    pooled = type(estimator)(**estimator.get_params()).fit(X, y)
    federation = Federation(parts(X, y), trust="aggregator")
    found = type(estimator)(**estimator.get_params()).fit(*federation.open())
    np.testing.assert_allclose(found.coef_, pooled.coef_, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.intercept_, pooled.intercept_, rtol=1e-9, atol=1e-9)
    assert found.guarantee_.mechanisms == pooled.guarantee_.mechanisms
    assert found.guarantee_.mu == pooled.guarantee_.mu


@pytest.mark.filterwarnings("ignore")
def test_people_and_sparse_tables_are_those_of_the_pooled_fit():
    X, y = rows()
    ids = np.arange(len(y)) // 5  # nobody is at two sites
    pooled = classifier().fit(X, y, groups=ids)
    found = classifier().fit(*Federation(parts(X, y, ids), trust="aggregator").open())
    np.testing.assert_allclose(found.coef_, pooled.coef_, rtol=1e-9, atol=1e-9)
    assert found.guarantee_.unit == "person"
    assert found.guarantee_.n_units == 600
    pooled = classifier(inference=True).fit(X, y, groups=ids)
    found = classifier(inference=True).fit(*Federation(parts(X, y, ids), trust="aggregator").open())
    np.testing.assert_allclose(found.bse, pooled.bse, rtol=1e-9)
    sparse = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
    pooled = classifier().fit(sparse, y)
    found = classifier().fit(*Federation(parts(sparse, y), trust="aggregator").open())
    np.testing.assert_allclose(found.coef_, pooled.coef_, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("trust", ["secure", "local"])
@pytest.mark.parametrize("name", sorted(set(CASES) - {"agd", "no preparation", "newton"}))
def test_sites_that_add_noise_learn_the_model(trust, name):
    """With a large budget, noise is small: the coefficients are near those of the pooled fit."""
    estimator, classes = CASES[name]
    X, y = rows(classes=classes)
    settings = estimator.get_params() | {"epsilon": 100.0}
    pooled = type(estimator)(**settings).fit(X, y)
    model = type(estimator)(**settings).fit(*Federation(parts(X, y), trust=trust).open())
    far = model.coef_ - pooled.coef_
    if len(np.atleast_2d(far)) > 1:  # what all classes have in common moves no probability
        far = far - far.mean(axis=0)
    far = np.abs(far) * X.std(axis=0)
    assert far.max() < 0.15 * np.abs(pooled.coef_ * X.std(axis=0)).max()
    assert model.guarantee_.measure == "gdp"
    assert model.guarantee_.mu <= math.sqrt(Budget(100.0, 1e-6, "add_remove").total("gdp"))
    assert not any(use.mechanism.name == "exponential" for use in model.guarantee_.mechanisms)


def asked(federation, question, mechanism, budget=None, n=4):
    """Return a curator of the coordinator over the rows of all sites, opened, and its answer."""
    table, _, _ = federation.open()
    budget = budget or Budget(1.0, 1e-6, "add_remove")
    session = table.session(budget, "row", None, None)
    curator = session.curator(table.rows(fit_intercept=False, row_norm=1.0))
    curator.open("gdp")
    return curator, [curator.ask(question, mechanism) for _ in range(n)]


@pytest.mark.parametrize(("trust", "colluding"), [("secure", 1), ("secure", 3), ("local", 0)])
def test_the_noise_of_an_answer_is_what_it_states(trust, colluding):
    """The squared norm of the noise, by chi-square with false alarms below 1e-6."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 500)) / 100
    federation = Federation(
        [(X[k::4], np.ones(100)) for k in range(4)], trust=trust, colluding=colluding
    )
    _, answers = asked(federation, RowSum(1.0), Gaussian(10.0), n=3)
    exact = RowSum(1.0).on(as_rows(X, np.ones(400), fit_intercept=False, row_norm=1.0)).values
    from scipy.stats import chi2

    for answer in answers:
        factor = {"secure": math.sqrt(4 / (4 - colluding)), "local": 2.0}[trust]
        assert answer.deviation == pytest.approx(10.0 * factor, rel=1e-3)
        statistic = np.square((answer.values - exact) / answer.deviation).sum()
        assert chi2.ppf(1e-7, 500) < statistic < chi2.ppf(1 - 1e-7, 500)


def test_a_gradient_can_be_measured_again():
    X, y = rows(n=400)
    federation = Federation([(X[k::4], 2.0 * y[k::4] - 1) for k in range(4)], trust="local")
    question = Gradient(Logistic(), np.zeros(4), 1.0)
    curator, [first] = asked(federation, question, Gaussian(50.0), n=1)
    second = curator.refine(first, mechanism=Gaussian(50.0))
    assert second.deviation == pytest.approx(first.deviation / math.sqrt(2))
    assert curator.spent_share > 0
    with pytest.raises(ValueError, match="newest"):
        curator.refine(first, mechanism=Gaussian(50.0))


@pytest.mark.parametrize("trust", ["secure", "local"])
def test_the_coordinator_is_held_to_its_budget_too(trust):
    X, y = rows(n=400)
    federation = Federation([(X[k::4], y[k::4]) for k in range(4)], trust=trust)
    with pytest.raises(BudgetExceeded):
        asked(federation, RowSum(1.0), Gaussian(1.0), n=10)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("solver", "text"),
    [("agd", "filters in Gaussian DP"), ("objpert", "exact rows"), ("outpert", "exact rows")],
)
def test_solvers_without_a_proof_are_refused_and_budgets_given_back(solver, text, tmp_path):
    sites = ledgered(tmp_path, accepts=("secure",))
    federation = Federation(sites, trust="secure")
    with pytest.raises(NotSupported, match=text):
        classifier(solver=solver, data_norm=10.0).fit(*federation.open())
    assert all(site.ledger.spent == 0 for site in sites)


def test_settings_that_need_single_rows_are_refused():
    X, y = rows()
    X, y, _ = Federation(parts(X, y), trust="secure").open()
    with pytest.raises(NotSupported, match="workers"):
        classifier(class_weight="balanced").fit(X, y)
    ledger = Ledger().create("visits", limit=Budget(9.0, 1e-5, "add_remove"), unit="row")
    with pytest.raises(ValueError, match="each site has its own ledger"):
        classifier(random_state=None, ledger=ledger).fit(X, y)


def test_the_guarantee_names_the_trust_model():
    X, y = rows()
    model = classifier(random_state=None).fit(
        *Federation(parts(X, y), trust="secure", colluding=2).open()
    )
    text = " ".join(model.guarantee_.conditions)
    assert "coordinator together with up to 2 of the sites" in text
    assert "one row at one site" in text
    assert model.guarantee_.secure
    trusted = classifier(random_state=None).fit(*Federation(parts(X, y), trust="aggregator").open())
    assert "trusted aggregator" in " ".join(trusted.guarantee_.conditions)


def test_a_seed_at_one_site_is_no_protection():
    X, y = rows()
    sites = [
        Site(f"s{k}", *part, policy=Policy(accepts=("local",)), random_state=k or None)
        for k, part in enumerate(parts(X, y))
    ]
    model = classifier(random_state=None).fit(*Federation(sites, trust="local").open())
    assert not model.guarantee_.secure


# ---- sites that differ


@pytest.mark.filterwarnings("ignore")
def test_unequal_sites_give_the_model_of_pooled_rows():
    """Nine small sites, one large, one class missing at a site, and a constant column at others."""
    rng = np.random.default_rng(5)
    n = 20_000
    X = rng.normal(size=(n, 3))
    y = (X[:, 0] + X[:, 1] + rng.logistic(size=n) > 0).astype(int)
    order = np.argsort(y[:2000])  # the first sites have one class each
    X[:2000], y[:2000] = X[:2000][order], y[:2000][order]
    X[2000:4000, 2] = 1.0
    ends = [*range(200, 2000, 200), 4000]
    tables = list(zip(np.split(X, ends), np.split(y, ends), strict=True))
    truth = classifier(epsilon=1000.0).fit(X, y).coef_
    for trust in ("secure", "local"):
        federation = Federation(tables, trust=trust)
        found = classifier(random_state=None, epsilon=4.0).fit(*federation.open())
        assert np.abs(found.coef_ - truth).max() < 0.25


def test_a_site_with_other_columns_is_named_with_the_column():
    pandas = pytest.importorskip("pandas")
    X, y = rows(n=40)
    one = pandas.DataFrame(X, columns=["age", "dose", "bmi", "days"])
    two = one.rename(columns={"dose": "weight"})
    with pytest.raises(SiteError, match="'dose' and 'weight'"):
        Federation([(one, y), (two, y)], trust="local").open()
    with pytest.raises(SiteError, match="numbers of columns: 4 and 3"):
        Federation([(X, y), (X[:, :3], y)], trust="local").open()
    with pytest.raises(SiteError, match="other types"):
        Federation([(X, y), (X.astype(np.float32), y)], trust="local").open()
    with pytest.raises(SiteError, match="units: 'row' and 'person'"):
        Federation([(X, y), (X, y, np.arange(40))], trust="local").open()


def test_schemas_must_be_the_same():
    X, y = rows(n=40)
    target = Target("sick", classes=["no", "yes"])
    schemas = [
        Schema({"age": Numeric(0, 100), "ward": Categorical(["A", "B"])}, target=target),
        Schema({"age": Numeric(0, 120), "ward": Categorical(["A", "B"])}, target=target),
        Schema({"ward": Categorical(["A", "B"]), "age": Numeric(0, 100)}, target=target),
        Schema(
            {"age": Numeric(0, 100), "ward": Categorical(["A", "B"])},
            target=Target("sick", classes=["yes", "no", "unknown"]),
        ),
    ]
    policy = Policy(accepts=("local",))
    sites = [Site(f"s{k}", X, y, schema=each, policy=policy) for k, each in enumerate(schemas)]
    for other, text in ((1, "column 'age'"), (2, "another order"), (3, "another target")):
        with pytest.raises(SiteError, match=text):
            Federation([sites[0], sites[other]], trust="local").open()
    plain = Site("plain", X, y, policy=policy)
    with pytest.raises(SiteError, match="other has none"):
        Federation([sites[0], plain], trust="local").open()
    again = Site("again", X, y, schema=schemas[0], policy=policy)
    assert Federation([sites[0], again], trust="local").schema == schemas[0]


# ---- sites that fail


def ledgered(folder, accepts=("secure", "local", "aggregator"), epsilon=9.0):
    X, y = rows()
    sites = []
    for k, part in enumerate(parts(X, y)):
        ledger = Ledger(folder / f"{k}.sqlite").create(
            "visits", limit=Budget(epsilon, 1e-6, "add_remove"), unit="row"
        )
        sites.append(Site(f"s{k}", *part, ledger=ledger, policy=Policy(accepts=accepts)))
    return sites


class Failing(Local):
    """A site that is lost after some messages, repeats a reply, or lies about who it is."""

    def __init__(self, site, after, how):
        super().__init__(site)
        object.__setattr__(self, "left", [after])
        object.__setattr__(self, "how", how)
        object.__setattr__(self, "last", [b""])

    def send(self, message):
        self.left[0] -= 1
        if self.left[0] < 0 and self.how == "lost":
            raise SiteError(f"Site {self.name!r} is lost.")
        if self.left[0] < 0 and self.how == "lost after":
            self.site.handle(message)
            raise SiteError(f"Site {self.name!r} is lost.")
        if self.left[0] < 0 and self.how == "repeats":
            return self.last[0]
        self.last[0] = self.site.handle(message)
        return self.last[0]


@pytest.mark.parametrize("trust", ["secure", "local", "aggregator"])
@pytest.mark.parametrize("how", ["lost", "lost after", "repeats"])
@pytest.mark.parametrize("after", [3, 8, 20])
def test_a_site_that_fails_ends_the_fit_and_ledgers_show_what_was_released(
    tmp_path, trust, how, after
):
    sites = ledgered(tmp_path)
    channels = [*map(Local, sites[:3]), Failing(sites[3], after, how)]
    if trust == "secure":
        from discreet.sites.federation import introduce

        introduce(sites)
    federation = Federation(channels, trust=trust)
    with pytest.raises(SiteError, match=r"lost|another message"):
        classifier(random_state=None).fit(*federation.open())
    for site in sites:
        released = sum(entry["answers"] for entry in site.record)
        if site._visit is not None:  # the site that nobody could tell
            released += site._visit.answers
        if released:
            assert site.ledger.spent > 0.99
        elif site._visit is None:
            assert site.ledger.spent == 0


def test_an_exhausted_ledger_ends_the_fit_before_anything_is_read(tmp_path):
    sites = ledgered(tmp_path)
    poor = Ledger(tmp_path / "poor.sqlite").create(
        "visits", limit=Budget(0.5, 1e-6, "add_remove"), unit="row"
    )
    sites[2].ledger = poor
    with pytest.raises(SiteError, match=r"'s2' refused.*limit"):
        classifier(random_state=None).fit(*Federation(sites, trust="secure").open())
    assert all(site.ledger.spent == 0 for site in sites)
    assert all(entry["answers"] == 0 for site in sites for entry in site.record)


def test_every_ledger_is_charged_once_per_fit(tmp_path):
    sites = ledgered(tmp_path)
    federation = Federation(sites, trust="secure")
    for fits in (1, 2):
        classifier(random_state=None).fit(*federation.open())
        for site in sites:
            assert site.ledger.spent >= 0.99
            assert len(site.record) == fits
            assert site.record[-1]["budget"] == "counted"
            assert site.record[-1]["spent_share"] <= 1


def test_a_refusal_in_the_middle_ends_the_fit(tmp_path):
    sites = ledgered(tmp_path)
    seen = []

    def stop(progress):
        seen.append(progress)
        if len(seen) == 2:
            sites[1].refuse("a patient withdrew")

    federation = Federation(sites, trust="secure")
    with pytest.raises(SiteError, match="'s1' refused: The site takes no part: a patient withdrew"):
        classifier(random_state=None, progress=stop).fit(*federation.open())
    assert all(site.ledger.spent >= 0.99 for site in sites)


def test_a_reply_of_another_site_is_refused():
    X, y = rows(n=40)

    class Lying(Local):
        def send(self, message):
            reply = wire.decode(super().send(message))
            return wire.encode(reply | {"site": "somebody"})

    sites = [Site(f"s{k}", X, y, policy=Policy(accepts=("local",))) for k in range(2)]
    with pytest.raises(SiteError, match="did not describe itself"):
        Federation([Local(sites[0]), Lying(sites[1])], trust="local").open()


def test_federations_are_checked():
    X, y = rows(n=40)
    with pytest.raises(ValueError, match="from 2 to 1,000 sites"):
        Federation([(X, y)], trust="local")
    with pytest.raises(ValueError, match="colluding must be an integer from 0 to 1"):
        Federation([(X, y), (X, y)], trust="secure", colluding=2)
    with pytest.raises(ValueError, match="same name"):
        Federation([Site("a", X, y), Site("a", X, y)], trust="local")
    with pytest.raises(ValueError, match="trust must be"):
        Federation([(X, y), (X, y)], trust="none")
    with pytest.raises(PrivacyError, match="No fit over these sites"):
        assert Federation([(X, y), (X, y)], trust="local").meeting
    with pytest.raises(SiteError, match="takes no part with trust='aggregator'"):
        Federation([Site("a", X, y), Site("b", X, y)], trust="aggregator").open()


@pytest.mark.filterwarnings("ignore")
def test_counts_are_modelled_over_sites():
    X, _ = rows()
    y = np.random.default_rng(2).poisson(np.exp(0.5 * X[:, 0]))
    settings = {"epsilon": 1.0, "delta": 1e-6, "target_bounds": (0, 10), "random_state": 0}
    pooled = PoissonRegressor(**settings).fit(X, y)
    federation = Federation(parts(X, y), trust="aggregator")
    found = PoissonRegressor(**settings).fit(*federation.open())
    np.testing.assert_allclose(found.coef_, pooled.coef_, rtol=1e-9, atol=1e-9)


def test_traffic_is_counted():
    X, y = rows()
    federation = Federation(parts(X, y), trust="secure")
    classifier(random_state=None).fit(*federation.open())
    traffic = federation.traffic
    assert traffic.messages == 4 * traffic.rounds
    assert 0 < traffic.questions <= 45
    assert traffic.received > 4 * 8 * traffic.numbers
