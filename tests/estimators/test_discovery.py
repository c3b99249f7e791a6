"""Levels found within a fit's budget: what they cost, when they are charged, and what they do."""

import math
import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from sklearn.base import clone

from discreet import (
    Budget,
    Ledger,
    LinearRegression,
    LogisticRegression,
    OrdinalClassifier,
    discover,
    load,
    save,
)
from discreet.column_kinds import check_columns
from discreet.core.account import Account
from discreet.core.bits import SeededBits
from discreet.design import Design
from discreet.errors import AveragedCellsWarning, BudgetExceeded, NotSupported, TableError
from discreet.estimators.discovery import LevelBudget
from discreet.exact.cell_questions import TextCounts
from discreet.rows.units import Units
from discreet.tables import Categorical, Discovered, Ignored, Schema
from discreet.tables.cell_rows import TableCells

N = 6000
FREQUENT = ["A", "B", "C", "D"]


@pytest.fixture(scope="module")
def table():
    """A table whose ward has four frequent levels, 200 rare ones, and an effect of B."""
    rng = np.random.default_rng(0)
    rare = [f"rare{index}" for index in range(200)]
    wards = np.where(rng.random(N) < 0.95, rng.choice(FREQUENT, N), rng.choice(rare, N))
    frame = pd.DataFrame({"ward": wards, "x": rng.random(N)})
    return frame, rng.random(N) < np.where(frame.ward == "B", 0.8, 0.3)


def model(**settings):
    columns = {"ward": discover(0.1), "x": (0, 1, "linear")}
    own = {"columns": columns, "random_state": 0}
    return LogisticRegression(**{"epsilon": 2.0, "delta": 1e-6} | own | settings)


def quiet(estimator, *data, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(*data, **more)


@pytest.fixture(scope="module")
def fitted(table):
    return quiet(model(), *table)


def test_frequent_levels_are_found_and_rare_ones_are_not(fitted):
    assert fitted.design_.schema.columns["ward"] == Categorical(FREQUENT, unseen="average")
    assert not fitted.design_.discovered
    weights = dict(zip(fitted.design_.feature_names, fitted.coef_[0], strict=True))
    assert max(weights, key=weights.get) == "ward=B"


@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas])
def test_tables_of_all_libraries_have_the_same_levels(convert, fitted, table):
    frame, y = table
    other = quiet(model(), convert(frame), y)
    assert (other.coef_ == fitted.coef_).all()


def test_a_level_that_was_not_found_is_the_average(fitted, table):
    frame, _ = table
    rows = pd.concat([frame.head(1).assign(ward=ward) for ward in ("rare0", "new", None, "B")])
    with pytest.warns(AveragedCellsWarning, match=r"ward \(3\)"):
        scores = fitted.decision_function(rows)
    assert scores[0] == scores[1] == scores[2] != scores[3]


def test_files_pickles_and_clones_keep_what_was_found(fitted, table, tmp_path):
    frame, y = table
    save(fitted, tmp_path / "model.json")
    for again in (load(tmp_path / "model.json"), pickle.loads(pickle.dumps(fitted))):
        assert (again.decision_function(frame[:50]) == fitted.decision_function(frame[:50])).all()
        assert again.design_.to_dict() == fitted.design_.to_dict()
        assert again.guarantee_.recompute() == fitted.guarantee_.recompute()
    loaded = clone(load(tmp_path / "model.json"))
    assert loaded.columns["ward"] == discover(0.1)
    assert (quiet(loaded.set_params(random_state=0), frame, y).coef_ == fitted.coef_).all()


