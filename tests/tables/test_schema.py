import copy
import json
import math
import os
import pickle
import tomllib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import TableError
from discreet.tables.columns import SPACES, Boolean, Categorical, Ignored, Numeric, Ordinal
from discreet.tables.schema import FileFormat, Schema, Spent, Target

AGE = Numeric(17, 90)

# Anything a file can hold: quotes, dots, line ends, control characters, other scripts.
letters = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
texts = st.text(letters, max_size=8) | st.sampled_from(
    [
        '"',
        "a.b",
        "\\",
        "#",
        "'''",
        "[x]",
        "= 1",
        "\r\n",
        "\x1b",
        "\x7f",
        "\u2028",
        "é",
        "数",
        "日 本",
    ]
)
floats = st.floats(-1e300, 1e300)


def lists_of(least):
    return st.lists(
        texts.map(lambda text: text.strip(SPACES)), min_size=least, max_size=6, unique=True
    )


@st.composite
def bounds(draw):
    low, high = sorted(draw(st.tuples(floats, floats)))
    return low, high if high > low else low + max(1.0, abs(low))


@st.composite
def numerics(draw):
    missing = draw(st.booleans())
    low, high = draw(st.just((None, None)) | bounds())
    invalid = draw(st.sampled_from(["refuse", "missing"])) if missing else "refuse"
    try:
        return Numeric(low, high, "linear", missing, invalid)
    except ValueError:  # bounds that are too close for floating point numbers
        return Numeric(0, 1)


columns = (
    numerics()
    | st.builds(
        Categorical, lists_of(1), st.sampled_from(["other", "average", "refuse"]), st.booleans()
    )
    | st.builds(Ordinal, lists_of(2), st.booleans())
    | st.builds(Boolean, st.just(("ja", "1")), st.just(("nein", '"')), st.booleans())
    | st.builds(Ignored, texts)
)


@st.composite
def targets(draw):
    if draw(st.booleans()):
        return Target("the target", low=-0.5, high=draw(st.floats(0, 1e9)))
    if draw(st.booleans()):
        return Target("the target", draw(lists_of(2)), draw(st.none() | texts))
    listed = draw(lists_of(4))
    labels = draw(st.lists(texts, min_size=2, max_size=2, unique=True))
    return Target("the target", {labels[0]: listed[:2], labels[1]: listed[2:]})


@st.composite
def schemas(draw):
    named = draw(st.dictionaries(texts, columns, max_size=5))
    target = draw(st.none() | targets())
    named = {name: column for name, column in named.items() if name != "the target"}
    file = draw(st.builds(FileFormat, st.sampled_from(",;\t|"), missing=lists_of(0)))
    what = draw(st.lists(texts, max_size=2))
    spent = draw(
        st.none()
        | st.builds(
            Spent,
            st.floats(0, 10),
            st.floats(0, 1),
            what=st.just(what),
            relation=st.just("add_remove"),
        )
    )
    try:
        return Schema({"first": AGE, **named}, target, file, spent)
    except ValueError:  # two encoded columns of one name
        return Schema({"first": AGE}, target, file, spent)


@settings(max_examples=120, deadline=None)
@given(schemas())
def test_files_and_plain_data_give_the_schema_back(schema):
    assert Schema.from_toml(schema.to_toml()) == schema
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert copy.deepcopy(schema) == schema


