"""Effects of columns: parts of the score, around their mean, with the noise of the solver."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from discreet import Bounds, LinearRegression, LogisticRegression, NotSupported, load, save
from discreet.estimators.effects import effects

pytestmark = pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyLeakWarning")

N = 8000
RNG = np.random.default_rng(0)
AGE, JOB = RNG.uniform(20, 80, size=N), RNG.integers(0, 3, size=N)
X = np.column_stack([AGE, JOB[:, None] == np.arange(3), RNG.random(N)]).astype(float)
NAMES = ["age", "job=clerk", "job=nurse", "job=smith", "height"]
SCORE = 2 * np.sin(AGE / 10) + np.array([0.0, 1.0, -1.0])[JOB]
Y = SCORE + RNG.logistic(size=N) > 0


def fitted(y=Y, epsilon=8.0, **settings):
    settings = {"columns": {0: (20, 80)}, "classes": np.unique(y), **settings}
    return LogisticRegression(epsilon, 1e-6, **settings).fit(X, y)


@pytest.fixture(scope="module")
def model():
    return fitted()


def test_effects_add_up_to_the_score_but_for_a_constant(model):
    job, height, age = effects(model, NAMES)
    assert [effect.name for effect in (job, height, age)] == ["job", "height", "age"]
    assert job.at == ("clerk", "nurse", "smith")
    assert (age.at[0], age.at[-1]) == (20.0, 80.0)
    total = (
        np.interp(AGE, age.at, age.values[0])
        + job.values[0][JOB]
        + np.interp(X[:, 4], height.at, height.values[0])
    )
    rest = model.decision_function(X) - total
    assert np.ptp(rest) < 0.02 * np.ptp(total)  # interpolation between the points of a curve
    assert height.values.mean() == pytest.approx(0.0, abs=1e-9)
    assert job.values[0][JOB].mean() == pytest.approx(0.0, abs=0.1)  # over the rows, by noisy means
    assert np.interp(AGE, age.at, age.values[0]).mean() == pytest.approx(0.0, abs=0.1)
    assert job.expected.all()
    assert age.expected.all()


@pytest.fixture(scope="module")
def sparse():
    """Return a model of ages from 0 to 160, of which rows have half, and jobs that nobody has."""
    wide = np.column_stack([X[:, :4], np.zeros((N, 2))])
    return LogisticRegression(3.0, 1e-6, classes=[False, True], columns={0: (0, 160)}).fit(wide, Y)


EMPTY = [*NAMES[:4], "job=priest", "job=(other)"]


def test_points_without_rows_are_not_expected(sparse):
    """The noisy means say where rows are.

    Three features without rows decide; each exceeds 5 deviations with a chance of 2.9e-7, so a
    false alarm has one of 9e-7.
    """
    job, age = effects(sparse, EMPTY)
    assert job.expected.tolist() == [True, True, True, False, False]
    assert age.expected[(age.at > 25) & (age.at < 75)].all()
    assert not age.expected[-1]
    assert job.deviation[:3].max() < 0.2 * job.deviation[3:].min()


def test_figures_are_not_stretched_by_points_without_rows(sparse):
    figure = sparse.plot_effects(EMPTY)
    assert "gray: too few rows to tell" in figure.get_suptitle()
    job, age = effects(sparse, EMPTY)
    for panel, effect in zip(figure.axes, (job, age), strict=True):
        low, high = panel.get_ylim()
        shown = effect.values[0][effect.expected]
        assert low < shown.min() < shown.max() < high
        reach = np.abs(shown).max() + 1.96 * effect.deviation[effect.expected].max()
        assert high - low <= 2.2 * reach
    assert np.isnan(figure.axes[1].lines[-1].get_ydata()[-1])


def test_withoutreleased_means_all_points_are_shown():
    model = fitted(solver="objpert", data_norm=3.0)
    job, *_ = effects(model, NAMES)
    assert job.expected.all()
    assert job.values.mean() == pytest.approx(0.0, abs=1e-9)


def test_the_curve_is_that_of_the_data(model):
    *_, age = effects(model, NAMES)
    assert np.corrcoef(age.values[0], np.sin(age.at / 10))[0, 1] > 0.97


def test_the_band_has_the_deviation_of_repeated_fits():
    """The stated deviation is approximate: within a factor of two of that of fits.

    The deviation of 40 Gaussian numbers is off by a factor of 1.7 with a chance below 1e-6.
    """
    y = RNG.random(N) < 0.5  # nothing to learn: fits differ by their noise alone
    curves, stated = [], []
    for _ in range(40):
        *_, age = effects(fitted(y, epsilon=0.3), NAMES)
        curves.append(age.values[0])
        stated.append(age.deviation)
    seen = np.std(curves, axis=0)
    ratio = np.sqrt(np.mean(seen**2) / np.mean(np.square(stated)))
    assert 0.3 < ratio < 3.4


def test_private_bounds_and_regression_have_units_of_x():
    settings = {"columns": [0], "preparation": [Bounds([0])], "features": "additive"}
    *_, age = effects(fitted(**settings))
    assert age.name == "x0"
    assert 0 < age.at[0] < 40
    assert 60 < age.at[-1] < 200
    line = LinearRegression(8.0, 1e-6, target_bounds=(-4, 4), columns={0: (20, 80)}).fit(X, SCORE)
    *_, age = effects(line, NAMES)
    assert np.ptp(age.values) == pytest.approx(4.0, abs=1.0)


def test_pictures(model, tmp_path):
    for each in (
        model,
        fitted(features="linear"),
        fitted(np.digitize(SCORE, [-1, 1])),
        fitted(solver="objpert", data_norm=3.0),
    ):
        figure = each.plot_effects(NAMES, {"age": lambda values: values * 12})
        assert isinstance(figure, Figure)
        figure.savefig(tmp_path / "effects.png", dpi=40)
    texts = [panel.get_title() for panel in figure.axes]
    assert texts[:3] == ["job", "height", "age"]
    assert "not stated" in figure.get_suptitle()
    assert figure.axes[2].lines[-1].get_xdata()[-1] == 80 * 12


def test_files_keep_the_noise(model, tmp_path):
    save(model, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    for one, other in zip(effects(again, NAMES), effects(model, NAMES), strict=True):
        assert np.array_equal(one.values, other.values)
        assert np.array_equal(one.deviation, other.deviation)


def test_what_has_no_effects_is_refused(model):
    with pytest.raises(NotSupported, match="additive"):
        fitted(features="kernel").plot_effects()
    with pytest.raises(ValueError, match="one entry per column"):
        effects(model, ["a"])
