"""`Magnitude` and `Largest`: what they make of noisy counts, and tables they are applied to."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from discreet import Budget, Largest, LogisticRegression, Magnitude
from discreet.preparation import Centre, Radius, Scale, check_steps
from discreet.preparation.magnitude import (
    FALSE_ALARM,
    FittedMagnitude,
    exponents,
    upper_exponents,
)
from discreet.preparation.pipeline import Written
from discreet.preparation.steps import (
    FITTED_STEPS,
    FittedRadius,
    RowNorms,
    from_dict,
    to_dict,
)
from discreet.rows import EXPONENTS, as_rows


class Counted:
    """A curator whose answer has the exact counts of a table, and states a noise, by default 1."""

    def __init__(self, X, deviation=1.0):
        self.deviation = deviation
        self.n_rows, self.n_features = X.shape
        self._rows = as_rows(X, np.zeros(len(X)), fit_intercept=False)

    def ask(self, question, mechanism):
        values = question.on(self._rows).values
        return SimpleNamespace(values=values, deviation=self.deviation)


def table(*columns):
    return np.column_stack(columns)


RNG = np.random.default_rng(0)
NORMAL, RARE = RNG.normal(size=4000), (RNG.random(4000) < 0.02).astype(float)


def test_columns_of_any_unit_become_alike():
    X = table(NORMAL, 1e9 * NORMAL, 1e-9 * NORMAL, RARE, np.zeros(4000))
    fitted, norms = Magnitude().fit(Counted(X), None, None)
    assert np.log2(fitted.factors) == pytest.approx(np.round(np.log2(fitted.factors)))
    scaled = X * fitted.factors
    sizes = np.quantile(np.abs(scaled[:, :3]), 0.9, axis=0)
    assert sizes.max() < 2.1 * sizes.min()
    assert scaled[:, 3].max() == pytest.approx(0.5)  # the rare ones are not stretched
    assert norms.dense.tolist() == [True, True, True, False, False]
    assert norms.raw
    assert np.isinf(norms.clip)


def test_columns_that_are_alike_are_left_as_they_are():
    X = table(NORMAL, 4 * NORMAL, RARE)
    fitted, _ = Magnitude().fit(Counted(X), None, None)
    assert fitted.factors.tolist() == [1.0, 1.0, 1.0]


def test_around_the_mean_only_columns_far_from_zero_are_stretched():
    X = table(0.4 * NORMAL, 1e-3 * NORMAL, RARE - 0.02, 1e-3 * NORMAL)
    norms = RowNorms(1.0, 1.0, 1.0, dense=np.array([True, True, False, False]))
    fitted, after = Magnitude().fit(Counted(X), None, norms)
    assert fitted.factors[[0, 2, 3]].tolist() == [1.0, 1.0, 1.0]
    assert 128 <= fitted.factors[1] <= 1024
    assert after.clip > norms.clip


def test_a_value_that_most_rows_share_is_not_the_magnitude():
    """Hours of work: half of the rows have the same, which the mean leaves as a tiny number."""
    hours = np.where(RNG.random(4000) < 0.47, 1e-4, 0.2 * NORMAL)
    fitted, _ = Magnitude().fit(Counted(table(NORMAL, hours)), None, RowNorms(4.0, 4.0, 1.0))
    assert fitted.factors.max() <= 16


def test_counts_below_the_noise_are_not_seen():
    cells = EXPONENTS[1] - EXPONENTS[0] + 1
    counts = np.zeros((2, cells))
    counts[0, 70] = 500.0
    assert np.isnan(exponents(counts, 200.0, 4000)).all()
    assert exponents(counts, 10.0, 4000)[0] == 70 + EXPONENTS[0]
    assert np.isnan(upper_exponents(counts, 500.0, 4000, 2.0**10)[0]).all()
    assert upper_exponents(counts, 200.0, 4000, 2.0**10)[0].tolist() == [9, 9]  # of 11, 10, 9
    assert upper_exponents(counts, 1.0, 4000, 2.0**10)[0][0] == 70 + EXPONENTS[0]
    assert np.isnan(upper_exponents(counts, 1.0, 4000, 1.0)[0][0])  # larger than entries can be


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_entries_stay_finite(dtype, storage):
    X = storage(np.array([[3e38, 1.0], [0.0, -2.0]], dtype=dtype))
    units = FittedMagnitude(np.array([2.0**60, 0.5]), 1.0).affine_map(None, 2)
    new = Written(FittedRadius(1.0).affine_map(units, 2)).apply(X)
    assert type(new) is type(X)
    assert new.dtype == dtype
    values = new.toarray() if sp.issparse(new) else new
    assert np.isfinite(values).all()
    assert values[0].tolist() == pytest.approx([1.0, 0.0], abs=1e-6)
    assert values[1].tolist() == pytest.approx([0.0, -1.0], abs=1e-6)


def test_it_survives_being_written_and_is_checked():
    fitted = FittedMagnitude(np.array([2.0, 0.5]), 3.0)
    again = from_dict(to_dict(fitted), FITTED_STEPS)
    assert again.factors.tolist() == [2.0, 0.5]
    assert again.accepts(2)
    assert not again.accepts(3)
    with pytest.raises(ValueError, match="factors must be powers of two"):
        FittedMagnitude(np.array([3.0]), 1.0)
    with pytest.raises(ValueError, match="Magnitude and Largest three times"):
        check_steps([Magnitude(0.1)] * 4, None)


@pytest.mark.filterwarnings("ignore::discreet.PrivacyLeakWarning")
def test_a_fit_pays_for_it_and_predicts_with_it():
    X = table(NORMAL, 1e6 * RNG.normal(size=4000), 1e-6 * RNG.normal(size=4000))
    y = X @ [1.0, 1e-6, 1e6] > 0
    steps = [Magnitude(0.1), Radius(0.05, factor=2.0), Centre(0.1)]
    model = LogisticRegression(
        2.0, 1e-6, solver="gd", preparation=steps, classes=[False, True]
    ).fit(X, y)
    assert model.score(X, y) > 0.9
    assert [step.name for step in model.preparation_] == ["magnitude", "radius", "centre"]
    assert "binary exponent" in " ".join(model.guarantee_.conditions)
    (used,) = [use for use in model.guarantee_.mechanisms if use.count == 50]
    whole = Budget(2.0, 1e-6, "add_remove").to_gdp().mu
    assert used.mechanism.noise_multiplier == pytest.approx((50 / 0.75) ** 0.5 / whole, rel=1e-6)


def test_known_columns_are_left_as_they_are_and_others_are_brought_to_them():
    """A spline is tiny in most rows in which it is not 0."""
    spline = np.where(RNG.random(4000) < 0.1, 2.0**-12, 0.0)
    X = table(1e6 * NORMAL, spline)
    fitted, norms = Magnitude(known=1).fit(Counted(X), None, None)
    assert fitted.factors[1] == 1.0
    assert 0.25 < np.quantile(np.abs(X * fitted.factors)[:, 0], 0.9) < 4
    assert norms.dense.tolist() == [True, False]
    assert Magnitude().fit(Counted(X), None, None)[0].factors[1] > 1000
    around = RowNorms(1.0, 1.0, 1.0, dense=np.array([True, True]))
    again, _ = Magnitude(known=1).fit(Counted(table(NORMAL, 1e-3 * NORMAL)), None, around)
    assert again.factors.tolist() == [1.0, 1.0]


def test_a_hundredth_of_the_rows_decides_also_if_their_exponents_differ():
    tail = np.where(np.arange(4000) < 60, 2.0 ** -(np.arange(4000) % 6), 2.0**-20)
    fitted, _ = Magnitude().fit(Counted(table(1e3 * NORMAL, NORMAL, tail)), None, None)
    assert fitted.factors[2] <= 2.0**6


def test_a_nearly_constant_column_of_a_small_unit_is_not_stretched():
    """A standardised rare indicator: its exceptions would become the longest rows of all."""
    rare = np.where(np.arange(4000) < 10, 20.0, -0.05)
    fitted, _ = Magnitude().fit(Counted(table(NORMAL, NORMAL, 64 * NORMAL, rare)), None, None)
    assert fitted.factors[3] <= 1.0
    large = np.where(np.arange(4000) < 10, 20.0, 1e9)  # but one of a large unit is shrunk
    fitted, _ = Magnitude().fit(Counted(table(NORMAL, NORMAL, large)), None, None)
    assert fitted.factors[2] < 1e-8


@pytest.mark.parametrize(("noise", "stretched"), [(1e-3, True), (1e-5, False)])
def test_around_its_mean_a_constant_is_stretched_only_if_noise_moved_it(noise, stretched):
    """Rare exceptions move the mean of a constant by more than its noise."""
    X = table(0.4 * NORMAL, np.full(4000, 1e-3))
    norms = RowNorms(1.0, 1.0, 1.0, dense=np.array([True, True]), mean_noise=noise)
    fitted, after = Magnitude().fit(Counted(X), None, norms)
    assert bool(fitted.factors[1] == 64.0) is stretched
    if stretched:  # once, unless it turns out to vary
        assert after.constant.tolist() == [False, True]
        again, _ = Magnitude().fit(Counted(X), None, after)
        assert again.factors[1] == 1.0
        again, _ = Magnitude().fit(Counted(table(NORMAL, 1e-3 * NORMAL)), None, after)
        assert again.factors[1] > 64


def test_noise_in_many_columns_does_not_make_one_of_them_large():
    """Of 5,000 columns that are alike, a few had counts above two and a half deviations."""
    rng = np.random.default_rng(5)
    counts = np.zeros((5000, EXPONENTS[1] - EXPONENTS[0] + 1))
    counts[:, -6 - EXPONENTS[0]] = 4000.0
    counts += rng.normal(scale=150.0, size=counts.shape)
    assert np.ptp(upper_exponents(counts, 150.0, 4000, 2.0)[0]) == 0


def test_columns_that_may_be_as_large_as_others_are_not_stretched():
    """At 2.2 deviations above a tenth of the rows an exponent is likely, at 2.5 it is sure."""
    counts, first = np.zeros((2, EXPONENTS[1] - EXPONENTS[0] + 1)), -EXPONENTS[0]
    counts[:, first + 1] = [400 + 3 * 50, 400 + 2.2 * 50]
    counts[:, first - 5] = 2500.0
    sure, likely = upper_exponents(counts, 50.0, 4000, 1.0)
    assert sure.tolist() == [1.0, -5.0]
    assert likely.tolist() == [1.0, 1.0]
    X = table(0.4 * NORMAL, 0.4 * NORMAL)
    curator, norms = Counted(X, 50.0), RowNorms(0.5, 0.5, 0.5, dense=np.array([True, True]))
    curator.exponent_counts = lambda **_: SimpleNamespace(
        values=np.column_stack([counts, [0, 0]]).ravel(), deviation=50.0
    )
    fitted, _ = Magnitude().fit(curator, None, norms)
    assert (fitted.factors == 1).all()


def noisy_exponents(shares, columns, draws):
    """Yield the exponents of columns alike, under noise of a 24th of the rows: the default's."""
    deviation, rng = 1000.0, np.random.default_rng(7)
    exact = np.zeros(EXPONENTS[1] - EXPONENTS[0] + 2)
    for exponent, share in shares.items():
        exact[exponent - EXPONENTS[0]] = 24 * deviation * share
    for _ in range(draws):
        cells = exact + rng.normal(scale=deviation, size=(columns, exact.size))
        counts = cells[:, :-1]
        counts[:, 1 - EXPONENTS[0]] += cells[:, -1]
        yield exponents(counts, deviation, int(24 * deviation))


