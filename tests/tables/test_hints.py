"""Names of columns as hints, and kinds of columns for codes, counts and identifiers."""

import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet import Bounds
from discreet.core import Laplace
from discreet.core.bits import SeededBits
from discreet.core.mechanisms import PermuteAndFlip
from discreet.core.noise import Noise
from discreet.core.ranges import select_bounds_from_counts
from discreet.errors import PrivacyLeakWarning, TableError
from discreet.rows import cell_counts
from discreet.rows.moments import edges
from discreet.tables import (
    About,
    Categorical,
    Hashed,
    Ignored,
    Numeric,
    Schema,
    draft,
    draft_private,
    read,
)
from discreet.tables.cell_rules import bucket
from discreet.tables.columns import is_code, is_identifier, may_be_unit

N = 4000


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    """Visits with an identifier, a person, codes, counts that are mostly 0, and amounts."""
    rng = np.random.default_rng(0)
    codes = np.array(["250.83", "250.1", "428", "V27", "410", "0123"])
    counts = np.where(rng.random(N) < 0.95, 0, rng.integers(1, 9, N))
    lines = ["encounter_id,patient_nbr,diag_1,visits,amount,note,ill"]
    for k in range(N):
        cells = (
            10**6 + 37 * k, k // 3, rng.choice(codes), counts[k],
            f"{rng.gamma(2.0, 100.0):.2f}", f"text {k}", "ny"[k % 2],
        )  # fmt: skip
        lines.append(",".join(map(str, cells)))
    path = tmp_path_factory.mktemp("visits") / "visits.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_names_of_identifiers_codes_and_people():
    for name in ("patient_nbr", "id", "userId", "email", "MRN", "customer_number"):
        assert is_identifier(name), name
    for name in ("#", "No", "Nr.", "Unnamed: 0", "row", "rownames", "line_number", "index", ""):
        assert is_identifier(name), name  # the number of a row
    for name in ("Patient", "kunde_nr", "PatientID", "Nr Patient Nummer"):
        assert may_be_unit(name), name
    assert not is_identifier("member")  # it may say whether somebody is one
    for name in ("admission_type_id", "encounter_id", "number_outpatient", "grid", "valid", "name"):
        assert not is_identifier(name), name
    assert [name for name in ("patient_id", "ssn", "encounter_id") if may_be_unit(name)] == [
        "patient_id",
        "ssn",
    ]
    for name in ("diag_1", "ICD9Code", "zip", "payer_code", "admission_type_id"):
        assert is_code(name), name
    for name in ("age", "income", "zipper", "decoded"):
        assert not is_code(name), name


def test_a_draft_proposes_kinds(visits):
    text = draft(visits, target="ill")
    columns = tomllib.loads(text)["columns"]
    assert columns["encounter_id"]["kind"] == "ignored"  # another number in each record
    assert columns["patient_nbr"]["kind"] == "ignored"
    assert "'patient_nbr' says whose row a row is" in text
    assert columns["diag_1"] == {"kind": "categorical"}
    assert columns["visits"] == {"kind": "numeric", "gaps": "average", "integer": True}
    assert columns["amount"] == {"kind": "numeric", "gaps": "average"}
    assert columns["note"]["kind"] == "ignored"
    assert "values_file" in text.split("[columns.diag_1]")[1].split("[columns")[0]
    assert "whose row" not in draft(visits, target="ill", unit="patient_nbr")


def test_a_caller_knows_better(visits):
    kinds = {"encounter_id": "numeric", "diag_1": "hashed", "amount": "ignored"}
    columns = tomllib.loads(draft(visits, kinds=kinds, prefixes={"diag_1": 3}))["columns"]
    assert columns["encounter_id"]["kind"] == "numeric"
    assert columns["diag_1"] == {"kind": "hashed", "gaps": "average", "prefix": 3}
    assert columns["amount"]["kind"] == "ignored"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kinds": {"amount": "number"}}, "did you mean 'numeric'"),
        ({"kinds": {"nothing": "numeric"}}, "no column 'nothing'"),
        ({"kinds": {"amount": "numeric"}, "prefixes": {"amount": 3}}, "a prefix groups texts"),
        ({"prefixes": {"diag_1": 0}}, "from 1 to"),
    ],
)
def test_statements_that_do_not_fit_are_refused(visits, settings, message):
    with pytest.raises((ValueError, TableError), match=message):
        draft(visits, **settings)
    with pytest.raises((ValueError, TableError), match=message):
        draft_private(visits, 1.0, 1e-6, "add_remove", header=True, **settings)


def private(path, epsilon=20.0, **settings):
    with pytest.warns(PrivacyLeakWarning, match="fixes the noise"):
        return draft_private(
            path, epsilon, 1e-6, "add_remove", header=True, random_state=0, **settings
        )


