import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from discreet_bench.experiments import EXPERIMENTS
from discreet_bench.lines import named
from discreet_bench.report import page, report
from discreet_bench.report.charts import charts

from .frames import frame, repeated, together
from .made_runs import NASTY, nasty


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
    found = re.search(
        r'<script type="application/json" id="page-data">(.*?)</script>', page, re.DOTALL
    )
    return json.loads(found.group(1))


def chart_of(page, **labels):
    """The one chart with these labels, and its lines by name."""
    [chart] = [
        chart for chart in data_of(page)["charts"] if labels.items() <= chart["labels"].items()
    ]
    return chart, {trace["name"]: trace for trace in chart["traces"] if "name" in trace}


def test_the_page_is_one_file_in_good_order(page):
    found = Tags(page)
    assert "default-src 'none'" in page
    assert found.tags.count("h1") == found.tags.count("main") == 1
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
    assert "discreet's default is the best private method in 1 of 3 comparisons by acc" in words
    assert "Median lead over the next best: 4.83 points" in words
    assert "at most 4.00 points behind (mnist, ε = 0.1, add or remove a row), signif" in words
    assert "significantly in none." in words
    assert "model without privacy: 10.00 points below it" in words


def test_a_lone_method_has_won_nothing():
    words = Tags(report(repeated([0.8, 0.9], method="auto"), title="t", commands={})).text
    assert "No comparison has both discreet's default and another private method" in words


def test_the_numbers_are_those_of_the_runs(runs, page):
    problem = "logistic loss, replace a row"
    _, lines = chart_of(page, data="adult", problem=problem, measure="Accuracy, %")
    cell = runs[(runs["data"] == "adult") & (runs["relation"] == "replace_one")]
    kept = (cell["method"] == "amp-hf") & (cell["variant"] == "private")
    found = cell[kept].groupby("epsilon")["accuracy"].agg(["mean", "std", "count"])
    line = lines["H-F AMP"]
    assert line["x"] == list(found.index)
    np.testing.assert_allclose(line["y"], 100 * found["mean"], rtol=1e-4)
    half = stats.t.ppf(0.975, 4) * found["std"].iloc[0] / np.sqrt(5)
    low, high = (100 * (found["mean"].iloc[0] + side * half) for side in (-1, 1))
    assert line["customdata"][0] == f"[{low:.4g}, {high:.4g}], 5 repeats"
    kept = (cell["method"] == "agd") & (cell["tuning"] == "grid")
    means = cell[kept].groupby(["epsilon", "setting"])["accuracy"].mean().groupby("epsilon").max()
    np.testing.assert_allclose(
        lines["DP-AGD, tuned with hindsight, not private"]["y"], 100 * means, rtol=1e-4
    )
    stars = lines["published in papers"]
    assert (79.1, "AMP") in list(zip(stars["y"], stars["text"], strict=True))


def test_published_numbers_hold_for_their_relation_only(page):
    problem = "logistic loss, add or remove a row"
    _, lines = chart_of(page, data="adult", problem=problem, measure="Accuracy, %")
    assert lines["published in papers"]["text"] == ["Non-private"]


def test_a_crowded_chart_starts_with_the_best_private_lines(page):
    chart, lines = chart_of(
        page, data="adult", problem="logistic loss, add or remove a row", measure="Accuracy, %"
    )
    on = {name for name, line in lines.items() if line.get("visible") is True}
    assert {"discreet", "Non-private"} <= on
    assert len(on) <= 9
    assert not any("not private" in name for name in on)
    assert all(line["visible"] == "legendonly" for name, line in lines.items()
               if name not in on and "visible" in line)  # fmt: skip
    low, high = chart["layout"]["yaxis"]["range"]
    assert 50 < low < high <= 100


def test_few_repeats_are_single_runs():
    runs = together(*(repeated([0.7, 0.8], epsilon=epsilon) for epsilon in (0.1, 1.0)))
    [chart] = charts(runs.assign(experiment="trial"), EXPERIMENTS["auto-table"])
    line, dots = chart["traces"]
    assert line["y"] == [75.0, 75.0]
    assert "fill" not in dots
    assert sorted(dots["y"]) == [70.0, 70.0, 80.0, 80.0]


def test_wide_bands_do_not_squeeze_the_lines():
    near = [repeated([0.8] * 5, epsilon=epsilon) for epsilon in (1.0, 2.0)]
    wild = repeated([0.1, 0.2, 0.9, 1.0, 1.0], method="gd", epsilon=1.0)
    [chart] = charts(together(*near, wild), EXPERIMENTS["auto-table"])
    low, high = chart["layout"]["yaxis"]["range"]
    assert 50 < low < high <= 100