def test_noise_alone_is_rarely_taken_for_entries():
    """In at most FALSE_ALARM of fits: in 8 or more of 600 with a probability below 1e-6."""
    assert FALSE_ALARM <= 1e-3
    assert sum(np.isfinite(found).any() for found in noisy_exponents({}, 200, 600)) < 8


def test_columns_that_noise_nearly_hides_are_not_taken_for_smaller_ones():
    """Pixels, a third of which are not 0, appear to be 2^4 times smaller in 3 of 10^5 columns.

    So 8 or more of 20,000 do with a probability below 1e-6.
    """
    pixels = {8: 0.25, 7: 0.05, 6: 0.03, 5: 0.02, 4: 0.015, 3: 0.01}
    found = np.concatenate(list(noisy_exponents(pixels, 400, 50)))
    assert np.isfinite(found).mean() > 0.01
    assert (found < 5).sum() < 8


def in_a_table(*cells, last=0):
    """Return the exponent of a column with these cells up to that of ``last``, of 784 columns."""
    counts, stop = np.zeros((784, EXPONENTS[1] - EXPONENTS[0] + 1)), last + 1 - EXPONENTS[0]
    counts[0, stop - len(cells) : stop] = cells
    return exponents(counts, 1.0, 24)[0]


def test_counts_that_only_add_up_to_enough_over_eight_exponents():
    assert in_a_table(3.0, 1.3, 0.5, 1.5, 0.0, 1.7, 5.3, 4.4) == 0.0
    assert np.isnan(in_a_table(1.0, 1.3, 0.5, 1.5, 0.0, 1.7, 5.3, 4.4))
    assert in_a_table(*[2.5] * 8) == -4.0  # each four are as full: the first


