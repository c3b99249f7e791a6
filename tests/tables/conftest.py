"""The table that drafts are made of, as files."""

import numpy as np
import pytest

from .drafts import N, table


@pytest.fixture
def csv_file(tmp_path):
    columns = table()
    path = tmp_path / "people.csv"
    lines = [";".join(columns)]
    lines += [";".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def parquet_file(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "people.parquet"
    columns = dict(table())
    columns["member"] = np.arange(N) % 2 == 0
    fields = pa.table(columns)
    when = pa.array(np.arange(N).astype("datetime64[D]"))
    fields = fields.append_column("when", when)
    strict = pa.schema([field.with_nullable(field.name != "age") for field in fields.schema])
    pq.write_table(fields.cast(strict), path)
    return path