def test_a_private_draft_takes_codes_for_categories_and_counts_for_whole_numbers(visits):
    schema = private(visits, target="ill", prefixes={"diag_1": 3})
    columns = schema.columns
    assert isinstance(
        columns["encounter_id"], Ignored
    )  # a code by its name, of which none is frequent
    assert columns["patient_nbr"] == Ignored("its name is that of an identifier")
    assert columns["diag_1"] == Categorical(
        ("012", "250", "410", "428", "V27"), unseen="average", prefix=3
    )
    assert columns["visits"].integer
    assert not columns["amount"].integer
    X, _, _ = read(visits, schema)
    assert X.shape == (N, schema.width)


@pytest.mark.parametrize("epsilon", [2.0, 50.0, 200.0])
def test_private_bounds_of_counts_are_never_absurd(visits, epsilon):
    for seed in range(5):
        with pytest.warns(PrivacyLeakWarning, match="fixes the noise"):
            schema = draft_private(
                visits, epsilon, 1e-6, "add_remove", header=True, random_state=seed
            )
        column = schema.columns["visits"]
        assert column.is_bounded == (epsilon > 2)  # else the fit finds them
        if column.is_bounded:
            assert column.low == 0
            assert column.high in (5, 6, 7, 8, 9)  # counts above 5 are 2 % of the rows


def test_a_column_of_missing_cells_gets_no_bounds(tmp_path):
    # Noise alone leads by 7 scales with probability 0.05 %; the seeds are fixed.
    path = tmp_path / "empty.csv"
    lines = [f"{k % 7},{'' if k else 3}" for k in range(3000)]
    path.write_text("\n".join(["a,weight", *lines]) + "\n")
    for seed in range(10):
        with pytest.warns(PrivacyLeakWarning, match="fixes the noise"):
            schema = draft_private(path, 2.0, 1e-6, "add_remove", header=True, random_state=seed)
        assert isinstance(schema.columns["weight"], Ignored)
        assert isinstance(schema.columns["a"], Numeric)


def test_names_are_not_voted_on(visits, monkeypatch):
    from discreet.core.account import PrivacyFilter

    charged = []
    charge = PrivacyFilter.charge_all

    def spy(self, uses):
        charged.extend(uses)
        return charge(self, uses)

    monkeypatch.setattr(PrivacyFilter, "charge_all", spy)
    private(visits, target="ill", kinds={"note": "ignored", "amount": "numeric"})
    votes = [times for mechanism, times in charged if isinstance(mechanism, Laplace)]
    assert votes == [1] * 6  # three each about visits and ill
    total = sum(times * mechanism.loss.epsilon for mechanism, times in charged)
    assert total == pytest.approx(20.0, rel=1e-9)
    assert total <= 20.0


def test_integer_types_are_public(tmp_path):
    table = pa.table({"count": pa.array([0, 1] * 500), "share": pa.array([0.0, 1.0] * 500)})
    pq.write_table(table, tmp_path / "t.parquet")
    columns = tomllib.loads(draft(tmp_path / "t.parquet"))["columns"]
    assert columns["count"] == {"kind": "numeric", "gaps": "average", "integer": True}
    assert columns["share"] == {"kind": "numeric", "gaps": "average"}


# -- whole candidates


def test_whole_candidates_are_whole():
    whole = edges(True)
    assert (whole % 1 == 0).all()
    assert set(whole) <= set(edges())
    assert {0.0, 1.0, 99.0, 100.0, 110.0, 1e12, -1.0} <= set(whole)


def test_one_value_moves_each_score_of_whole_candidates_by_at_most_one():
    from discreet.core import ranges

    rng = np.random.default_rng(0)
    values = np.where(rng.random(60) < 0.8, 0.0, rng.integers(-5, 2000, 60))
    values[:3] = [2.5, np.nan, 1e15]

    def scores(rows):
        return np.concatenate(ranges._scores(cell_counts(rows, edges(True)), 1 / 16))

    before = scores(values)
    for k in range(60):
        assert np.abs(before - scores(np.delete(values, k))).max() <= 1
        other = values.copy()
        other[k] = 7.5
        assert np.abs(before - scores(other)).max() <= 1


def test_a_column_of_zeros_is_widened_upwards():
    mechanism, noise = PermuteAndFlip(5.0, monotone=False), Noise(SeededBits(0))
    for whole, top in ((True, 1.0), (False, 1e-9)):
        counts = cell_counts(np.zeros(1000), edges(whole))
        found = select_bounds_from_counts(counts, 1000, 0.9, mechanism, noise, whole=whole)
        assert found == (0.0, top)


def test_private_bounds_in_a_fit_are_whole_for_whole_columns():
    schema = Schema(
        {"a": Numeric(), "b": Categorical(("x",), unseen="other"), "c": Numeric(integer=True)}
    )
    assert schema.unbounded == (0, 3)
    assert schema.whole == (3,)
    log = Schema({"c": Numeric(integer=True, scale="log"), "d": Numeric(0, 9, integer=True)})
    assert log.whole == ()
    assert Bounds(schema.unbounded, whole=schema.whole).whole == (3,)
    with pytest.raises(ValueError, match="some of the columns"):
        Bounds([0], whole=[1])


def test_bounds_of_integers_must_be_whole():
    with pytest.raises(ValueError, match="whole bounds"):
        Numeric(0, 4.3, integer=True)