def test_the_count_of_exponent_1_has_the_noise_of_two():
    """Of 784 columns, one in 70 fits would be taken to be of unit 1."""
    assert in_a_table(7.0, last=2) == 2.0
    assert np.isnan(in_a_table(7.0, last=1))
    assert in_a_table(9.0, last=1) == 1.0
    assert in_a_table(*[3.0] * 4, last=0) == -1.0
    assert np.isnan(in_a_table(*[3.0] * 4, last=1))
    assert in_a_table(*[2.1] * 8, last=0) < 1.0
    assert np.isnan(in_a_table(*[2.1] * 8, last=1))


def test_coarse_counts_show_likely_columns_near_those_that_are_seen():
    """Not where noise is less, where a column of them would be one of its false alarms."""
    counts = np.zeros((4, EXPONENTS[1] - EXPONENTS[0] + 1))
    first = -EXPONENTS[0]
    counts[0, first - 10 : first - 6] = 4.0  # seen
    counts[1, first : first + 4] = 4.0
    counts[2, first - 9 : first - 5] = 2.0  # four deviations
    counts[3, first + 20 : first + 24] = 2.0  # as many, far from the others
    assert exponents(counts, 1.0, 16)[:3].tolist() == [-8.0, 2.0, -8.0]
    assert np.isnan(exponents(counts, 1.0, 16)[3])
    assert np.isnan(exponents(counts, 1.0, 20)[2:]).all()
    assert np.isnan(exponents(counts[2:], 1.0, 16)).all()