def test_a_schema_file_is_pleasant_to_read():
    schema = Schema(
        {
            "age": AGE,
            "capital.gain": Numeric(scale="log", missing=True),
            "job": Categorical([f"job number {i}" for i in range(20)]),
            "member": Boolean(),
            "id": Ignored("an identifier"),
        },
        Target("income", {">50K": [">50K", ">50K."], "<=50K": ["<=50K", "<=50K."]}),
        FileFormat(missing=["", "?"]),
        Spent(0.1, 0.0, "add_remove", ["bounds of capital.gain"]),
    )
    text = schema.to_toml()
    assert text.startswith("# Schema of a table")
    assert max(map(len, text.splitlines())) <= 100
    after_comment = text.split("\n\n", 1)[1]
    assert after_comment.startswith("version = 1\n\n[file]\n")
    assert (
        '[columns.age]\nkind = "numeric"\nlow = 17\nhigh = 90\n\n[columns."capital.gain"]' in text
    )
    assert 'kind = "numeric"\nbounds = "private"\nscale = "log"\nmissing = true\n' in text
    assert '[target.classes]\n">50K" = [">50K", ">50K."]\n' in text
    assert list(tomllib.loads(text)["columns"]) == ["age", "capital.gain", "job", "member", "id"]


def test_all_problems_are_listed_at_once_with_the_file_and_the_columns():
    text = """
        version = 1
        colums = 3
        [target]
        column = "y"
        [columns.a]
        kind = "numeric"
        [columns.b]
        kind = "categorial"
        [columns.c]
        kind = "categorical"
        vales = ["x"]
        [columns.d]
        kind = "numeric"
        low = 3
        high = 1
        [columns."e.f"]
        kind = "ordinal"
        [columns.g]
        kind = "numeric"
        low = 3
        bounds = "private"
        [columns.h]
        kind = "categorical"
        unseen = "drop"
        values = ["x"]
        [columns.i]
        low = 3
        [columns.fine]
        kind = "boolean"
    """
    with pytest.raises(TableError) as caught:
        Schema.from_toml(text, "people.toml")
    message = str(caught.value)
    assert message.startswith("people.toml: 10 problems\n")
    for part in (
        "'colums' is not a part of a schema; did you mean 'columns'?",
        '[target] fill in classes = ["…", "…"], or low and high',
        "[columns.a] fill in low and high (public knowledge, e.g. from the codebook), or write "
        'bounds = "private" to spend part of the fit\'s budget on them.',
        "[columns.b] kind = 'categorial' is not known; did you mean 'categorical'?",
        "[columns.c] 'vales' is not known; did you mean 'values'?",
        "[columns.d] low must be below high; got low = 3 and high = 1.",
        '[columns."e.f"] fill in values',
        "[columns.g] give low and high, or bounds",
        "[columns.h] unseen must be 'other' or 'average' or 'refuse'; got 'drop'.",
        "[columns.i] kind is missing",
    ):
        assert part in message
    assert "fine" not in message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version = 1\n", "there must be a column"),
        ("version = 2\n", "version = 1 is the version"),
        ("", "the version is missing; add version = 1 at the top"),
        ("version = 1\n[columns", "this is not TOML"),
        ("version = 1\ncolumns = 3", r"\[columns\] must hold one table"),
        ("version = 1\ncolumns.a = 3", r"\[columns.a\] must be a table"),
        ("version = 1\nfile = 3\ncolumns.a.kind = 'boolean'", r"\[file\] must be a table"),
        ("version = 1\n[target]\nclasses = ['a', 'b']", r"\[target\] 'column' must be given"),
        (
            "version = 1\n[columns.a]\nkind = 'numeric'\nbounds = 'public'",
            'bounds must be "private"',
        ),
        ("version = 1\n[columns.a]\nkind = 'numeric'\nlow = 0", "high is not filled in"),
        ("version = 1\n[columns.a]\nkind = 'ignored'\n", "a column that is not ignored"),
        ("version = 1\n[spent]\nepsilon = 1\ndelta = 0\nrelation = 'x'", "relation must be"),
    ],
)
def test_a_file_that_is_no_schema_is_refused(text, problem):
    with pytest.raises(TableError, match=rf"^people.toml: .*{problem}") as caught:
        Schema.from_toml(text, "people.toml")
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_read_and_write(tmp_path):
    schema = Schema({"été": AGE, 'say "so"': Categorical(["\r\n", "a"])})
    path = tmp_path / "schema.toml"
    path.write_text("old", encoding="utf-8")
    schema.write(path)
    assert Schema.read(path) == schema
    assert Schema.read(str(path)) == schema
    assert os.listdir(tmp_path) == ["schema.toml"]
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # an editor on Windows was here
    assert Schema.read(path) == schema
    path.write_bytes(b"version = 1 # \xff")
    with pytest.raises(TableError, match=r"schema.toml: a schema file must be text in UTF-8"):
        Schema.read(path)


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "schema.toml"
    Schema({"a": AGE}).write(path)

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        Schema({"b": AGE}).write(path)
    assert list(Schema.read(path).columns) == ["a"]
    assert os.listdir(tmp_path) == ["schema.toml"]