# ---- what it costs


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("inference", [False, True])
def test_an_independent_accountant_agrees_with_the_whole_fit(table, relation, inference):
    found = quiet(model(relation=relation, inference=inference), *table).guarantee_
    [levels] = [use for use in found.mechanisms if use.mechanism.name == "gaussian_histogram"]
    assert levels.count == 1
    accountant = PLDAccountant(value_discretization_interval=1e-4)
    for use in found.mechanisms:
        mechanism = use.mechanism
        if mechanism.name in ("gaussian", "gaussian_histogram"):
            multiplier = mechanism.noise_multiplier
        else:  # a choice of bounded range
            assert mechanism.name == "exponential"
            multiplier = 1 / mechanism.loss.mu
        accountant.compose(GaussianDpEvent(multiplier), use.count)
    # Gaussian DP holds but for the event that a lone text is released.
    epsilon = accountant.get_epsilon(found.delta - levels.mechanism.delta)
    assert epsilon == pytest.approx(2.0, rel=2e-3)
    assert epsilon <= 2.0 * (1 + 1e-4)  # what a grid of losses rounds up
    assert found.recompute() == pytest.approx(2.0, rel=2e-3)
    assert (found.epsilon, found.delta, found.measure, found.mu) == (2.0, 1e-6, "approximate", None)


def test_shares_of_mu_and_delta_are_those_that_were_declared():
    declared = {"a": discover(0.05), "b": discover(0.2)}
    design = Design(Schema(declared))
    budget = Budget(1.0, 1e-6, "add_remove")
    plan = LevelBudget.of(budget, design)
    assert [mechanism.delta for mechanism in plan.mechanisms] == pytest.approx([5e-8, 2e-7])
    left = Budget(1.0, 7.5e-7, "add_remove")
    squares = [mechanism.loss.mu**2 for mechanism in plan.mechanisms]
    assert squares == pytest.approx([0.05 * left.to_gdp().mu ** 2, 0.2 * left.to_gdp().mu ** 2])
    assert plan.rest.to_gdp().mu ** 2 == pytest.approx(0.75 * left.to_gdp().mu ** 2)
    assert Fraction(plan.rest.delta) + plan.delta <= Fraction(budget.delta)


def test_the_guarantee_says_what_was_released(fitted):
    shares = dict(fitted.guarantee_.split)
    assert shares["levels of ward"] == pytest.approx(0.1, rel=1e-6)
    assert sum(share for _, share in fitted.guarantee_.split) == pytest.approx(1.0)
    [use] = [u for u in fitted.guarantee_.mechanisms if u.mechanism.name == "gaussian_histogram"]
    stated = f"is at least {use.mechanism.threshold:.4g}"
    [condition] = [text for text in fitted.guarantee_.conditions if "levels of ward" in text]
    assert stated in condition
    assert "probability 1e-07" in condition
    before = "the budget was divided between preparation and model before a row was read"
    assert before not in fitted.guarantee_.conditions
    assert "gaussian histogram" in str(fitted.card())


def test_the_rest_of_the_fit_has_the_rest_of_the_budget(table):
    """The noise of a fixed solver grows by what the levels cost, and by nothing else."""
    frame, y = table
    listed = {"ward": FREQUENT, "x": (0, 1, "linear")}
    without = quiet(model(columns=listed, solver="gd"), frame, y).guarantee_
    rest = LevelBudget.of(Budget(2.0, 1e-6, "add_remove"), Design(Schema({"ward": discover(0.1)})))
    with_levels = quiet(model(solver="gd"), frame, y).guarantee_
    own = [use for use in with_levels.mechanisms if use.mechanism.name == "gaussian"]
    spent = sum(use.count * use.mechanism.loss.mu**2 for use in own)
    assert math.sqrt(spent) == pytest.approx(rest.rest.to_gdp().mu, rel=1e-6)
    all_of_it = sum(use.count * use.mechanism.loss.mu**2 for use in without.mechanisms)
    assert math.sqrt(all_of_it) == pytest.approx(Budget(2.0, 1e-6, "add_remove").to_gdp().mu)


# ---- when it is charged


