"""Public data sets, encoded with what is public about them: bounds and category lists.

Nothing is taken from the data. Numbers are cut to bounds written down here (the codebooks' or
round ones) and scaled to [0, 1], on a logarithmic scale where tails are heavy. Categories are
one-hot by the codebooks' lists; a value that is not listed is all zeros.

    DISCREET_DATA=folder python -m benchmarks.datasets

prints the shapes. Those of the papers, and where these differ:

================  ===========================================================================
bank              45,211 × 42 as in Zhang et al. 2017: each list leaves out one category, which
                  is all zeros ("unknown", or the first). ``duration`` is included as in the
                  literature, although it is known only after the call.
credit-default    30,000 × 33; Zhang et al. 2017 say 34, which is 33 and a constant column.
wine-quality      6,497 × 12: eleven measurements and the colour.
bike-sharing      17,379 × 61; Zhang et al. 2017 say 62, which is 61 and a constant column. Left
                  out: the running number, the date, and the two counts that add up to the target.
banknote          1,372 × 4; Hardwarsing 2018 says 1,327 and counts the class as a feature.
occupancy         8,143 × 6: the training file, with the time of day for the date.
kddcup99          494,021 × 34: the continuous columns of the 10 percent file, normal against
                  attack. The seven symbolic columns are left out.
mnist             60,000 × 784: the training images, digit 0 against the rest.
adult             48,842 × 105, both files (`benchmarks.adult`).
================  ===========================================================================
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from benchmarks import adult

__all__ = ["NAMES", "Data", "folder", "load"]


class Data(NamedTuple):
    """An encoded data set.

    Attributes
    ----------
    X, y
        Float64 table, and targets: -1 and +1, or real numbers.
    max_norm
        Public bound on the norm of every row: √(numbers + groups of categories).
    target_bounds
        Public bounds of a real target, None for a class.
    """

    X: np.ndarray
    y: np.ndarray
    max_norm: float
    target_bounds: tuple[float, float] | None = None


@dataclass(frozen=True)
class Number:
    """A number cut to public bounds and brought to [0, 1]."""

    low: float = 0.0
    high: float = 1.0
    dtype: ClassVar[str] = "f8"

    def encode(self, values: np.ndarray) -> np.ndarray:
        """One column."""
        cut = np.clip(values, self.low, self.high)
        low, high = self.scale(self.low), self.scale(self.high)
        return (self.scale(cut)[:, None] - low) / (high - low)

    def scale(self, values: np.ndarray | float) -> np.ndarray:
        """The scale on which [low, high] is stretched to [0, 1]."""
        return np.asarray(values, dtype=np.float64)


@dataclass(frozen=True)
class Log(Number):
    """A number with a heavy tail: the same on the scale sign(v)·log(1 + |v|)."""

    def scale(self, values: np.ndarray | float) -> np.ndarray:
        """The signed logarithmic scale."""
        return np.sign(values) * np.log1p(np.abs(values))


@dataclass(frozen=True)
class Clock:
    """The time of day of a ``YYYY-MM-DD hh:mm:ss`` stamp, as a share of the day."""

    dtype: ClassVar[str] = "S24"

    def encode(self, values: np.ndarray) -> np.ndarray:
        """One column."""
        stamps = values.astype(str).astype("datetime64[s]")
        seconds = (stamps - stamps.astype("datetime64[D]")).astype(np.float64)
        return seconds[:, None] / 86_400


@dataclass(frozen=True)
class OneOf:
    """Categories by a public list; any other value is all zeros."""

    listed: str
    dtype: ClassVar[str] = "S24"

    def encode(self, values: np.ndarray) -> np.ndarray:
        """A column for each category."""
        names = np.array([name.encode() for name in self.listed.split(", ")])
        return (values[:, None] == names).astype(np.float64)


@dataclass(frozen=True)
class Left:
    """A column that is left out, and why."""

    why: str
    dtype: ClassVar[str] = "S24"


@dataclass(frozen=True)
class Target:
    """The target: the category that counts as +1, or the public bounds of a number."""

    positive: str | None = None
    bounds: tuple[float, float] | None = None

    @property
    def dtype(self) -> str:
        """How the column is read."""
        return "f8" if self.positive is None else "S24"


Column = Number | Clock | OneOf | Left | Target


@dataclass(frozen=True)
class Source:
    """Text files and how to read them; ``a.zip/b`` is a member of a zip file."""

    files: tuple[str, ...]
    columns: dict[str, Column]
    delimiter: str = ","
    header: int = 1
    marks: tuple[float, ...] | None = None  # a further column: one value for each file


def _repeat(names: str, column: Column) -> dict[str, Column]:
    return dict.fromkeys(names.split(), column)


_YES, _TWO = OneOf("yes"), OneOf("0, 1")
_RATE, _COUNT = Number(0, 1), Number(0, 100)

SOURCES: dict[str, Source] = {
    "bank": Source(
        ("bank/bank.zip/bank-full.csv",),
        {
            "age": Number(18, 100),
            "job": OneOf(
                "admin., unemployed, management, housemaid, entrepreneur, student, blue-collar, "
                "self-employed, retired, technician, services"
            ),
            "marital": OneOf("divorced, single"),
            "education": OneOf("secondary, primary, tertiary"),
            "default": _YES,
            "balance": Log(-10_000, 200_000),
            "housing": _YES,
            "loan": _YES,
            "contact": OneOf("telephone, cellular"),
            "day": Number(1, 31),
            "month": OneOf("feb, mar, apr, may, jun, jul, aug, sep, oct, nov, dec"),
            "duration": Log(0, 7_200),
            "campaign": Log(1, 100),
            "pdays": Log(-1, 1_000),
            "previous": Log(0, 100),
            "poutcome": OneOf("other, failure, success"),
            "y": Target("yes"),
        },
        delimiter=";",
    ),
    "credit-default": Source(
        ("credit-default/UCI_Credit_Card.csv.xz",),
        {
            "ID": Left("a running number"),
            "LIMIT_BAL": Log(10_000, 1_000_000),
            "SEX": OneOf("1, 2"),
            "EDUCATION": OneOf("0, 1, 2, 3, 4, 5, 6"),
            "MARRIAGE": OneOf("0, 1, 2, 3"),
            "AGE": Number(18, 100),
            **_repeat("PAY_0 PAY_2 PAY_3 PAY_4 PAY_5 PAY_6", Number(-2, 9)),
            **_repeat(" ".join(f"BILL_AMT{i}" for i in range(1, 7)), Log(-1_000_000, 1_000_000)),
            **_repeat(" ".join(f"PAY_AMT{i}" for i in range(1, 7)), Log(0, 1_000_000)),
            "default": Target("1"),
        },
    ),
    "wine-quality": Source(
        ("wine-quality/winequality-red.csv", "wine-quality/winequality-white.csv"),
        {
            "fixed acidity": Number(3, 16),
            "volatile acidity": Number(0, 2),
            "citric acid": Number(0, 2),
            "residual sugar": Log(0, 100),
            "chlorides": Log(0, 1),
            "free sulfur dioxide": Log(0, 300),
            "total sulfur dioxide": Log(0, 500),
            "density": Number(0.98, 1.04),
            "pH": Number(2.5, 4.5),
            "sulphates": Number(0, 2),
            "alcohol": Number(8, 15),
            "quality": Target(bounds=(0, 10)),
        },
        delimiter=";",
        marks=(1.0, 0.0),
    ),
    "bike-sharing": Source(
        ("bike-sharing/Bike-Sharing-Dataset.zip/hour.csv",),
        {
            "instant": Left("a running number"),
            "dteday": Left("the date; season, month and weekday stay"),
            "season": OneOf("1, 2, 3, 4"),
            "yr": _TWO,
            "mnth": OneOf(", ".join(map(str, range(1, 13)))),
            "hr": OneOf(", ".join(map(str, range(24)))),
            "holiday": _TWO,
            "weekday": OneOf("0, 1, 2, 3, 4, 5, 6"),
            "workingday": _TWO,
            "weathersit": OneOf("1, 2, 3, 4"),
            **_repeat("temp atemp hum windspeed", Number(0, 1)),
            "casual": Left("part of the target"),
            "registered": Left("part of the target"),
            "cnt": Target(bounds=(0, 1_000)),
        },
    ),
    "banknote": Source(
        ("banknote/data_banknote_authentication.txt",),
        {
            "variance": Number(-8, 8),
            "skewness": Number(-16, 16),
            "curtosis": Number(-20, 20),
            "entropy": Number(-10, 10),
            "class": Target("1"),
        },
        header=0,
    ),
    "occupancy": Source(
        ("occupancy/datatraining.txt.xz",),
        {
            "row": Left("a running number"),
            "date": Clock(),
            "Temperature": Number(15, 30),
            "Humidity": Number(0, 100),
            "Light": Number(0, 2_000),
            "CO2": Number(300, 2_500),
            "HumidityRatio": Number(0, 0.02),
            "Occupancy": Target("1"),
        },
    ),
    "kddcup99": Source(
        ("kddcup99/kddcup.data_10_percent.gz",),
        {
            "duration": Log(0, 100_000),
            **_repeat("protocol_type service flag", Left("symbolic")),
            **_repeat("src_bytes dst_bytes", Log(0, 1e9)),
            "land": Left("symbolic"),
            "wrong_fragment": Number(0, 3),
            "urgent": Number(0, 15),
            "hot": _COUNT,
            "num_failed_logins": Number(0, 5),
            "logged_in": Left("symbolic"),
            "num_compromised": Log(0, 10_000),
            "root_shell": Number(0, 1),
            "su_attempted": Number(0, 2),
            "num_root": Log(0, 10_000),
            "num_file_creations": _COUNT,
            "num_shells": Number(0, 5),
            "num_access_files": Number(0, 10),
            "num_outbound_cmds": Number(0, 10),
            **_repeat("is_host_login is_guest_login", Left("symbolic")),
            **_repeat("count srv_count", Number(0, 511)),
            **_repeat("serror srv_serror rerror srv_rerror same_srv diff_srv diff_host", _RATE),
            **_repeat("dst_host_count dst_host_srv_count", Number(0, 255)),
            **_repeat("same_srv2 diff_srv2 same_port2 diff_host2", _RATE),
            **_repeat("serror2 srv_serror2 rerror2 srv_rerror2", _RATE),
            "label": Target("normal."),
        },
        header=0,
    ),
}

NAMES = (*SOURCES, "mnist", "adult")


def folder() -> Path:
    """The folder of the data: the environment variable DISCREET_DATA."""
    if "DISCREET_DATA" not in os.environ:
        raise SystemExit("say where the data is: DISCREET_DATA=FOLDER")
    return Path(os.environ["DISCREET_DATA"])


def load(name: str, where: Path | None = None, *, raw: bool = False) -> Data:
    """Read and encode a data set.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    where : Path, optional
        The folder of the data, `folder()` if not given.
    raw : bool
        Leave numbers as they are, for studies that scale rows; ``max_norm`` is then infinite.
    """
    where = where or folder()
    if name == "adult":
        X, y = adult.load(where)
        return Data(X, 2.0 * y - 1, float(np.sqrt(len(adult.COLUMNS))))
    if name == "mnist":
        return _mnist(where / "mnist", raw)
    if name not in SOURCES:
        raise SystemExit(f"unknown data set {name!r}; known: {', '.join(NAMES)}")
    source = SOURCES[name]
    parts = [_read(where, file, source) for file in source.files]
    encoded, y, bounds = [], np.empty(0), None
    for field, column in source.columns.items():
        values = np.concatenate([part[field] for part in parts])
        if isinstance(column, Target):
            bounds = column.bounds
            y = values if column.positive is None else _signs(values, column.positive)
        elif not isinstance(column, Left):
            as_is = raw and isinstance(column, Number)
            encoded.append(values[:, None] if as_is else column.encode(values))
    if source.marks is not None:
        encoded.append(np.repeat(source.marks, [len(part) for part in parts])[:, None])
    max_norm = np.inf if raw else float(np.sqrt(len(encoded)))
    return Data(np.hstack(encoded), np.array(y, dtype=np.float64), max_norm, bounds)


def _signs(values: np.ndarray, positive: str) -> np.ndarray:
    return np.where(values == positive.encode(), 1.0, -1.0)


def _read(where: Path, file: str, source: Source) -> np.ndarray:
    """The records of one file, a field for each column."""
    dtype = [(name, column.dtype) for name, column in source.columns.items()]
    with _open(where, file) as lines:
        return np.loadtxt(
            lines,
            dtype=dtype,
            delimiter=source.delimiter,
            skiprows=source.header,
            quotechar='"',
            comments=None,
            ndmin=1,
        )


def _open(where: Path, file: str) -> io.TextIOBase:
    """A text file as it is, compressed, or a member of a zip file; any kind of line end."""
    archive, inside, member = file.partition(".zip/")
    if inside:
        with zipfile.ZipFile(where / f"{archive}.zip") as zipped:
            return io.TextIOWrapper(io.BytesIO(zipped.read(member)), "latin1")
    opener = {".xz": lzma.open, ".gz": gzip.open}.get(Path(file).suffix, open)
    return opener(where / file, "rt", encoding="latin1")


def _mnist(where: Path, raw: bool) -> Data:
    """The training images as rows of 784 grey levels in [0, 1], digit 0 against the rest."""
    with gzip.open(where / "train-images-idx3-ubyte.gz") as file:
        file.read(16)
        pixels = np.frombuffer(file.read(), dtype=np.uint8).reshape(-1, 784)
    with gzip.open(where / "train-labels-idx1-ubyte.gz") as file:
        file.read(8)
        digits = np.frombuffer(file.read(), dtype=np.uint8)
    X = pixels.astype(np.float64) if raw else pixels / 255.0
    return Data(X, np.where(digits == 0, 1.0, -1.0), np.inf if raw else 28.0)


def main() -> None:
    """Print the shape of every data set, and what its targets are."""
    print("| data | n | d | max. norm | target |\n|---|---:|---:|---:|---|")
    for name in NAMES:
        data = load(name)
        target = f"{(data.y > 0).sum():,} positive"
        if data.target_bounds:
            target = f"real in {data.target_bounds}, sum {data.y.sum():,.0f}"
        n, d = data.X.shape
        print(f"| {name} | {n:,} | {d} | {data.max_norm:.3f} | {target} |", flush=True)


if __name__ == "__main__":
    main()
