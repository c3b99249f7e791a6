"""Tables say what was measured, what papers print, and what is not private."""

import csv
import io
import json
import re

import numpy as np
import pytest

from discreet_bench.experiment import Experiment, Panels
from discreet_bench.tables import as_csv, number, short, table, write_all

from .frames import frame, repeated, together


def experiment(name="exp", **panels):
    return Experiment(name, "A title", "A paper", "What?", (), (), Panels(**panels), ("A note.",))


def markdown(blocks):
    """All blocks, without the padding of columns."""
    text = "\n".join(block.markdown() for block in blocks)
    return re.sub(r" +(?=\|)|(?<=\|) +", " ", text)


def latex(blocks):
    return "\n".join(block.latex() for block in blocks)


def headings(block):
    return list(dict.fromkeys(block.cells.sort_values("place")["column"]))


def rows(block):
    return list(dict.fromkeys(block.cells["row"]))


def means(block):
    return {row: list(group["mean"]) for row, group in block.cells.groupby("row", sort=False)}


def cells(markdown, title):
    [line] = [line for line in markdown.splitlines() if line.startswith(f"| {title} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


RUNS = together(
    repeated([0.80, 0.82], method="auto", experiment="amp-fig1", epsilon=0.1),
    repeated([0.84, 0.84], method="auto", experiment="amp-fig1", epsilon=1.0),
    repeated([0.70, 0.72], method="amp", experiment="amp-fig1", epsilon=0.1),
    repeated([0.90, 0.90], method="amp", tuning="grid", experiment="amp-fig1", epsilon=0.1),
    repeated(
        [0.95, 0.95], method="sgd", calibration="published", variant="as released",
        experiment="amp-fig1", epsilon=0.1, epsilon_spent=3.68,
    ),
    repeated([0.85, 0.85], method="nonprivate", variant="not private", experiment="amp-fig1",
             epsilon=0.1),
    repeated([0.81], method="opacus", variant="rival", experiment="amp-fig1", epsilon=0.1),
    repeated([np.nan] * 2, method="agd", experiment="amp-fig1", epsilon=0.1,
             problem="PrivacyError: they are (3.68, 1e-06)-DP, not (0.1, 1e-06)-DP."),
).assign(relation="replace_one")  # fmt: skip
AMP = experiment("amp-fig1")


def test_cells_have_mean_spread_and_the_paper_beside_the_line_that_is_most_like_it():
    text = markdown(table(RUNS, AMP))
    assert cells(text, "discreet") == ["**81.00 ± 1.41**", "**84.00 ± 0.00**"]
    assert cells(text, "AMP")[0] == "71.00 ± 1.41"
    assert cells(text, "AMP, tuned with hindsight, not private †")[0] == (
        "90.00 ± 0.00 (paper: 79.1)"
    )
    assert "| method | ε = 0.1 | ε = 1 |" in text
    assert text.startswith("**adult: Accuracy, %, logistic loss, ")


def test_several_data_sets_are_named_in_the_headings():
    text = markdown(table(together(repeated([0.8]), repeated([0.7], data="bank")), experiment()))
    assert "| method | adult, ε = 1 | bank, ε = 1 |" in text
    assert text.startswith("**Accuracy, %, ")
    text = latex(table(together(repeated([0.8]), repeated([0.7], data="bank")), experiment()))
    assert " & adult & bank " in text
    assert "adult &" not in latex(table(repeated([0.8]), experiment()))


def test_numbers_printed_for_another_relation_stay_away():
    other = markdown(table(RUNS.assign(relation="add_remove"), AMP))
    assert "79.1" not in other
    assert "P-FW" not in other
    assert cells(other, "Non-private §")[0] == "85.00 ± 0.00 (paper: 84.8)"  # has no relation


def test_a_line_with_fewer_repeats_is_not_bold():
    runs = together(repeated([0.9], method="agd"), repeated([0.8, 0.8], method="auto"))
    [block] = table(runs, experiment())
    assert block.cells.loc[block.cells["best"], "row"].tolist() == ["discreet"]


def test_another_delta_is_another_column():
    runs = frame(delta=[1e-6, 1e-8], accuracy=[0.8, 0.7])
    [block] = table(runs, experiment())
    assert headings(block) == ["δ = 1e-08, ε = 1", "δ = 1e-06, ε = 1"]
    assert means(block)["DP-AGD"] == [0.7, 0.8]


def test_only_what_is_private_from_end_to_end_is_bold():
    [block] = table(RUNS, AMP)
    bold = block.cells[block.cells["best"]]
    assert bold["row"].tolist() == ["discreet", "discreet"]
    assert bold["mean"].tolist() == pytest.approx([0.81, 0.84])


def test_methods_that_were_not_run_show_the_papers_numbers():
    text = markdown(table(RUNS, AMP))
    assert cells(text, "P-FW, the paper's numbers only") == ["paper: 76.9", ""]
    assert "- paper: Iyengar et al. 2019, figure 1 (H-F AMP: replace-one" in text
    assert cells(text, "Non-private §") == [
        "85.00 ± 0.00 (paper: 84.8)",
        "paper: 84.8",
    ]


def test_marks_are_explained():
    made = table(RUNS, AMP)
    notes = made[0].notes
    assert "† Tuned with hindsight on the test rows: not private." in notes
    assert "‡ P-SGD: not private as released: true ε = 3.68 where 0.1 was claimed (adult)." in notes
    assert "P-SGD, published constants, not private as released ‡" in rows(made[0])
    assert "Opacus ¶" in rows(made[0])
    unknown = repeated([0.9], method="agd-released", variant="as released", epsilon_spent=np.nan)
    notes = table(unknown, experiment())[0].notes
    assert "‡ DP-AGD: not private as released; its true ε is not known." in notes


def test_many_true_epsilons_become_a_range():
    runs = frame(
        method="sgd", variant="as released", accuracy=0.9, epsilon=[0.1, 0.2, 0.4, 0.8],
        epsilon_spent=[1.0, 1.0, 0.8, 1.6], epsilon_recomputed=[2.0, np.nan, np.nan, np.nan],
    )  # fmt: skip
    notes = table(runs, experiment())[0].notes
    assert "‡ P-SGD: not private as released: true ε is 2 to 20 times what was claimed." in notes


def test_failures_say_why():
    text = markdown(table(RUNS, AMP))
    assert cells(text, "DP-AGD")[0] == "refused: true ε = 3.68"
    reason = (
        "ValueError: the step is much longer than anything that was ever proved to be safe here."
    )
    partly = together(
        repeated([0.8, np.nan, 0.8], problem=["", "no", ""]),
        repeated([np.nan], method="amp", problem=f"{reason} Take a shorter one."),
    )
    made = table(partly, experiment())
    text = markdown(made)
    assert cells(text, "DP-AGD") == ["**80.00 ± 0.00** (1 of 3 failed)"]
    assert cells(text, "AMP") == ["ValueError: the step is much longer than …"]
    assert any(reason in note and "Take a shorter one." in note for note in made[0].notes)
    assert short("refused: true ε = 3.68") == "refused: true ε = 3.68"


def test_losses_and_relations_have_a_block_each():
    runs = together(
        repeated([0.8]), repeated([0.7], loss="hinge"), repeated([0.6], relation="replace_one")
    )
    captions = [block.caption for block in table(runs, experiment())]
    assert captions == [
        "adult: Accuracy, %, logistic loss, neighbours: add or remove a row (add_remove)",
        "adult: Accuracy, %, hinge loss, neighbours: add or remove a row (add_remove)",
        "adult: Accuracy, %, logistic loss, neighbours: replace a row (replace_one)",
    ]


def test_wide_tables_are_cut_between_data_sets():
    epsilons = [0.05, 0.1, 0.2, 0.4, 0.8]
    runs = together(*(frame(data=d, accuracy=0.8, epsilon=epsilons) for d in ("b", "a", "c")))
    blocks = table(runs, experiment())
    assert [block.cells["data"].tolist() for block in blocks] == [["b"] * 5, ["a"] * 5, ["c"] * 5]
    assert headings(blocks[0])[:2] == ["ε = 0.05", "ε = 0.1"]


def test_penalties_are_columns_with_their_own_printed_numbers():
    runs = frame(
        experiment="outpert-table3", data="bank", method="outpert", epsilon=0.5,
        alpha=[0.0, 0.1], excess_objective=[0.2, 0.01], relation="replace_one",
    )  # fmt: skip
    made = table(runs, experiment("outpert-table3"), measure="excess_objective")
    assert headings(made[0]) == ["α = 0, ε = 0.5", "α = 0.1, ε = 0.5"]
    assert cells(markdown(made), "OutPert") == [
        "**0.200** (paper: 0.2231)", "**0.0100** (paper: 0.0106)",
    ]  # fmt: skip


def test_checkpoints_go_down_the_page():
    runs = frame(
        experiment="dpagd-table1", method="noisy-gd", at=[float(k) for k in range(101)],
        gradient_norm=[1 / (k + 1) for k in range(101)], epsilon=0.0225,
    )  # fmt: skip
    made = table(runs, experiment("dpagd-table1", x="at"), measure="gradient_norm")
    found = headings(made[0])
    assert found[:2] == ["update 0", "update 10"]
    assert found[-1] == "update 100"
    assert made[0].caption.endswith("ε = 0.0225")
    papers = made[0].cells["paper"].tolist()
    assert papers[:2] == [0.72558, 0.05241]
    assert np.isnan(papers[2])
    lines = markdown(made).splitlines()
    assert lines[2] == "| | Noisy descent, fixed steps |"
    assert lines[4] == "| update 0 | **1.00** (paper: 0.72558) |"
    assert "update 10 & \\textbf{0.0909 (paper: 0.05241)} \\\\" in latex(made)


def test_data_sets_of_curves_are_apart():
    runs = together(
        *(
            frame(method=method, data=data, at=[1.0, 2.0], objective=0.5)
            for method in ("auto", "gd", "agd")
            for data in ("adult", "bank")
        ),
        frame(method="nonprivate", variant="not private", objective=0.1),
    )
    blocks = table(runs, experiment(x="at"), measure="objective")
    assert [set(block.cells["data"]) for block in blocks] == [{"adult"}, {"bank"}]
    assert blocks[0].caption.startswith("adult: Objective")
    assert list(blocks[0].frame().index) == ["update 1", "update 2", "end of the run"]
    assert list(blocks[0].frame().columns) == ["discreet", "Noisy GD", "DP-AGD", "Non-private §"]


def test_a_parameter_can_be_the_columns_and_another_the_rows():
    settings = [json.dumps({"splits": s, "clip": c}) for s in (20, 60) for c in (1, 3)]
    runs = frame(setting=settings, accuracy=[0.1, 0.2, 0.3, 0.4])
    made = table(runs, experiment(x="splits", lines=("clip",)))
    assert headings(made[0]) == ["splits = 20", "splits = 60"]
    assert means(made[0]) == {"DP-AGD, clip = 1": [0.1, 0.3], "DP-AGD, clip = 3": [0.2, 0.4]}


def test_a_baseline_without_the_parameter_is_in_every_column():
    runs = together(
        frame(setting=[json.dumps({"splits": s}) for s in (20, 80)], accuracy=[0.1, 0.2]),
        frame(method="nonprivate", variant="not private", accuracy=0.9),
    )
    made = table(runs, experiment(x="splits", lines=("epsilon",)))
    assert headings(made[0]) == ["splits = 20", "splits = 80"]
    assert means(made[0])["Non-private §"] == [0.9, 0.9]


def test_rows_are_in_the_order_of_the_methods_and_private_ones_first():
    runs = frame(
        method=["amp", "agd", "agd", "agd", "auto"],
        calibration=["tight", "published", "tight", "published", "tight"],
        variant=["private", "as released", "private", "private", "private"],
        accuracy=0.5, repeat=[0, 1, 0, 0, 0],
    )  # fmt: skip
    assert rows(table(runs, experiment())[0]) == [
        "discreet",
        "DP-AGD",
        "DP-AGD, published constants",
        "DP-AGD, published constants, not private as released ‡",
        "AMP",
    ]


def test_settings_that_go_with_epsilon_or_the_data_are_one_row():
    runs = frame(
        method="laplace-sgd", epsilon=[1.0, 2.0], setting=['{"passes": 1}', '{"passes": 2}'],
        objective=[0.5, 0.4],
    )  # fmt: skip
    assert rows(table(runs, experiment(), measure="objective")[0]) == ["Laplace SGD"]
    runs = frame(setting=['{"splits": 1}', '{"splits": 2}'], accuracy=[0.1, 0.2])
    assert rows(table(runs, experiment())[0]) == ["DP-AGD, splits = 1", "DP-AGD, splits = 2"]


def test_the_last_checkpoint_of_every_row_is_shown():
    looks = [float(k) for k in range(40)]
    runs = together(
        frame(method="laplace-sgd", setting='{"batch_size": 1}', at=looks, objective=0.5),
        frame(method="laplace-sgd", setting='{"batch_size": 5}', at=looks[:8], objective=0.4),
    )
    made = table(runs, experiment(x="at", lines=("batch_size",)), measure="objective")
    assert {"update 0", "update 7", "update 39"} <= set(headings(made[0]))
    assert rows(made[0]) == ["Laplace SGD, batch_size = 1", "Laplace SGD, batch_size = 5"]


def test_grids_show_one_setting_and_their_time_is_that_of_the_same():
    runs = together(
        *(
            frame(tuning="grid", setting=json.dumps({"a": a}), accuracy=accuracy, seconds=seconds)
            for a, accuracy, seconds in [(1, 0.9, 5.0), (2, 0.8, 1.0)]
        )
    )
    shown = experiment(measures=("accuracy", "seconds"))
    assert table(runs, shown)[0].cells["mean"].tolist() == [0.9]
    assert table(runs, shown, measure="seconds")[0].cells["mean"].tolist() == [5.0]


def test_a_measure_that_a_problem_cannot_have_is_no_failure_of_it():
    runs = together(
        repeated([0.8]),
        frame(data="wine-quality", classes=0, loss="huber", objective=0.1),
        frame(data="wine-quality", classes=0, loss="huber", method="amp", problem="no"),
    )
    [block] = table(runs, experiment())
    assert block.cells["data"].tolist() == ["adult"]


def test_csv_holds_every_number_in_full():
    rows = list(csv.DictReader(io.StringIO(as_csv(table(RUNS, AMP), "amp-fig1"))))
    [mine] = [r for r in rows if r["line"].startswith("auto|") and r["column"] == "ε = 0.1"]
    assert float(mine["mean"]) == pytest.approx(0.81, abs=1e-15)
    assert (mine["repeats"], mine["best"], mine["paper"]) == ("2", "1", "")
    [amp] = [r for r in rows if r["line"] == "amp||private|grid"]
    assert float(amp["paper"]) == 0.791
    [failed] = [r for r in rows if r["line"].startswith("agd|")]
    assert (failed["mean"], failed["failed"]) == ("", "2")


def test_latex_is_balanced_and_escaped():
    runs = repeated([np.nan], data="a_b & c", problem="ValueError: 50 % of {x} \\ y ~ z ^ $ # 中")
    text = latex(table(together(RUNS, runs.assign(experiment="amp-fig1")), AMP))
    assert "a\\_b \\& c" in text
    assert r"50 \% of \{x\} \textbackslash " in text
    assert r"\textbf{81.00 $\pm$ 1.41}" in text
    assert text.isascii()
    assert text.count(r"\begin{") == text.count(r"\end{")
    bare = re.sub(r"\\[{}$]", "", text)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    for body in re.findall(r"\\begin\{tabular\}\{(l r*|lr*)\}(.*?)\\end\{tabular\}", text, re.S):
        rows = [line for line in body[1].splitlines() if line.endswith(r"\\")][1:]
        assert {len(re.findall(r"(?<!\\)&", line)) for line in rows} == {len(body[0]) - 1}


def test_markdown_is_escaped_and_every_row_is_as_wide_as_its_head():
    runs = repeated([np.nan], data="a|b", problem="ValueError: *x* | <b>")
    text = markdown(table(runs, experiment()))
    assert r"ValueError: \*x\* \| \<b\>" in text
    widths = {
        len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("|")
    }
    assert widths == {3}


@pytest.mark.parametrize(
    ("value", "measure", "digits", "text"),
    [
        (0.81234, "accuracy", 3, "81.23"),
        (0.5, "objective", 3, "0.500"),
        (1.4e-5, "excess_objective", 3, "1.4e-5"),
        (518.67, "seconds", 3, "519"),
        (12345.0, "seconds", 3, "1.23e4"),
        (0.0, "seconds", 3, "0"),
    ],
)
def test_numbers_are_short(value, measure, digits, text):
    assert number(value, measure, digits) == text


def test_one_run_has_no_spread():
    [block] = table(frame(auc=0.5), experiment(), measure="auc")
    assert block.frame().iloc[0, 0] == "0.500"


def test_all_files_are_written(tmp_path):
    runs = RUNS.assign(seconds=2.0)
    shown = experiment("amp-fig1", measures=("accuracy", "seconds", "objective"))
    paths = write_all(runs, shown, tmp_path / "new")
    assert [path.name for path in paths] == ["amp-fig1.md", "amp-fig1.csv", "amp-fig1.tex"]
    text = paths[0].read_text(encoding="utf-8")
    assert text.startswith("# A title\n\nA paper. What?\n\n- A note.\n")
    assert "Seconds per fit" in text
    assert "Objective" not in text  # no run has it
    measures = {r["measure"] for r in csv.DictReader(io.StringIO(paths[1].read_text("utf-8")))}
    assert measures == {"accuracy", "seconds"}
    assert paths[2].read_text("utf-8").count(r"\begin{table}") == 2


def test_nothing_to_show_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no runs of experiment 'other'; there are runs of: exp"):
        table(repeated([0.5]), experiment("other"))
    with pytest.raises(ValueError, match="has 'objective'"):
        table(repeated([0.5]), experiment(), measure="objective")
    with pytest.raises(ValueError, match="has 'r2'"):
        write_all(repeated([0.5]), experiment(measures=("r2",)), tmp_path)


def test_an_experiment_that_failed_altogether_says_so(tmp_path):
    paths = write_all(repeated([np.nan], problem="refused: true ε = 9"), experiment(), tmp_path)
    assert "refused: true ε = 9" in paths[0].read_text("utf-8")
