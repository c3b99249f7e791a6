import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy import stats

from discreet_bench.lines import named
from discreet_bench.report import report
from discreet_bench.report.curves import curves

from .frames import frame, repeated, together
from .made_runs import NASTY, made_runs, nasty


class Tags(HTMLParser):
    """The elements of a page, and its text outside of script and style."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.ids, self._inside, words = [], [], [], []
        self._words = words
        self.feed(page)
        self.text = " ".join(" ".join(words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        if tag in ("script", "style"):
            self._inside.append(tag)

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._inside.pop()

    def handle_data(self, data):
        if not self._inside:
            self._words.append(data)


def data_of(page):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found.group(1))


def test_the_page_is_one_file_in_good_order(page):
    found = Tags(page)
    assert "default-src 'none'" in page
    addresses = set(re.findall(r"https?://[^\"' ]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not a place
    assert found.tags.count("h1") == found.tags.count("main") == found.tags.count("nav") == 1
    levels = [int(tag[1]) for tag in found.tags if re.fullmatch("h[1-6]", tag)]
    assert max(np.diff(levels)) <= 1
    assert len(set(found.ids)) == len(found.ids)
    assert not {"link", "img", "iframe", "object"} & set(found.tags)


def test_the_opening_counts_wins_and_losses():
    def problem(data, auto, agd, epsilon=1.0):
        where = {"data": data, "epsilon": epsilon}
        plain = {"method": "nonprivate", "calibration": "", "variant": "not private"}
        return together(
            repeated(auto, method="auto", **where),
            repeated(agd, method="agd", **where),
            repeated([0.9] * len(auto), **plain, **where),
        )

    runs = together(
        problem("adult", [0.85, 0.86, 0.85], [0.80, 0.81, 0.805]),
        problem("covertype", [0.70, 0.70, 0.70], [0.71, 0.72, 0.70]),
        problem("mnist", [0.80, 0.80, 0.80], [0.84, 0.85, 0.83], epsilon=0.1),
    )
    words = Tags(report(runs, title="t", commands={})).text
    assert "discreet's default is the best private method in 1 of 3 comparisons, by 4.83" in words
    assert "It is worse in 2, significantly in none:" in words
    assert "There the best is DP-AGD (2)." in words
    assert "2.50 points behind in the median, and 4.00 points at most" in words
    assert "(mnist, logistic loss, ε = 0.1, add or remove a row)" in words
    assert "default is 10.00 points worse than the model without privacy" in words


def test_a_lone_method_has_won_nothing():
    words = Tags(report(repeated([0.8, 0.9], method="auto"), title="t", commands={})).text
    assert "No comparison has both discreet's default and another private method" in words


def test_the_numbers_are_those_of_the_runs(runs, page):
    data = data_of(page)
    (experiment,) = data["experiments"]
    panel = next(
        p for p in experiment["panels"] if (p["data"], p["relation"]) == ("adult", "replace_one")
    )
    cell = runs[(runs["data"] == "adult") & (runs["relation"] == "replace_one")]
    places = {line["title"]: k for k, line in enumerate(data["lines"])}
    (series,) = [s for s in panel["series"] if s["line"] == places["H-F AMP"]]
    kept = (cell["method"] == "amp-hf") & (cell["variant"] == "private")
    told = cell[kept].groupby("epsilon")["accuracy"].agg(["mean", "std", "count"])
    x, mean, sd, count = series["points"]["accuracy"]
    assert x == list(told.index)
    np.testing.assert_allclose(mean, told["mean"], rtol=1e-4)
    np.testing.assert_allclose(sd, told["std"], rtol=1e-2)
    assert count == [5, 5]
    assert data["quantiles"]["5"] == pytest.approx(stats.t.ppf(0.975, 4), abs=1e-4)

    (grid,) = [s for s in panel["series"] if s["line"] == places[TUNED]]
    kept = (cell["method"] == "agd") & (cell["tuning"] == "grid")
    means = cell[kept].groupby(["epsilon", "setting"])["accuracy"].mean()
    np.testing.assert_allclose(
        grid["points"]["accuracy"][1], means.groupby("epsilon").max(), rtol=1e-4
    )
    cost = cell[kept].groupby("epsilon")["seconds"].mean()  # of all that was tried
    np.testing.assert_allclose(grid["points"]["seconds"][1], cost, rtol=1e-4)
    assert any(star[0] == "AMP" and star[3] == 0.791 for star in panel["published"]["accuracy"])


TUNED = "DP-AGD, tuned with hindsight, not private"


def test_an_experiments_own_axis_is_used():
    def looked(batch, values):
        return repeated(
            values, experiment="sgd-updates", method="laplace-sgd", at=[10.0, 20.0, 10.0, 20.0],
            repeat=[0, 0, 1, 1], setting=json.dumps({"batch_size": batch}), objective=values,
        )  # fmt: skip

    from discreet_bench.experiments import EXPERIMENTS

    name = next(n for n, e in EXPERIMENTS.items() if e.panels.lines == ("batch_size",))
    runs = together(looked(1, [0.5, 0.4, 0.7, 0.2]), looked(5, [0.3, 0.2, 0.3, 0.2]))
    level = repeated([0.1, 0.1], method="nonprivate", variant="not private", objective=[0.1, 0.1])
    runs = named(together(runs, level).assign(experiment=name))
    (told,) = curves(runs, sorted(runs["line"].unique()))
    assert told["x"] == "at"
    (panel,) = told["panels"]
    assert panel["facet"] == {"epsilon": 1.0}
    one, five, plain = (s["points"]["objective"] for s in panel["series"])
    assert [s["extra"] for s in panel["series"]] == ["batch_size = 1", "batch_size = 5", ""]
    assert (one[0], one[1]) == ([10.0, 20.0], [0.6, 0.3])
    assert five[1] == [0.3, 0.2]
    assert plain[0] == [None]  # no updates: the same all along


def test_settings_that_meet_are_lines_of_their_own():
    parts = [
        repeated([0.8, 0.9], setting=json.dumps({"splits": 20}), epsilon=1.0),
        repeated([0.6, 0.7], setting=json.dumps({"splits": 60}), epsilon=1.0),
    ]
    runs = named(together(*parts))
    (told,) = curves(runs, list(runs["line"].unique()))
    assert [s["extra"] for s in told["panels"][0]["series"]] == ["splits = 20", "splits = 60"]
    apart = named(together(parts[0], parts[1].assign(epsilon=2.0)))
    (told,) = curves(apart, list(apart["line"].unique()))
    (series,) = told["panels"][0]["series"]
    assert series["points"]["accuracy"][0] == [1.0, 2.0]


def test_promises_are_told_as_they_are(page):
    words = Tags(page).text
    assert "not private as released: true ε = 0.185 where 0.05 was asked for" in words
    assert "Not private as released: true ε = 0.185 (asked for: 0.05), 0.37" in words
    assert words.count("claim of that library, not recomputed") >= 3
    assert "(0.1, 7.6e-10)-DP under add_remove neighbours." in words
    assert "spent more than allowed" not in words
    assert "runs are private, choosing among them was not" in words


def test_a_broken_promise_is_marked():
    given = {"epsilon_spent": 1.0, "delta_spent": 1e-6}
    fine = repeated([0.8], method="agd", epsilon_recomputed=1.0, **given)
    broken = repeated([0.8], method="amp", epsilon_recomputed=1.2, **given)
    words = Tags(report(together(fine, broken), title="t", commands={})).text
    assert words.count("spent more than allowed") == 1
    assert words.count("1.2 (more than allowed)") == 1
    rounded = repeated([0.8], method="agd", epsilon_recomputed=1.00001, **given)
    said = repeated([0.8], method="amp", **given | {"epsilon_spent": 1.00001})
    words = Tags(report(together(rounded, said), title="t", commands={})).text
    assert words.count("spent more than allowed") == 1  # what a method says itself is exact


def test_cost_problems_and_origin_are_told(page):
    words = Tags(page).text
    assert "PrivGene needs epsilon of at least 0.1 here." in words
    assert "P-FW needs more columns than 54" in words
    assert "discreet bench run amp-fig1 --repeats 5" in words
    assert "0, 1, 2, 3, 4" in words
    assert "scikit-learn 1.8.0" in words
    assert "x86_64, 2 cores" in words
    assert "MiB" in words


def test_nothing_to_report_is_refused_and_failures_alone_are_not():
    with pytest.raises(ValueError, match="no runs to report"):
        report(frame().iloc[:0], title="t", commands={})
    page = report(frame(problem="out of <memory>"), title="t", commands={})
    assert "No private method has a result" in page
    assert "out of &lt;memory&gt;" in page


def test_curves_and_measures_of_baselines_alone_have_no_leaderboard():
    curve = repeated([0.8, 0.9], at=[1.0, 2.0], repeat=0, seed=0)
    words = Tags(report(curve, title="t", commands={})).text
    assert "These runs show how methods go on their way" in words
    plain = repeated([0.9], method="majority", variant="not private", objective=0.5)
    page = report(together(repeated([0.8]), plain), title="t", commands={})
    assert {row["measure"] for row in data_of(page)["board"]} == {"accuracy"}


@pytest.mark.slow
def test_ten_thousand_runs_fit_in_two_megabytes():
    runs = made_runs(repeats=9)
    assert len(runs) >= 10_000
    assert len(report(runs, title="t", commands={}).encode()) < 2_000_000


def test_a_thousand_runs_fit_in_a_fifth_of_a_megabyte(runs, page):
    assert len(runs) > 1000
    assert len(page.encode()) < 200_000


def test_names_cannot_become_elements(runs):
    runs = runs[runs["epsilon"] == 0.05]
    page = report(nasty(runs), title=NASTY, commands={"amp-fig1": NASTY})
    found = Tags(page)
    assert "img" not in found.tags
    assert found.tags.count("script") == 2
    assert found.text.count("<img src=x") > 5


def test_numbers_that_hold_everywhere_have_one_star(page):
    (experiment,) = data_of(page)["experiments"]
    for panel in experiment["panels"]:
        stars = panel["published"].get("accuracy", [])
        assert sum(star[0] == "Non-private" for star in stars) == 1
        others = [star for star in stars if star[0] != "Non-private"]
        if panel["relation"] == "add_remove":
            assert others == []  # that paper replaces a row
