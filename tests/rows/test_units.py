"""Privacy units: ids, weights that add up to 1 for each unit, samples and draws of units."""

import datetime
import decimal
import uuid
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.accounting.subsampling import SampledGaussian
from discreet.core import Account, Budget, Curator, Gaussian, Relation
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.core.questions import Gradient
from discreet.errors import NotSupported, PrivacyError
from discreet.objectives import Logistic
from discreet.rows import (
    Block,
    RowWeights,
    Units,
    as_rows,
    partitioned_rows,
    scaled_weights,
)
from discreet.rows.bounds import WEIGHT_STEPS

from .questions import EVERYTHING, Threads, numbers

RNG = np.random.default_rng(5)
CODES = np.array([0, 1, 0, 2, 2, 2, 1, 3])
IDS = {
    "int64": np.array([7, -3, 7, 11, 11, 11, -3, 0]),
    "far apart": np.array([7, -(2**62), 7, 2**62, 2**62, 2**62, -(2**62), 0]),
    "int8": np.array([100, -100, 100, 127, 127, 127, -100, 0], dtype=np.int8),
    "uint64": np.array([2**64 - 1, 2**64 - 2, 2**64 - 1, 5, 5, 5, 2**64 - 2, 6], dtype=np.uint64),
    "dense uint64": np.array([9, 8, 9, 7, 7, 7, 8, 6], dtype=np.uint64) + np.uint64(2**63),
    "float": np.array([0.5, -0.0, 0.5, np.inf, np.inf, np.inf, 0.0, 4.0]),
    "text": np.array(list("bacdddaz"))[[0, 1, 0, 3, 4, 5, 6, 7]],
    "bytes": np.array([b"b", b"a", b"b", b"d", b"d", b"d", b"a", b"z"]),
    "dates": np.array([5, 3, 5, 9, 9, 9, 3, 2], dtype="datetime64[D]"),
    "list": [3, 1, 3, "4"[0:0] or 2, 2, 2, 1, 9],
    "equal numbers": [1, 0, True, 2, 2.0, decimal.Decimal(2), False, Fraction(9)],
    "tuples": [("a", 1), ("b", 1), ("a", True), ("c", 2), ("c", 2), ("c", 2.0), ("b", 1), ("d", 3)],
    "uuids": [uuid.UUID(int=k) for k in (5, 4, 5, 7, 7, 7, 4, 1)],
    "days": [datetime.date(2020, 1, k) for k in (5, 4, 5, 7, 7, 7, 4, 1)],
    "texts of numbers": ["1", "-2", "1.0", "30", "3e1", " 30.", "-02.00", "0.5"],
    "numpy texts": np.array(["1", "x", "+1", "10", "1e1", "0010", "x ", "1_0"]),
}


def partition(codes):
    """Return the sets of rows that share a unit."""
    return {frozenset(np.flatnonzero(np.asarray(codes) == code)) for code in np.unique(codes)}


@pytest.mark.parametrize("kind", IDS)
def test_equal_ids_are_one_unit(kind):
    units = Units.of(IDS[kind], 8)
    assert units.count == 4
    assert sorted(np.unique(units.codes)) == [0, 1, 2, 3]
    assert partition(units.codes) == partition(CODES)
    assert units.codes.dtype == np.int32


NOON = datetime.datetime(2020, 1, 5, 12)
UTC = datetime.UTC


def test_data_frames_and_series_have_ids():
    pd = pytest.importorskip("pandas")
    for dtype in ("int64", "Int64", "string", "category", object):
        ids = pd.Series([4, 3, 4, 9, 9, 9, 3, 1], index=list("hgfedcba")).astype(dtype)
        assert partition(Units.of(ids, 8).codes) == partition(CODES)
    for missing in (pd.Series([1, None] * 4, dtype="Int64"), pd.Series(["a", pd.NA] * 4)):
        with pytest.raises(ValueError, match="missing ids"):
            Units.of(missing, 8)


NAN = float("nan")
MISSING = [
    [1, None] * 4,
    [1.0, NAN] * 4,
    ["a", None] * 4,
    ["a", NAN] * 4,
    np.array([1.0, np.nan] * 4),
    np.array(["2020-01-01", "NaT"] * 4, dtype="datetime64[D]"),
    np.ma.masked_array(np.arange(8), mask=[0, 1] * 4),
    [(1, None), (1, 2)] * 4,
    [(1, NAN), (1, 2)] * 4,
    [decimal.Decimal("NaN"), decimal.Decimal(1)] * 4,
]