def test_derived_numbers():
    schema = Schema(
        {
            "a": Numeric(missing=True),
            "id": Ignored(),
            "b": Categorical(["x", "y"], unseen="other"),
            "c": Numeric(0, 1),
            "d": Numeric(),
        }
    )
    assert schema.feature_names == ["a", "a=(missing)", "b=x", "b=y", "b=(other)", "c", "d"]
    schema.feature_names.clear()  # a list of the caller's own
    assert schema.feature_names[0] == "a"
    with pytest.raises(TypeError):
        schema.used["e"] = Numeric(0, 1)
    assert schema.width == 7
    assert schema.groups == 4
    assert schema.max_norm == 2.0
    assert schema.unbounded == (0, 6)
    assert schema.file_names == ("a", "id", "b", "c", "d")


@pytest.mark.parametrize(("categories", "wide"), [(3, False), (4, False), (5, True)])
def test_sparse_where_it_is_smaller(categories, wide):
    # One group: a sparse row takes 4 + 4 bytes and 8 for its start, a dense one 4 a column.
    schema = Schema({"a": Categorical([str(i) for i in range(categories)], unseen="average")})
    assert schema.is_wide is wide


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: Schema({}), "a column that is not ignored"),
        (lambda: Schema({"a": Ignored()}), "a column that is not ignored"),
        (lambda: Schema({"a": "numeric"}), "column 'a' must be a Numeric"),
        (lambda: Schema({3: AGE}), "name of a column must be a text"),
        (lambda: Schema({"a": AGE}, Target("a", ["x", "y"])), "the target and also a column"),
        (lambda: Schema({"a": Categorical(["b"]), "a=b": AGE}), "would be called 'a=b'"),
        (lambda: Schema({"a": AGE}, file=FileFormat(header=False, names=["b"])), "'a', 'b'"),
        (lambda: FileFormat(names=["a"]), "header = false"),
        (lambda: FileFormat(header=False, names=["a", "a"]), "'a' more than once"),
        (lambda: FileFormat(delimiter=",,"), "delimiter must be one character"),
        (lambda: FileFormat(delimiter="\n"), "delimiter must be one character"),
        (lambda: FileFormat(delimiter='"'), "must differ"),
        (lambda: FileFormat(encoding="klingon"), "encoding must be one that Python knows"),
        (lambda: FileFormat(encoding="base64"), "encoding must be one that Python knows"),
        (lambda: FileFormat(missing="?"), "missing must be a list"),
        (lambda: Target("y"), "fill in classes"),
        (lambda: Target("y", ["a"]), "two classes at least"),
        (lambda: Target("y", ["a", "b"], low=0, high=1), "not both"),
        (lambda: Target("y", low=0), "high is not filled in"),
        (lambda: Target("y", low=1, high=0), "low must be below high"),
        (lambda: Target("y", other="x", low=0, high=1), "other is the label"),
        (lambda: Target("y", {"a": ["1"], "b": ["1"]}), "'1' must not mean more than one class"),
        (lambda: Target("y", {"a": ["1"], "b": []}), "class 'b' needs the texts"),
        (lambda: Spent(-1, 0, "add_remove"), "epsilon must be .*>= 0; got -1"),
        (lambda: Spent(1, 2, "add_remove"), "delta must be .*between 0 and 1; got 2"),
        (lambda: Spent(1, 0, "both"), "relation must be"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_rule(make, rule):
    with pytest.raises(ValueError, match=rule):
        make()


def test_labels_are_sorted_and_include_the_rest():
    target = Target("y", {"yes": ["1", "2"], "maybe": ["3"]}, other="no")
    assert target.labels == ("maybe", "no", "yes")
    assert target.is_classification
    assert not Target("y", low=0, high=1).is_classification
    assert Target("y", low=0, high=1).labels == ()


def test_columns_cannot_be_changed():
    given_columns = {"a": AGE}
    schema = Schema(given_columns)
    given_columns["b"] = AGE
    assert list(schema.columns) == ["a"]
    with pytest.raises(TypeError):
        schema.columns["b"] = AGE
    assert Schema({"a": AGE, "b": AGE}) == Schema({"a": AGE, "b": AGE})
    assert Schema({"a": AGE, "b": AGE}) != Schema({"b": AGE, "a": AGE})


def test_a_column_becomes_the_target():
    schema = Schema(
        {"a": AGE, "b": Boolean(["Ja"], ["nein"]), "c": Categorical(["x", "y"]), "id": Ignored()},
        file=FileFormat(header=False),
    )
    by_number, by_text, by_truth = map(schema.with_target, "acb")
    assert (by_number.target.low, by_number.target.high) == (17.0, 90.0)
    assert by_text.target == Target("c", ["x", "y"])
    assert by_truth.target.labels == ("false", "true")
    assert by_truth.target.classes["true"] == ("Ja", "ja", "JA")
    # A file without a header keeps its order.
    assert list(by_text.columns) == ["a", "b", "id"]
    assert by_text.file_names == ("a", "b", "c", "id")
    moved = by_text.with_target("a")
    assert moved.file_names == ("a", "b", "c", "id")
    assert list(moved.columns) == ["b", "c", "id"]
    assert isinstance(moved.columns["c"], Ignored)
    assert moved.with_target("a") is moved
    with pytest.raises(ValueError, match=r"known: .*'a'"):  # its own target is among them
        moved.with_target("nope")
    with pytest.raises(ValueError, match="is ignored"):
        schema.with_target("id")
    with pytest.raises(ValueError, match="there is no column 'd'"):
        schema.with_target("d")
    with pytest.raises(ValueError, match="needs low and high"):
        Schema({"a": Numeric(), "b": AGE}).with_target("a")
    assert math.isclose(by_text.max_norm, math.sqrt(2))


def test_numeric_columns_are_declared_for_estimators_with_their_shape():
    schema = Schema(
        {
            "job": Categorical(("clerk", "nurse"), unseen="average"),
            "age": Numeric(17, 90, missing=True),
            "hour": Numeric(0, 24, shape="bins"),
            "height": Numeric(0, 3, shape="linear"),
            "income": Numeric(),
        }
    )
    assert schema.numeric == {
        2: (0.0, 1.0, "smooth"),
        4: (0.0, 1.0, "bins"),
        6: (None, None, "smooth"),
    }
    assert Schema({"job": Categorical(("clerk", "nurse"))}).numeric is None
    with pytest.raises(ValueError, match="shape must be"):
        Numeric(0, 1, shape="cubic")


@pytest.mark.parametrize("scale", ["linear", "sqrt", "log"])
def test_encoded_numbers_can_be_decoded(scale):
    column, values = Numeric(-4, 9, scale=scale), np.linspace(-4, 9, 14)
    least, most = column.scaled([-4, 9])
    encoded = (column.scaled(values) - least) / (most - least)
    assert column.decoded(encoded) == pytest.approx(values)
    assert Numeric(scale=scale).decoded(column.scaled(values)) == pytest.approx(values)
