"""Commands of the documentation, make targets, tools and studies: each is run somewhere.

tools/commands.toml says where. Commands of ``discreet`` in code blocks are run here, as they are
written, each in a folder with made-up files of the names that the pages use.
"""

import importlib.util
import itertools
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from discreet import Budget, Ledger, LogisticRegression, save
from discreet.cli.app import _application, run
from discreet.cli.exits import Exit
from discreet.cli.screen import Screen
from discreet.tables import Categorical, Ignored, Numeric, Schema, Target

ROOT = Path(__file__).parents[2]
TABLE = tomllib.loads((ROOT / "tools" / "commands.toml").read_text("utf-8"))
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LEFT_OUT = ("CHANGELOG.md",)  # it speaks of older states
FENCE = re.compile(r"^```([\w{}-]*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HERE = "tests/docs/test_commands.py"
PROGRAMS = ("discreet", "python", "make")

spec = importlib.util.spec_from_file_location("nightly", ROOT / "tools" / "nightly.py")
nightly = importlib.util.module_from_spec(spec)
sys.modules["nightly"] = nightly
spec.loader.exec_module(nightly)


def blocks(text):
    """Return blocks of code, fenced with any language but Python, and indented ones."""
    found = [code for kind, code in FENCE.findall(text) if kind in ("", "sh", "console", "text")]
    lines = FENCE.sub("", text).splitlines()
    indented = [line[4:] if line.startswith("    ") else "" for line in lines]
    return [*found, "\n".join(indented)]


def commands(text):
    """Yield each command of a page, and what the page shows after it."""
    for code in blocks(text):
        lines = re.sub(r"\\\n\s*", " ", code).splitlines()
        starts = [k for k, line in enumerate(lines) if _command(line)]
        for start, end in itertools.pairwise([*starts, len(lines)]):
            yield _command(lines[start]), "\n".join(lines[start + 1 : end])


def _command(line):
    """Return the words of a line that is a command, without its comment; else nothing."""
    line = line.removeprefix("$ ").strip()
    if line.split(" ")[0] not in PROGRAMS or not re.match(r"\w+ [\w./-]", line):
        return []
    return shlex.split(line, comments=True)


DOCUMENTED = [
    (path.relative_to(ROOT).as_posix(), words, shown)
    for path in PAGES
    if path.name not in LEFT_OUT
    for words, shown in commands(path.read_text("utf-8"))
]


OTHERS = ("bench", "datasets")  # of the package discreet-bench, which its own tests run


def documented(kinds=()):
    """Return the commands of ``discreet`` in all pages, but for these, as parameters of a test."""
    found = []
    for page, (program, *words), shown in DOCUMENTED:
        if program == "discreet" and words[0] not in kinds:
            slow = words[0] == "audit" and not words[1].endswith(".json")  # many tables
            marks = [pytest.mark.slow] if slow else []
            name = f"{page}: {' '.join(words)}"[:110]
            found.append(pytest.param(words, shown, id=name, marks=marks))
    return found


DISCREET = documented()
OWN = [each for each in documented(OTHERS) if each.values[0] != ["audit", "all"]]


def name_of(words):
    """Return the key of a command in the table."""
    if words[0] == "python":
        return " ".join(words[: 3 if words[1] == "-m" else 2])
    if words[0] == "make":
        return " ".join(words[:2])
    given = [word for word in words[1:4] if not word.startswith("-")]
    for count in (2, 1):
        if (name := " ".join(["discreet", *given[:count]])) in TABLE:
            return name
    return " ".join(["discreet", *given[:1]])


def needed():
    """Return the name of everything that must be run somewhere."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    found = {f"make {name}" for name in re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE)}
    found |= {f"tools/{path.name}" for path in (ROOT / "tools").glob("*.py")}
    studies = (ROOT / "bench" / "studies").glob("[!_]*.py")
    found |= {f"python -m bench.studies.{path.stem}" for path in studies}
    found |= {
        name_of(words) for _, words, _ in DOCUMENTED if len(words) > 1 and words[1] != "--help"
    }
    for path in PAGES:
        if path.name not in LEFT_OUT:
            text = " ".join(path.read_text("utf-8").split())
            modules = re.findall(r"`python -m ((?:discreet_bench|bench)\.[\w.]+)", text)
            found |= {f"python -m {module}" for module in modules if not module.endswith(".NAME")}
    return found


def test_everything_is_run_somewhere_and_nothing_is_listed_in_vain():
    assert needed() - TABLE.keys() == set()
    assert TABLE.keys() - needed() == set()


@pytest.mark.parametrize("name", TABLE)
def test_the_place_that_runs_it_does(name):
    (kind,) = TABLE[name].keys() - {"minutes", "needs"}
    place = TABLE[name][kind]
    if kind == "ci":
        assert f"\n{name}\n" in (ROOT / ".ci" / "run").read_text("utf-8")
    elif name.startswith("discreet ") and place == HERE:
        assert any(name_of(["discreet", *each.values[0]]) == name for each in OWN)
    elif kind == "tests":
        text = (ROOT / place).read_text("utf-8")
        last = name.split()[-1].removesuffix(".py").split("/")[-1].split(".")[-1].split("-")[-1]
        assert re.search(rf"(?<![a-z]){re.escape(last)}(?![a-z])|_{re.escape(last)}\b", text)
    elif kind == "nightly":
        assert shlex.split(place)[0] in PROGRAMS
    else:
        assert kind == "manual"
        assert len(place) > 20


def test_every_target_is_explained_by_make_help():
    made = shutil.which("make")
    if made is None:
        pytest.skip("needs make")
    done = subprocess.run([made, "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    explained = set(re.findall(r"^make ([a-z-]+) ", done.stdout, re.MULTILINE))
    targets = {name.removeprefix("make ") for name in TABLE if name.startswith("make ")}
    assert targets - explained == {"help", "clean"}
    assert explained <= targets


# ---- the commands themselves


@pytest.mark.parametrize(("words", "shown"), DISCREET)
def test_options_of_a_documented_command_exist(words, shown):
    from typer.main import get_command

    pytest.importorskip("discreet_bench")
    command = get_command(_application(words, Screen()))
    rest = list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    if rest not in (["--help"], []):
        command.make_context("discreet", rest)  # raises for what the command does not know


def values_of(*options):
    """Return what the pages give for these options, in the order of the pages."""
    pairs = [pair for _, words, _ in DOCUMENTED for pair in itertools.pairwise(words)]
    return list(dict.fromkeys(value for option, value in pairs if option in options))


def files(ending):
    """Return the names of all files with this ending in the pages."""
    words = [word for _, words, _ in DOCUMENTED for word in words if words[0] == "discreet"]
    return list(dict.fromkeys(word for word in words if re.fullmatch(rf"[\w-]+{ending}", word)))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with all tables, schemas and models that the pages name.

    Every table has all columns that the pages name, so every schema and model fits every table.
    """
    folder = tmp_path_factory.mktemp("prepared")
    rng, n = np.random.default_rng(0), 1500
    age, sex = rng.integers(20, 90, n), rng.choice(["F", "M"], n)
    label = np.where(age + rng.normal(0, 9, n) > 55, "yes", "no")
    targets, ids = values_of("--target"), values_of("--id", "--unit")
    columns = {"age": age, "sex": sex, **dict.fromkeys(targets, label)}
    columns |= {name: rng.integers(0, 700, n) for name in ids if name not in columns}
    cells = zip(*(values.astype(str) for values in columns.values()), strict=True)
    table = "\n".join([",".join(columns), *map(",".join, cells)]) + "\n"
    for name in files(".csv"):
        (folder / name).write_text(table)
    typed = {name: columns[name] for name in ("age", "sex", "readmitted", "patient_nbr")}
    for name in files(".parquet"):
        pd.DataFrame(typed).to_parquet(folder / name)
    used = {"age": Numeric(0, 120), "sex": Categorical(["F", "M"])}
    unused = {name: Ignored() for name in columns if name not in (*used, targets[0])}
    schema = Schema({**used, **unused}, target=Target(targets[0], ["no", "yes"]))
    for name in files(".toml"):
        schema.write(folder / name)
    X, y, _ = schema.open(folder / files(".csv")[0])
    fitted = LogisticRegression(3.0, classes=["no", "yes"], columns=schema.numeric).fit(X, y)
    model = make_pipeline(schema.transformer(), fitted)
    for name in files(".json"):
        save(model, folder / name)
    return folder


def small(words):
    """Return a command with little work: fewer trials and repeats."""
    words = list(words)
    for option, instead in (("--minutes", ["--trials", "200"]),):
        if option in words:
            at = words.index(option)
            words[at : at + 2] = instead
    if words[0] == "audit" and "--trials" not in words:
        words += ["--trials", "200"]
    return [*words, "--repeats", "1"] if words[0] == "plan" else words


@pytest.mark.parametrize(("words", "shown"), OWN)
@pytest.mark.filterwarnings("ignore")
def test_a_documented_command_runs(words, shown, prepared, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    folder = tmp_path / "here"
    shutil.copytree(prepared, folder)
    monkeypatch.chdir(folder)
    for option in ("-o", "--output", "--effects", "--figure", "--registry"):
        if option in words:
            Path(words[words.index(option) + 1]).unlink(missing_ok=True)
    if words[0] == "example":
        Path(words[1]).unlink(missing_ok=True)
    if "--ledger" in words and words[1] != "create":  # a copy of a ledger would be refused
        made = Ledger(words[words.index("--ledger") + 1])
        limit = Budget(5.0, 1e-5, "add_remove")
        name = words[2] if words[0] == "ledger" else words[words.index("--dataset") + 1]
        made.create(name, limit, unit="patient", rows_per_unit=2)
    code = run(small(words))
    told = capsys.readouterr()
    if "Error:" in shown:  # the page shows a mistake, and what is said about it
        assert code in (Exit.OK, Exit.USAGE, Exit.DATA, Exit.PRIVACY)
    else:
        assert code == Exit.OK, told.err


def test_the_installed_version_can_be_asked_for():
    """``python -c`` of docs/install.md."""
    for _, words, _ in DOCUMENTED:
        if words[:2] == ["python", "-c"]:
            subprocess.run([sys.executable, *words[1:]], check=True, capture_output=True)


# ---- the night


def test_the_jobs_of_the_night_are_those_of_the_table(capsys):
    assert nightly.main(["--list"]) == 0
    shown = capsys.readouterr().out
    for name, entry in TABLE.items():
        assert (entry.get("nightly", "no line") in shown) == ("nightly" in entry), name


def test_a_job_that_fails_or_takes_too_long_is_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(nightly, "ROOT", tmp_path)
    table = tmp_path / "t.toml"
    table.write_text(
        '["good"]\nnightly = "python -c \\"print(7)\\""\n'
        '["without"]\nnightly = "no-such-program"\nneeds = "no-such-program"\n'
    )
    assert nightly.main(["--table", str(table)]) == 0
    shown = capsys.readouterr().out
    assert "done" in shown
    assert "left out: no-such-program is not installed" in shown
    assert (tmp_path / "out" / "nightly" / "good.log").read_text() == "7\n"
    table.write_text(
        '["bad"]\nnightly = "python -c \\"raise SystemExit(3)\\""\n'
        '["slow"]\nnightly = "python -c \\"import time; time.sleep(60)\\""\nminutes = 0.005\n'
    )
    assert nightly.main(["--table", str(table)]) == 1
    shown = capsys.readouterr().out
    assert "FAILED: exit code 3" in shown
    assert "FAILED: more than 0.005 minutes" in shown
    with pytest.raises(SystemExit):
        nightly.main(["nothing", "--table", str(table)])