@pytest.mark.parametrize("ids", MISSING, ids=str)
def test_missing_ids_are_refused(ids):
    with pytest.raises(ValueError, match="missing ids"):
        Units.of(ids, 8)


MIXED = [
    [1, "1"] * 4,
    [b"1", "1"] * 4,
    np.array([1, "1"] * 4, dtype=object),
    [("a", 1), ("a", "1")] * 4,
    [uuid.UUID(int=1), str(uuid.UUID(int=1))] * 4,
    [(1,), 1] * 4,
    [NOON, NOON.replace(tzinfo=UTC)] * 4,
    [("a", NOON), ("a", NOON.replace(tzinfo=UTC))] * 4,
]


@pytest.mark.parametrize("ids", MIXED, ids=str)
def test_ids_that_differ_in_type_are_refused(ids):
    with pytest.raises(ValueError, match="mixes kinds"):
        Units.of(ids, 8)


@pytest.mark.parametrize("ids", [np.arange(7), np.arange(9), np.zeros((8, 1)), 3, "abcdefgh", None])
def test_other_shapes_are_refused_without_showing_an_id(ids):
    with pytest.raises(ValueError, match="groups must"):
        Units.of(ids, 8)
    with pytest.raises(ValueError, match="hashable"):
        Units.of([[1], [2]] * 4, 8)


@pytest.mark.parametrize("k", [1, 2, 3, 7, 1000])
def test_weights_of_a_unit_add_up_to_one_at_most(k):
    sizes = [*range(1, 400), 4095, 4096, 100_003]
    codes = RNG.permutation(np.repeat(np.arange(len(sizes)), sizes))
    own = Units.of(codes, len(codes)).weights(k)
    steps = (own.values * WEIGHT_STEPS).astype(np.int64)
    assert (steps == own.values * WEIGHT_STEPS).all()
    totals = np.bincount(codes, steps).astype(np.int64)
    assert (totals <= WEIGHT_STEPS).all()
    for size, total in zip(sizes, totals, strict=True):
        assert total / WEIGHT_STEPS == pytest.approx(min(1, size / k), abs=size / WEIGHT_STEPS)
    factors = RNG.uniform(0, 1, len(codes))
    factors[:100] = 1.0
    less = Units.of(codes, len(codes)).weights(k, factors)
    assert (less.values <= own.values).all()
    assert less.size == own.size == len(sizes)
    for bad in (0, -1, 1.5, True, None):
        with pytest.raises(ValueError, match="rows_per_unit"):
            Units.of(codes, len(codes)).weights(bad)


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 1)), min_size=1, max_size=60))
def test_capped_weights_of_a_unit_add_up_to_one_at_most(rows):
    codes, values = (np.array(part) for part in zip(*rows, strict=True))
    units = Units.of(codes, len(codes))
    weights = units.capped(values.astype(float))
    for unit in range(units.count):
        own = units.codes == unit
        total = sum(Fraction(value) for value in weights.values[own].tolist())
        assert total <= 1
        asked = sum(Fraction(value) for value in values[own].tolist())
        for value, weight in zip(values[own].tolist(), weights.values[own].tolist(), strict=True):
            wanted = Fraction(value) / max(asked, Fraction(1))
            assert abs(Fraction(weight) - wanted) <= Fraction(int(own.sum()) + 2, WEIGHT_STEPS)
    with pytest.raises(ValueError, match="from 0 to 1"):
        units.capped(np.full(len(codes), 1.5))


def test_a_unit_of_very_many_rows_has_weight_one_at_most():
    codes = np.append(np.zeros(2_000_000, dtype=np.int64), 1)
    own = Units.of(codes, len(codes)).weights()
    total = int((own.values[:-1] * WEIGHT_STEPS).astype(np.int64).sum())
    assert 0.99 * WEIGHT_STEPS < total <= WEIGHT_STEPS


def table(n, people):
    ids = np.append(np.arange(people), RNG.integers(0, people, n - people))
    return RNG.normal(size=(n, 4)), np.where(RNG.random(n) < 0.5, 1.0, 2.0), ids


def grouped(n=60, people=20):
    X, y, ids = table(n, people)
    return as_rows(X, y, row_norm=1.5, weights=Units.of(ids, n).weights())