def test_the_account_and_the_ledger_are_charged_before_a_cell_is_read(table, tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    visits = ledger.create("visits", limit=Budget(3.0, 1e-5, "add_remove"), unit="row")
    accounts = []
    made = Account.__init__
    monkeypatch.setattr(
        Account, "__init__", lambda self, *args: [made(self, *args), accounts.append(self)][0]
    )
    read = []
    answer = TableCells.answer

    def spied(self, questions):
        [account] = accounts
        uses = [use for part in account._reserved.values() for use in part.uses]
        read.append([(mechanism.name, times) for mechanism, times in uses])
        assert visits.entries == 1
        return answer(self, questions)

    monkeypatch.setattr(TableCells, "answer", spied)
    found = quiet(model(ledger=visits), *table)
    assert read == [[("gaussian_histogram", 1)]]
    assert visits.entries == 1  # one entry for all of the fit
    assert found.ledger_entry_ is not None


def test_a_full_ledger_lets_no_cell_be_read(table, tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    visits = ledger.create("visits", limit=Budget(1.0, 1e-6, "add_remove"), unit="row")
    monkeypatch.setattr(TableCells, "answer", lambda *_: pytest.fail("cells were read"))
    with pytest.raises(BudgetExceeded):
        quiet(model(ledger=visits), *table)


def test_a_fit_that_fails_after_the_read_stays_charged(table, tmp_path, monkeypatch):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    visits = ledger.create("visits", limit=Budget(3.0, 1e-5, "add_remove"), unit="row")
    monkeypatch.setattr("discreet.estimators.engine.prepare", lambda run: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        quiet(model(ledger=visits), *table)
    with pytest.raises(BudgetExceeded):
        quiet(model(ledger=visits), *table)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"delta": 0.0, "solver": "objpert"}, "needs delta > 0"),
        ({"solver": "agd"}, "composes in zcdp"),
        ({"solver": "objpert"}, "composes in profile"),
        ({"solver": "nonprivate"}, "protects nobody"),
        ({"columns": {"ward": discover(0.6), "x": discover(0.4)}}, "leaves nothing"),
    ],
)
def test_what_cannot_be_accounted_for_is_refused_before_the_read(
    table, settings, match, monkeypatch
):
    monkeypatch.setattr(TableCells, "answer", lambda *_: pytest.fail("cells were read"))
    with pytest.raises((NotSupported, ValueError), match=match):
        quiet(model(**settings), *table)


def test_bad_cells_of_other_columns_are_refused_before_the_read(table, monkeypatch):
    frame, y = table
    monkeypatch.setattr(TableCells, "answer", lambda *_: pytest.fail("cells were read"))
    bad = frame.assign(when="soon")
    columns = {"ward": discover(0.1), "when": Categorical(["now"], unseen="refuse")}
    with pytest.raises(TableError, match="'when'"):
        quiet(model(columns=columns), bad, y)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        quiet(model(), frame, y[:-1])


# ---- units


def test_a_person_adds_one_to_one_count_whatever_rows_they_have():
    """Neighbouring tables of people, with the same bits for everybody else."""
    rng = np.random.default_rng(1)
    ids = np.repeat(np.arange(50), rng.integers(1, 8, 50))
    frame = pd.DataFrame({"a": rng.choice(list("uvwxyz"), ids.size)})
    many = pd.DataFrame({"a": [f"own{index}" for index in range(300)]})

    def counts(rows, people, seed):
        units = Units.of(people, len(rows))
        cells = TableCells(rows, Schema({"a": discover()}), units, SeededBits(seed))
        assert cells.unit == "person"
        assert cells.public_size == units.count
        [found] = cells.answer([TextCounts("a")])
        return found

    for seed in range(20):
        before = counts(frame, ids, seed)
        assert sum(before.values()) == 50
        with_more = pd.concat([frame, many], ignore_index=True)
        after = counts(with_more, np.append(ids, np.full(300, 50)), seed)
        changed = {text: after[text] - before[text] for text in {*before, *after}}
        assert sum(abs(change) for change in changed.values()) == 1


def test_rows_are_counted_once_each():
    frame = pd.DataFrame({"a": ["u", "v", "u", None, " u "], "b": 1})
    cells = TableCells(frame, Schema({"a": discover(), "b": discover()}), None, SeededBits(0))
    assert (cells.unit, cells.public_size) == ("row", 5)
    [found, cut] = cells.answer([TextCounts("a"), TextCounts("b", prefix=1)])
    assert found == {"u": 3, "v": 1}
    assert cut == {"1": 5}


def test_many_rows_of_one_person_make_no_level(table):
    frame, y = table
    ids = np.arange(N)
    ids[frame.ward.str.startswith("rare")] = N
    flooded = frame.assign(ward=frame.ward.where(ids < N, "flood"))
    by_row = quiet(model(), flooded, y)
    by_person = quiet(model(), flooded, y, groups=ids)
    assert "flood" in by_row.design_.schema.columns["ward"].values
    assert by_person.design_.schema.columns["ward"].values == tuple(FREQUENT)
    assert by_person.guarantee_.unit == "person"
    assert any("one row each was drawn" in text for text in by_person.guarantee_.conditions)


