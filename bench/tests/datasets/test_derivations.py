"""Columns that are made from those of the files, row by row."""

import bz2
import gzip
import lzma

import numpy as np
import pytest

from discreet.errors import TableError
from discreet_bench import datasets

from .files import plain, write


def test_wine_is_red_then_white_with_the_colour_last(tmp_path):
    names = list(datasets.schema("wine-quality").columns)[:-1]
    header = ";".join(f'"{name}"' for name in [*names, "quality"])
    for colour, quality in (("red", 3), ("white", 11)):
        path = tmp_path / "wine-quality" / f"winequality-{colour}.csv"
        write(path, f"{header}\n16;2;2;100;1;300;500;1.04;4.5;2;15;{quality}\n")
    data = plain("wine-quality", tmp_path)
    assert data.y.tolist() == [3.0, 10.0]  # grades end at 10
    assert data.labels == ()
    assert data.target_bounds == (0, 10)
    assert data.X[:, 11].tolist() == [1.0, 0.0]
    np.testing.assert_allclose(data.X[:, :11], 1.0)
    with pytest.warns(UserWarning, match="checksum"):
        cells = datasets.table("wine-quality", data_dir=tmp_path)
    assert cells["colour"].to_pylist() == ["red", "white"]
    assert cells["pH"].to_pylist() == [4.5, 4.5]
    again = data.schema.transformer(sparse=False).fit(cells).transform(cells)
    np.testing.assert_array_equal(again, data.X)


def test_occupancy_has_one_field_more_than_names_and_a_clock(tmp_path):
    header = '"date","Temperature","Humidity","Light","CO2","HumidityRatio","Occupancy"\n'
    path = tmp_path / "occupancy" / "datatraining.txt.xz"
    write(path, header + '"1","2015-02-04 18:00:00",30,50,1000,300,0.01,1\n', lzma.open)
    data = plain("occupancy", tmp_path, split="train")
    assert data.X.tolist() == [[0.75, 1.0, 0.5, 0.5, 0.0, 0.5]]
    assert data.y.tolist() == [1]
    write(path, header + '"1","4 February",30,50,1000,300,0.01,1\n', lzma.open)
    with pytest.raises(TableError, match=r"datatraining.*'date'") as error:
        datasets.load("occupancy", split="train", data_dir=tmp_path)
    assert "4 February" not in str(error.value)


def test_covertype_turns_runs_of_flags_into_categories(tmp_path):
    def row(area, soil, kind):
        flags = [int(i == area) for i in range(4)] + [int(i == soil) for i in range(40)]
        return ",".join(map(str, [3000, 0, 90, 0, -500, 10_000, 255, 0, 51, 0, *flags, kind]))

    path = tmp_path / "covertype" / "covtype.data.bz2"
    write(path, f"{row(0, 39, 7)}\n{row(3, 0, 1)}\n", bz2.open)
    data = plain("covertype", tmp_path)
    assert data.X.shape == (2, 54)
    assert data.max_norm == pytest.approx(np.sqrt(12))
    assert data.X[0, :10].tolist() == [0.5, 0, 1, 0, 0, 1, 1, 0, 0.2, 0]
    assert data.X[:, 10:].nonzero()[1].tolist() == [0, 43, 3, 4]
    assert data.y.tolist() == [6, 0]
    write(path, row(5, 39, 7), bz2.open)  # no area at all
    with pytest.raises(TableError, match="Wilderness_Area_1 to Wilderness_Area_4"):
        datasets.load("covertype", data_dir=tmp_path)


def test_ipums_extracts_may_have_more_columns_in_any_order(tmp_path):
    names = [*datasets.schema("ipums-us").columns]
    cells = dict.fromkeys(names, "1") | {"AGE": "50", "OCCISCO": "97"}
    lines = ["INCTOT,SERIAL," + ",".join(names)]
    for income in (25_001, 25_000, 9_999_999):
        lines.append(f"{income},77," + ",".join(cells[name] for name in names))
    write(tmp_path / "ipums-us" / "ipums-us.csv.gz", "\n".join(lines), gzip.open)
    data = datasets.load("ipums-us", data_dir=tmp_path, sparse=False)
    assert data.labels == ("high", "low")
    assert data.y.tolist() == [0, 1]  # whose income is not known is left out
    assert data.X[0, 0] == 0.5
    assert data.X[0, data.schema.feature_names.index("OCCISCO=(other)")] == 1
    write(tmp_path / "ipums-br" / "ipums-br.csv", "\n".join(lines))
    with pytest.raises(TableError, match=r"ipums-br\.csv: the columns must be, among others"):
        datasets.load("ipums-br", data_dir=tmp_path)