# -- prefixes and hashes


TABLES = {
    "texts": pa.array(["250.83", " 250 ", "V27", None, "?", "25", "9"]),
    "numbers": pa.array([250.83, 250.0, 428.0, None, np.nan, 25.0, 9.0]),
}


@pytest.mark.parametrize("cells", TABLES)
def test_cells_are_compared_by_their_first_letters(cells):
    from discreet.tables.schema import FileFormat

    schema = Schema(
        {"code": Categorical(("250", "V27", "25"), unseen="other", missing=True, prefix=3)},
        file=FileFormat(missing=("", "?")),
    )
    X = schema.transformer(sparse=False).transform(pa.table({"code": TABLES[cells]}))
    third = [0, 1, 0, 0, 0] if cells == "texts" else [0, 0, 0, 1, 0]
    assert X.astype(int).tolist() == [
        [1, 0, 0, 0, 0],
        [1, 0, 0, 0, 0],
        third,
        [0, 0, 0, 0, 1],
        [0, 0, 0, 0, 1],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 1, 0],
    ]


def test_values_must_fit_the_prefix():
    with pytest.raises(ValueError, match="shorten the values"):
        Categorical(("250", "4280"), prefix=3)


@pytest.mark.parametrize("sparse", [True, False])
def test_hashed_cells_fill_their_bucket(sparse):
    schema = Schema({"code": Hashed(buckets=8, prefix=3, missing=True)})
    assert schema.width == 9
    assert schema.feature_names[0] == "code#0"
    transformer = schema.transformer(sparse=sparse)
    X = transformer.transform({"code": ["250.83", "250", "V27", None]})
    X = X.toarray() if sparse else X
    places = [bucket("250", 8), bucket("250", 8), bucket("V27", 8), 8]
    assert X.argmax(axis=1).tolist() == places
    assert X.sum(axis=1).tolist() == [1, 1, 1, 1]
    with pytest.raises(TableError, match="a cell is missing"):
        Schema({"code": Hashed(8)}).transformer().transform({"code": ["a", None]})


def test_hashes_never_change():
    # Models on disk depend on them.
    assert [bucket(text, 1000) for text in ("250", "V27", "")] == HASHES


HASHES = [229, 934, 876]


def test_a_row_is_encoded_without_regard_to_others():
    schema = Schema({"code": Hashed(64)})
    texts = [f"c{k}" for k in range(200)]
    whole = schema.transformer(sparse=False).transform({"code": texts})
    for k in (0, 77, 199):
        alone = schema.transformer(sparse=False).transform({"code": [texts[k]]})
        assert (alone[0] == whole[k]).all()


# -- schema files


def schema_text(column, top=""):
    return f'version = 1\n{top}\n[columns.code]\nkind = "categorical"\n{column}\n'


def test_values_come_from_a_file_beside_the_schema(tmp_path):
    (tmp_path / "icd9.txt").write_text("# codes\n250\n\n 428 \nV27\n", encoding="utf-8")
    (tmp_path / "s.toml").write_text(schema_text('values_file = "icd9.txt"'))
    schema = Schema.read(tmp_path / "s.toml")
    assert schema.columns["code"].values == ("250", "428", "V27")
    assert Schema.from_toml(schema.to_toml()) == schema  # the values travel with the schema


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ('values_file = "none.txt"', "values_file cannot be read: no such file"),
        ("values_file = 3", "must be the name of a file"),
        ('values_file = "x"\nvalues = ["a"]', "not both"),
        ('values_file = "odd.txt"', "text in UTF-8"),
        ('values_file = "empty.txt"', "fill in values"),
    ],
)
def test_a_values_file_that_cannot_be_used_is_named(tmp_path, column, message):
    (tmp_path / "odd.txt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "s.toml").write_text(schema_text(column))
    with pytest.raises(TableError, match=message):
        Schema.read(tmp_path / "s.toml")


def test_extra_columns_are_ignored_on_request(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("code,more\na,1\nb,2\n")
    strict = Schema.from_toml(schema_text('values = ["a", "b"]'))
    with pytest.raises(TableError, match="--ignore-extra"):
        read(path, strict, target=False)
    loose = Schema.from_toml(
        schema_text('values = ["a", "b"]\nunseen = "other"', 'extra = "ignore"')
    )
    assert read(path, loose, target=False).X.shape == (2, 3)
    table = {"code": ["a"], "more": [1]}
    assert loose.transformer().fit(table).transform(table).shape == (1, 3)
    with pytest.raises(TableError, match="extra"):
        strict.transformer().fit(table)
    assert Schema.from_toml(loose.to_toml()) == loose
    with pytest.raises(ValueError, match="extra"):
        Schema({"a": Numeric(0, 1)}, extra="drop")


def test_statements_about_the_data_set_are_kept():
    about = About("Visits", "Office", "to plan")
    schema = Schema({"a": Numeric(0, 1)}, about=about)
    assert Schema.from_toml(schema.to_toml()) == schema
    assert "[about]" in schema.to_toml()
    assert "[about]" not in Schema({"a": Numeric(0, 1)}).to_toml()