@pytest.mark.parametrize("name", EVERYTHING)
def test_the_order_of_rows_does_not_matter(name):
    X, y, ids = table(60, 20)
    rows, order = as_rows(X, y, row_norm=1.5, weights=Units.of(ids, 60).weights()), np.arange(60)
    RNG.shuffle(order)
    weights = Units.of(ids[order], 60).weights()
    other = as_rows(X[order], y[order], row_norm=1.5, weights=weights)
    first, second = numbers(EVERYTHING[name](rows)), numbers(EVERYTHING[name](other))
    np.testing.assert_allclose(first, second, rtol=1e-9, atol=1e-9)


def test_units_are_carried_to_other_rows():
    rows = grouped()
    assert rows.grouped
    assert rows.n_units == rows.public_size == 20
    index = np.array([4, 30, 2])
    assert (rows.take(index).units == rows.units[index]).all()
    narrow, other = rows.columns(np.array([0, 2]), 2.0), rows.with_targets(-rows.targets)
    for derived in (narrow, other, rows.within_reach()):
        assert derived.grouped
        assert (derived.units == rows.units).all()
    plain = as_rows(np.ones((60, 4)), rows.targets)
    assert not plain.grouped
    assert plain.n_units == 60
    again = plain.with_weights(rows.row_weights)
    assert again.grouped
    assert again.public_size == 20
    assert (again.weights == rows.weights).all()
    with pytest.raises(ValueError, match="one number for each row"):
        plain.with_weights(RowWeights(np.ones(3), 60))


def test_samples_take_all_rows_of_a_unit_or_none():
    rows = grouped(600, 200)
    for sample in (
        rows.sample(0.3, np.random.default_rng(1)),
        rows.take_units(np.array([3, 77, 150])),
    ):
        drawn = np.unique(sample.units)
        assert len(sample.units) == np.isin(rows.units, drawn).sum()
        assert (sample.weights == rows.weights[np.isin(rows.units, drawn)]).all()
        assert sample.public_size == 200
    share = len(np.unique(rows.sample(0.3, np.random.default_rng(2)).units)) / 200
    assert 0.12 < share < 0.5  # Binomial(200, 0.3): outside with probability below 1e-7


def test_a_row_that_shares_no_unit_is_taken_by_its_own_number():
    plain = as_rows(np.arange(24.0).reshape(6, 4), np.arange(6.0))
    assert plain.take_units(np.array([1, 4])).targets.tolist() == [1.0, 4.0]


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_sampled_gradients_sample_units(relation, monkeypatch):
    rows = grouped(600, 200)
    taken = []
    take = type(rows).take

    def spied(self, index):
        taken.append(np.asarray(index))
        return take(self, index)

    monkeypatch.setattr(type(rows), "take", spied)
    step = SampledGaussian(5.0, 0.2, relation=Relation(relation), sampling="poisson")
    curator = Curator(
        rows, Account(Budget(8.0, 1e-6, relation), unit=rows.unit), Noise(SeededBits(0))
    )
    curator.open_plan(step, 3)
    for _ in range(3):
        curator.sampled_gradient(Gradient(Logistic(), np.zeros(5), clip=1.0), step)
    for index in taken:
        drawn = np.unique(rows.units[index])
        assert len(index) == np.isin(rows.units, drawn).sum()
        assert 10 < len(drawn) < 80  # Binomial(200, 0.2): outside with probability below 1e-9
    assert len(taken) == 3


def test_samples_of_unknown_units_are_refused_before_anything_is_charged():
    rows = as_rows(np.eye(4), np.ones(4), weights=np.full(4, 0.5), public_size=2)
    step = SampledGaussian(5.0, 0.2, relation=Relation.ADD_REMOVE, sampling="poisson")
    curator = Curator(
        rows, Account(Budget(8.0, 1e-6, "add_remove"), unit=rows.unit), Noise(SeededBits(0))
    )
    curator.open_plan(step, 3)
    with pytest.raises(NotSupported, match="need their units"):
        curator.sampled_gradient(Gradient(Logistic(), np.zeros(5), clip=1.0), step)
    assert curator.spent_share == 0