def test_an_experiments_own_axis_is_used():
    def checkpoint(batch, values):
        return repeated(
            values, method="laplace-sgd", at=[10.0, 20.0, 10.0, 20.0], repeat=[0, 0, 1, 1],
            setting=json.dumps({"batch_size": batch}), objective=values,
        )  # fmt: skip

    experiment = next(e for e in EXPERIMENTS.values() if e.panels.lines == ("batch_size",))
    runs = together(checkpoint(2, [0.5, 0.4, 0.7, 0.2]), checkpoint(5, [0.3, 0.2, 0.3, 0.2]))
    level = repeated([0.1, 0.1], method="nonprivate", variant="not private", objective=[0.1, 0.1])
    found = charts(together(runs, level), experiment)
    [chart] = [one for one in found if one["labels"]["measure"] == "Objective"]
    assert chart["layout"]["xaxis"]["title"] == {"text": "Updates"}
    two, five, plain = (trace for trace in chart["traces"] if "name" in trace)
    assert two["name"] == "Laplace SGD, batch size = 2"
    assert (two["x"], two["y"]) == ([10.0, 20.0], [0.6, 0.3])
    assert five["y"] == [0.3, 0.2]
    assert (plain["x"], plain["y"]) == ([10.0, 20.0], [0.1, 0.1])  # the same all along


def test_promises_are_told_as_they_are(page):
    words = Tags(page).text
    assert "not private as released: true ε = 0.185 instead of 0.05" in words
    assert words.count("claim of that library, not recomputed") >= 3
    assert "(0.1, 7.6e-10)-DP under add_remove neighbours." in words
    assert "spent more than allowed" not in words
    assert "runs are private, the choice among them is not" in words


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
    assert "These runs are checkpoints or sweeps of settings" in words
    plain = repeated([0.9], method="majority", variant="not private", objective=0.5)
    page = report(together(repeated([0.8]), plain), title="t", commands={})
    assert Tags(page).text.count("comparisons by") == 0  # nothing but accuracy, of one method


def test_the_data_of_a_thousand_runs_are_small(runs, page):
    assert len(runs) > 1000
    assert len(json.dumps(data_of(page))) < 400_000


def test_names_cannot_become_elements(runs):
    runs = runs[runs["epsilon"] == 0.05]
    page = report(nasty(runs), title=NASTY, commands={"amp-fig1": NASTY})
    found = Tags(page)
    assert "img" not in found.tags
    assert found.tags.count("script") == 3
    assert found.text.count("<img src=x") > 5
    assert all("<" not in trace.get("name", "") for c in data_of(page)["charts"]
               for trace in c["traces"])  # fmt: skip


ADULT = {
    "data": "adult",
    "problem": "logistic loss, add or remove a row",
    "measure": "Accuracy, %",
}


def with_own(runs, name="my-solver"):
    own = runs[runs["method"] == "agd"]
    own = own[(own["tuning"] == "default") & (own["calibration"] == "tight")]
    return pd.concat([runs, own.assign(method=name)], ignore_index=True)


def test_a_method_of_the_user_looks_like_no_other_and_like_no_published_number(runs):
    page = report(with_own(runs), title="Ours", commands={})
    _, names = chart_of(page, **ADULT)
    own = names["my-solver (your method)"]
    assert own["visible"] is True
    others = [trace for name, trace in names.items() if "line" in trace and trace is not own]
    assert own["line"]["color"] not in {trace["line"]["color"] for trace in others}
    assert own["line"]["width"] > max(trace["line"]["width"] for trace in others)
    assert own["marker"]["symbol"] != "star" == names["published in papers"]["marker"]["symbol"]


def test_few_lines_of_a_chart_have_a_band(runs):
    chart, _ = chart_of(report(with_own(runs), title="Ours", commands={}), **ADULT)
    banded = {trace["legendgroup"] for trace in chart["traces"] if trace.get("fill") == "toself"}
    assert {"discreet", "my-solver (your method)"} < banded
    assert len(banded) == 3


def test_bars_compare_the_seconds_of_a_data_set(runs, page):
    shares = [float(share) for share in re.findall(r'class="bar" style="width:([\d.]+)%"', page)]
    done = runs[runs["problem"] == ""]
    assert shares.count(100.0) >= done["data"].nunique()  # the slowest of each
    assert max(shares) == 100.0
    assert "(1 ×)" in page
    medians = done[done["data"] == "adult"].groupby("method")["seconds"].median()
    assert f"({medians['opacus'] / medians['auto']:.2g} ×)" in page


def test_the_first_screen_says_one_thing(page):
    header = page[page.index("<header>") : page.index("</header>")]
    assert len(re.findall(r"[.!?](?=\s*<)", header)) == 1  # one sentence, and the title
    assert "Median" not in header


def test_a_problem_without_a_hindsight_line_beside_one_with_it_is_shown():
    tuned = {"tuning": "grid", "setting": '{"splits": 5}'}
    runs = together(
        repeated([0.8, 0.81]), repeated([0.82, 0.83], **tuned),
        repeated([0.8, 0.81], data="bank"), repeated([0.7, 0.71], data="bank", method="amp"),
    )  # fmt: skip
    rows = [page._comparison(row) for row in page._board(named(runs)).itertuples()]
    assert sorted((row["data"], row["second"], row["hindsight"]) for row in rows) == [
        ("adult", "", "DP-AGD"), ("bank", "AMP", ""),
    ]  # fmt: skip