def test_columns_that_seem_smaller_have_to_be_seen_more_clearly():
    """Where noise is not coarse: six deviations are enough for one that seems larger."""
    counts, first = np.zeros((11, EXPONENTS[1] - EXPONENTS[0] + 1)), -EXPONENTS[0]
    counts[:10, first] = 20.0
    for at, deviations, seen in ((20, 6, True), (-20, 6, False), (-20, 8, True), (-2, 6, True)):
        counts[10] = 0.0
        counts[10, first + at] = deviations
        found = exponents(counts, 1.0, 24)
        assert (found[:10] == 0).all()
        assert np.isfinite(found[10]) == seen
        if seen:
            assert found[10] == at
    counts[10] = 0.0
    counts[10, first - 20] = 6.0
    assert exponents(counts, 1.0, 16)[10] == -20


def hidden_units(*shares, rows=4000):
    """Return the powers of two of columns with these shares of 1, beside two of larger units.

    Counts are exact, but taken to have noise of a 15th of the rows.
    """
    ones = (np.where(np.arange(rows) < share * rows, 1.0, 0.0) for share in shares)
    large = np.full(rows, 40.0)
    curator = Counted(table(large, large, *ones), rows / 15)
    fitted, _ = Magnitude().fit(curator, None, None)
    return np.log2(fitted.factors)


def test_columns_that_coarse_noise_hides_show_their_unit_together():
    """Each is below 3.5 deviations; of ten the sum is above 4.4 times √20 of them."""
    found = hidden_units(*[0.2] * 10)
    assert (found[2:] == -1.0).all()
    assert (found[:2] == -6.0).all()
    assert not hidden_units(*[0.2] * 2).any()  # two do not show it, and count as usual ones


def test_hidden_columns_are_not_stretched_by_a_likely_exponent():
    """Their common one is 1; a likely one counts if it is larger."""
    counts, first = np.zeros((13, EXPONENTS[1] - EXPONENTS[0] + 1)), -EXPONENTS[0]
    counts[0, first + 6] = counts[1, first - 1] = 20.0  # seen
    counts[2:, first + 1] = 3.0
    counts[11, first - 4 : first] = 2.5
    counts[12, first + 4 : first + 8] = 2.5
    found = exponents(counts, 1.0, 15)
    assert found[:2].tolist() == [6.0, -1.0]
    assert (found[2:12] == 1.0).all()
    assert found[12] > 3


def test_noise_far_below_the_fullest_exponents_is_not_the_column():
    assert in_a_table(*[2.2] * 4, *[0.0] * 9, *[3.0] * 4) == -1.0


GAINS = np.where(RNG.random(4000) < 0.05, 1e4 * (1 + RNG.random(4000)), 0.0)