def test_proofs_for_single_rows_are_refused_for_units():
    rows = grouped()
    for ask in ("release", "run"):
        curator = Curator(
            rows, Account(Budget(1.0, 1e-6, "add_remove"), unit=rows.unit), Noise(SeededBits(0))
        )
        curator.open("gdp")
        settings = {"proven_for": Relation.ADD_REMOVE, "mechanism": Gaussian(10.0), "size": 1}
        settings |= {"sensitivity": 1.0, "magnitude": 1.0} if ask == "release" else {}
        with pytest.raises(PrivacyError, match="rows share units"):
            getattr(curator, ask)(lambda *_: np.zeros(1), **settings)
        assert curator.spent_share == 0
    single = as_rows(
        np.eye(3), np.ones(3), weights=RowWeights.of(np.full(3, 0.5), 3, grouped=False)
    )
    curator = Curator(
        single, Account(Budget(1.0, 1e-6, "add_remove"), unit=rows.unit), Noise(SeededBits(0))
    )
    curator.open("gdp")
    settings = {"proven_for": Relation.ADD_REMOVE, "mechanism": Gaussian(10.0), "size": 1}
    curator.run(lambda *_: np.zeros(1), **settings)


def test_one_row_of_each_unit_is_drawn():
    codes = np.repeat(np.arange(5), [1, 2, 3, 4, 40])
    order = RNG.permutation(len(codes))
    units = Units.of(codes[order], len(codes))
    seen = set()
    for seed in range(300):
        index = units.draw(SeededBits(seed))
        assert (np.diff(index) > 0).all()
        assert sorted(units.codes[index]) == [0, 1, 2, 3, 4]
        seen |= set(index.tolist())
    assert len(seen) > 45  # a row of 40 is missed by 300 draws with probability 5e-4
    counts = np.zeros(4)
    for seed in range(2000):
        index = units.draw(SeededBits(seed))
        chosen = index[units.codes[index] == 3][0]
        counts[np.flatnonzero(units.codes == 3).tolist().index(chosen)] += 1
    assert (abs(counts - 500) < 110).all()  # Binomial(2000, 1/4): five and a half deviations


def test_the_draw_of_a_unit_does_not_depend_on_others_values():
    """The row of a unit is drawn by its own bits: the other units' rows stay where they are."""
    codes = np.repeat(np.arange(6), [3, 1, 4, 2, 5, 2])
    units = Units(codes.astype(np.int32), 6)
    index = units.draw(SeededBits(3))
    longer = np.append(codes, [2, 2, 2])  # unit 2 gets more rows: replaced by another
    again = Units(longer.astype(np.int32), 6).draw(SeededBits(3))
    assert set(index[codes[index] != 2]) == set(again[longer[again] != 2])


def test_a_unit_in_two_partitions_needs_weights_of_the_whole_table():
    X, y, ids = RNG.normal(size=(40, 3)), np.ones(40), np.tile(np.arange(10), 4)
    whole = Units.of(ids, 40).weights()
    halves = [slice(0, 20), slice(20, 40)]
    good = [Block(k, X[at], y[at], whole.values[at]) for k, at in enumerate(halves)]
    rows = partitioned_rows(Threads(), good, public_size=10)
    assert rows.grouped
    assert rows.n_units == 10
    plain = as_rows(X, y, weights=whole)
    [expected] = plain.answer([Gradient(Logistic(), np.ones(4), 1.0)])
    [found] = rows.answer([Gradient(Logistic(), np.ones(4), 1.0)])
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-12)
    assert found.error == expected.error
    wrong = [
        Block(k, X[at], y[at], Units.of(ids[at], 20).weights().values)
        for k, at in enumerate(halves)
    ]
    with pytest.raises(PrivacyError, match="more than public_size"):
        partitioned_rows(Threads(), wrong, public_size=10)
    with pytest.raises(NotSupported, match="Samples of units"):
        rows.check_sampling()


def test_public_weights_of_rows_are_divided_by_the_largest():
    assert scaled_weights([1, 2, 4], 3).tolist() == [0.25, 0.5, 1.0]
    assert scaled_weights(np.full(3, 7.5), 3) is None
    assert scaled_weights([True, False], 2).tolist() == [1.0, 0.0]
    for bad, text in (
        ([1.0, -1e-300], "finite numbers of at least 0"),
        ([1.0, np.inf], "finite numbers"),
        ([1.0, np.nan], "finite numbers"),
        ([0.0, 0.0], "all weights are zero"),
        (["1", "2"], "must be numbers"),
        ([1.0], "one number for each row"),
        (2.0, "one number for each row"),
    ):
        with pytest.raises(ValueError, match=text):
            scaled_weights(bad, 2)