# ---- settings, and what is left if nothing is found


def test_prefix_and_most(table):
    frame, y = table
    coded = frame.assign(ward=frame.ward + ".83")
    columns = {"ward": discover(0.1, prefix=1), "x": (0, 1, "linear")}
    found = quiet(model(columns=columns), coded, y).design_.schema.columns["ward"]
    assert found == Categorical([*FREQUENT, "r"], unseen="average", prefix=1)
    uneven = frame.assign(ward=frame.ward.replace({"C": "A", "D": "B"}))
    columns = {"ward": discover(0.1, most=1), "x": (0, 1, "linear")}
    kept = quiet(model(columns=columns), uneven.replace({"B": "A"}), y)
    assert kept.design_.schema.columns["ward"].values == ("A",)


def test_a_column_without_a_frequent_level_is_not_used(table):
    frame, y = table
    names = frame.assign(name=[f"person {index}" for index in range(N)])
    columns = {"name": discover(0.1), "ward": discover(0.1)}
    with pytest.warns(UserWarning, match="No level of name was frequent enough"):
        found = model(columns=columns).fit(names, y)
    assert isinstance(found.design_.schema.columns["name"], Ignored)
    assert found.design_.schema.columns["ward"].values == tuple(FREQUENT)


def test_a_table_without_any_level_is_refused_and_shows_no_cell(table):
    _, y = table
    names = pd.DataFrame({"name": [f"person {index}" for index in range(N)]})
    with pytest.raises(TableError, match="No column is left") as caught:
        quiet(model(columns={"name": discover(0.5)}), names, y)
    assert "person" not in str(caught.value)


def test_codes_stored_as_numbers_have_levels_too(table):
    frame, y = table
    codes = frame.assign(ward=frame.ward.map(lambda ward: "ABCD".find(ward[0])))
    found = quiet(model(), codes, y).design_.schema.columns["ward"]
    assert set(found.values) == {"-1", "0", "1", "2", "3"}


def test_regressors_find_levels_and_models_of_several_rows_do_not(table):
    frame, y = table
    columns = {"ward": discover(0.1), "x": (0, 1, "linear")}
    regressor = LinearRegression(2.0, 1e-6, target_bounds=(0, 1), columns=columns, random_state=0)
    found = quiet(regressor, frame, y.astype(float))
    assert found.design_.schema.columns["ward"].values == tuple(FREQUENT)
    with pytest.raises(NotSupported, match="several rows of each one"):
        quiet(OrdinalClassifier(2.0, 1e-6, columns=columns), frame, y.astype(int))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"share": 0.0}, "share"),
        ({"share": 1.0}, "share"),
        ({"most": 0}, "most"),
        ({"prefix": 0}, "prefix"),
    ],
)
def test_settings_are_checked(settings, match):
    with pytest.raises(ValueError, match=match):
        discover(**settings)


def test_it_is_a_declaration_of_columns():
    assert discover(0.05, 3, 10) == Discovered(0.05, 3, 10)
    assert check_columns({"a": discover()}) == {"a": Discovered()}
    schema = Schema({"a": discover(0.2, prefix=3)})
    assert Schema.from_toml(schema.to_toml()) == schema
    with pytest.raises(ValueError, match="are to be found by a fit"):
        schema.transformer().fit_transform({"a": ["x"]})
    with pytest.raises(ValueError, match="something else than numbers"):
        quiet(model(columns={0: discover()}), np.zeros((10, 1)), np.arange(10) % 2)
    dates = pd.DataFrame({"a": pd.to_datetime(["2020-01-01"] * 10)})
    with pytest.raises(ValueError, match="holds times; levels are texts"):
        quiet(model(columns={"a": discover()}), dates, np.arange(10) % 2)


def test_the_error_about_texts_names_it(table):
    frame, y = table
    with pytest.raises(ValueError, match=r"'ward': discover\(\)"):
        quiet(model(columns={"x": (0, 1)}), frame, y)