def largest(X, deviation=1.0, known=0, looks=1):
    """Return the powers of two after so many looks, and what is known of the rows."""
    norms, powers = None, np.zeros(X.shape[1])
    for _ in range(looks):
        fitted, norms = Largest(known=known).fit(Counted(X, deviation), None, norms)
        X, powers = X * fitted.factors, powers + np.log2(fitted.factors)
    return powers, norms


def test_a_rare_column_of_a_large_unit_is_shrunk():
    """`Magnitude` does not see it, as 1 % of the rows are hidden in noise of that size."""
    X = table(NORMAL, 2 * NORMAL[::-1], GAINS, RARE)
    powers, norms = largest(X, 30.0)
    assert powers[[0, 1, 3]].tolist() == [0.0, 0.0, 0.0]
    assert -15 <= powers[2] <= -12
    assert np.isinf(norms.clip)
    assert norms.raw
    assert not largest(X, 60.0)[0].any()  # 200 rows are 3.3 deviations


def test_columns_that_hide_others_are_peeled_off():
    """The first two looks find the largest, and later ones what is usual without them."""
    X = table(1e5 * NORMAL, 300 * NORMAL[::-1], np.roll(NORMAL, 1), GAINS, RARE)
    assert not largest(X)[0].any()
    first, _ = largest(X, looks=2)
    assert first[0] < -6 < first[2] == 0
    powers, _ = largest(X, looks=3)
    sizes = np.log2(np.quantile(np.abs(X[:, :3]), 0.9, axis=0)) + powers[:3]
    assert np.ptp(sizes) < 6


def test_columns_of_one_unit_stay_as_they_are():
    normal = np.random.default_rng(1).normal(size=(4000, 6))
    for X in (1000 * normal, table(RARE, 1 - RARE), np.zeros((10, 2))):
        assert not largest(X, looks=3)[0].any()
    near, far = (table(np.full(4000, 1.5), np.full(4000, size)) for size in (12.0, 100.0))
    assert not largest(near, looks=2)[0].any()  # cells of size are next to each other
    assert largest(far, looks=2)[0].tolist() == [0.0, -6.0]
    assert not largest(table(GAINS, NORMAL), 4000.0, looks=3)[0].any()  # noise hides all


def test_columns_stay_as_they_are_where_noise_hides_what_is_usual():
    """Those that were found before are brought to a size that is seen, not to one of noise."""
    X = table(1e5 * NORMAL, RARE)  # nine of ten rows are 0 without the first column
    _, norms = Largest().fit(Counted(X, 40.0), None, None)
    assert np.isfinite(norms.sizes[0])
    fitted, after = Largest().fit(Counted(X, 40.0), None, norms)
    assert (fitted.factors == 1).all()
    assert after is norms


def test_columns_are_brought_to_those_of_a_known_unit():
    powers, _ = largest(table(1e4 * NORMAL, 0.5 + 0 * NORMAL), known=1)
    assert -16 <= powers[0] <= -12
    assert powers[1] == 0


def test_columns_that_were_stretched_by_mistake_are_brought_back():
    """After `Magnitude` entries are at most about 1, however many rows have larger ones."""
    X = table(NORMAL, np.where(RNG.random(4000) < 0.7, 2.0**23, 0.0))
    stretched, norms = Magnitude().fit(Counted(table(NORMAL, 1e6 * NORMAL)), None, None)
    assert (stretched.factors != 1).any()
    assert Largest().fit(Counted(X), None, norms)[0].factors.tolist() == [1.0, 2.0**-24]
    alike, norms = Magnitude().fit(Counted(table(NORMAL, NORMAL)), None, None)
    assert (alike.factors == 1).all()  # of any unit
    assert (Largest().fit(Counted(X), None, norms)[0].factors == 1).all()


def test_noise_rarely_shrinks_a_column():
    """In at most one of 100 fits one of all columns: in 16 of 300 with a probability of 1e-7."""
    rng, wrong = np.random.default_rng(5), 0
    for _ in range(300):
        cells = rng.normal(size=(101, 43))
        cells[-1, 21] = cells[0, 21] = 1000.0
        noisy = SimpleNamespace(values=cells.ravel(), deviation=1.0)
        curator = SimpleNamespace(n_features=100, n_rows=10**4)
        curator.ask = lambda question, mechanism, noisy=noisy: noisy
        fitted, _ = Largest().fit(curator, None, None)
        wrong += (fitted.factors != 1).any()
    assert wrong < 16


def test_largest_entries_come_before_the_norm():
    check_steps([Magnitude(0.1), Largest(0.1), Largest(0.1), Radius(0.1), Centre(0.1)], None)
    check_steps([Largest(0.1)] * 3 + [Radius(0.1)], None)
    for steps in ([Largest(0.1)], [Largest(0.1), Centre(0.1), Radius(0.1)]):
        with pytest.raises(ValueError, match=r"put Radius\(\) next"):
            check_steps(steps, 1.0)
    with pytest.raises(ValueError, match=r"put it before Radius\(\)"):
        check_steps([Radius(0.1), Largest(0.1)], None)


@pytest.mark.parametrize("layout", [np.asarray, np.float32, sp.csr_array])
def test_rows_with_a_rare_long_column_are_clipped_in_its_new_unit(layout):
    """The same fit, whether steps are one affine map or write tables, as ``objpert`` needs them."""
    y = NORMAL + (GAINS > 0) > 0
    X = layout(table(NORMAL, GAINS, RARE))
    steps = [Magnitude(0.05), Largest(0.05), Radius(0.05, factor=50.0), Scale(0.05)]
    fits = [
        LogisticRegression(5.0, 1e-6, solver=solver, preparation=steps, random_state=0).fit(X, y)
        for solver in ("gd", "objpert")
    ]
    for model in fits:
        units = model.preparation_[0].factors * model.preparation_[1].factors
        assert units[1] / units[0] <= 2.0**-9
        assert model.preparation_[2].radius < 400 * units[0]
        assert model.score(X, y) > 0.9


class Planted(Counted):
    """Exact counts of a table, plus further ones in one cell: what noise may make of it."""

    def __init__(self, X, deviation, column, cell, deviations):
        super().__init__(X, deviation)
        self._planted = (column, cell, deviations * deviation)

    def ask(self, question, mechanism):
        noisy = super().ask(question, mechanism)
        column, cell, more = self._planted
        height = self.n_features + (question.among is not None)
        noisy.values.reshape(height, -1)[column, cell] += more
        return noisy


SIX = table(*(np.roll(NORMAL, k) for k in range(6)))


@pytest.mark.parametrize("power", [-40, -25, 25, 40])
def test_a_distant_unit_needs_a_certain_count(power):
    """6 deviations suffice at the probability of `FALSE_ALARM`, and not at 1e-9 per fit."""
    X = table(SIX, np.zeros(4000))
    found = []
    for deviations in (6.0, 9.0):
        planted = Planted(X, 10.0, 6, power - EXPONENTS[0], deviations)
        fitted, _ = Magnitude().fit(planted, None, None)
        found.append(np.log2(fitted.factors[6] / fitted.factors[0]))
    assert found[0] == 0
    assert abs(found[1] + power) <= 3


def test_noise_far_above_a_column_does_not_shrink_it():
    """Its own entries are seen; 6 deviations of noise at 2^30 are none of them."""
    for deviations, lost in ((6.0, False), (9.0, True)):
        planted = Planted(SIX, 10.0, 2, 30 - EXPONENTS[0], deviations)
        fitted, norms = Magnitude().fit(planted, None, None)
        assert (fitted.factors[2] < 2.0**-20) == lost
        assert norms.resolved.all()
        assert fitted.distant().tolist() == ([2] if lost else [])


@pytest.mark.parametrize("cells", [3, 8])
def test_largest_entries_contradict_a_measured_unit_by_certain_counts_only(cells):
    """2^9 is believed of a column of unknown unit, 2^24 of none. It never has the largest entry."""
    X = table(SIX, 1e-3 * NORMAL)
    usual = (1 - EXPONENTS[0]) // 3
    resolved = RowNorms(*3 * (np.inf,), raw=True, resolved=np.ones(7, dtype=bool))
    for norms, deviations in ((None, 6.0), (resolved, 6.0), (None, 9.0), (resolved, 9.0)):
        planted = Planted(X, 10.0, 6, usual + cells, deviations)
        fitted, _ = Largest().fit(planted, None, norms)
        believed = deviations == 9.0 or (norms is None and cells == 3)
        assert (fitted.factors[6] != 1) == believed
        assert (fitted.factors[:6] == 1).all()


def test_a_fit_warns_of_distant_units_by_released_numbers():
    X = table(*SIX.T[:3], 1e12 * NORMAL)
    with pytest.warns(UserWarning, match=r"The unit of x3 was measured to be more than 2\^20"):
        LogisticRegression(5.0, 1e-6, classes=[False, True]).fit(X, NORMAL > 0)
