"""Kinds of columns: the public content of each, and the encoded columns that follow from it.

A column is declared from public knowledge: a codebook, a form, limits of what can be measured. The
declaration alone determines the encoded columns, so encoding a row costs no privacy. Every column
becomes one *group* of encoded columns, or several if it is a date with parts. A row fills at most
one column of a group with a number in [0, 1]; so a row of k groups has norm at most √k.
"""

from __future__ import annotations

import datetime
import difflib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from discreet.tables.messages import quoted
from discreet.validate import FloatArray, check_declared, check_fields, display, integer, number

MISSING = "(missing)"
"""Encoded column that marks missing cells."""

OTHER = "(other)"
"""Encoded column of texts that are not listed."""

SPACES = " \t\n\r\v\f\u00a0"
"""Letters that are stripped from both ends of a cell before it is compared."""

ORIGIN = datetime.datetime(2000, 1, 1)
"""Public date from which days are counted."""

DAYS_PER_YEAR = 365.2425
"""Mean length of a year of the Gregorian calendar."""

DATE_PARTS: dict[str, tuple[str, ...]] = {
    "month": ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
    "weekday": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
    "hour": tuple(map(str, range(24))),
}
"""Parts of a date that have levels, and the levels of each."""

_FROM_CODEBOOK = "public knowledge, e.g. from the codebook"


class Piece(NamedTuple):
    """One group of encoded columns: its name, its kind, and the part of a date that it encodes."""

    name: str
    column: Column
    part: str = ""


class Column:
    """Base class of all kinds of columns."""

    kind: ClassVar[str]  # in a schema file: the name of the class in lower case
    missing: bool = False
    width: int  # number of encoded columns

    def __init_subclass__(cls) -> None:
        cls.kind = cls.__name__.lower()

    def __post_init__(self) -> None:
        check_declared(self)
        object.__setattr__(self, "width", len(self.feature_names("")))

    def feature_names(self, name: str) -> list[str]:
        """Return the names of the encoded columns of a column called ``name``."""
        names = self._encoded_names(name)
        return [*names, f"{name}={MISSING}"] if self.missing else names

    def _encoded_names(self, name: str) -> list[str]:
        return [name]

    def pieces(self, name: str) -> tuple[Piece, ...]:
        """Return the groups of encoded columns of a column called ``name``."""
        return (Piece(name, self),)


@dataclass(frozen=True)
class Numeric(Column):
    """A column of numbers between public bounds; numbers outside are clipped to them.

    A cell v becomes (s(v) - s(low)) / (s(high) - s(low)), in [0, 1], where s is the scale. A NaN
    counts as missing, an infinite number is clipped. Without bounds the column becomes s(v), and
    the fit has to find bounds with part of its budget.

    Parameters
    ----------
    low, high : float or None
        Bounds of every cell that may occur, known without reading the rows; or both None.
    scale : {"linear", "sqrt", "log"}
        s(v) = v, sign(v)·√|v| or sign(v)·log(1 + |v|); the last two are for heavy tails.
    missing : bool
        Accept missing cells. They are marked in an indicator column, and the number is then 0.
    invalid : {"refuse", "missing"}
        Treatment of a cell that is not a number: stop, or count it as missing.
    shape : {"smooth", "linear", "bins"}
        Effect of the column in a model that has `Schema.numeric`: a smooth curve or steps, as far
        as the budget of the fit allows, or a straight line.
    integer : bool
        The column holds whole numbers, such as counts. Its bounds must be whole, and bounds that
        are estimated privately are.
    gaps : {"refuse", "average"}
        Treatment of missing cells without ``missing``: stop, or encode them as NaN, which a model
        of a table scores as the average of the column.
    """

    low: float | None = None
    high: float | None = None
    scale: Literal["linear", "sqrt", "log"] = "linear"
    missing: bool = False
    invalid: Literal["refuse", "missing"] = "refuse"
    shape: Literal["smooth", "linear", "bins"] = "smooth"
    integer: bool = False
    gaps: Literal["refuse", "average"] = "refuse"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_invalid(self)
        if self.low is None and self.high is None:
            return
        low, high = check_bounds(self)
        if self.integer and not (float(low).is_integer() and float(high).is_integer()):
            raise ValueError(
                f"integer = true needs whole bounds; got low = {low:g} and high = {high:g}."
            )
        span = float(self.scaled(high)) - float(self.scaled(low))
        if not 0.0 < span < math.inf:
            raise ValueError(
                f"low = {low:g} and high = {high:g} are too close or too far apart for floating "
                f'point numbers at scale = "{self.scale}".'
            )

    @property
    def is_bounded(self) -> bool:
        """True if public bounds are given."""
        return self.low is not None

    def scaled(self, values: Any) -> FloatArray:
        """Apply the scale s to each number."""
        found: FloatArray = np.asarray(values, dtype=np.float64)
        if self.scale == "linear":
            return found
        size = np.sqrt(np.abs(found)) if self.scale == "sqrt" else np.log1p(np.abs(found))
        return np.asarray(np.copysign(size, found))

    def decoded(self, values: Any) -> FloatArray:
        """Return the numbers that are encoded as these; the inverse of the encoding."""
        values = np.asarray(values, dtype=np.float64)
        if self.is_bounded:
            least, most = self.scaled([self.low, self.high])
            values = least + values * (most - least)
        if self.scale == "linear":
            return np.asarray(values, dtype=np.float64)
        size = values**2 if self.scale == "sqrt" else np.expm1(np.abs(values))
        return np.asarray(np.copysign(size, values), dtype=np.float64)


@dataclass(frozen=True)
class Categorical(Column):
    """A column of texts from a public list, one-hot encoded.

    Parameters
    ----------
    values : sequence of str
        Every text that can occur, known without reading the rows; spaces around it are ignored.
    unseen : {"average", "other", "refuse"}
        Treatment of a text that is not listed: all columns are 0, which a model of a table scores
        as the average over the levels, and counts; a column "(other)"; or stop.
    missing : bool
        Add a column "(missing)" for missing cells. Without it they are treated like a text that is
        not listed if that is "average", and refused otherwise, unless ``gaps`` averages them.
    prefix : int, optional
        Number of letters of a cell that are compared: with 3, "250.83" is read as "250".
    reference : str, optional
        The listed text that coefficients of the others are compared with; by default the first.
    gaps : {"refuse", "average"}
        Treatment of missing cells where no other setting accepts them: stop, or score them as the
        average over the levels.

    Examples
    --------
    >>> from discreet.tables import Categorical
    >>> Categorical(["A", "B", "C"], reference="B").reference_level
    'B'
    """

    values: Texts
    unseen: Literal["other", "average", "refuse"] = "average"
    missing: bool = False
    prefix: Letters | None = None
    reference: Text | None = None
    gaps: Literal["refuse", "average"] = "refuse"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.values:
            raise ValueError(
                f'fill in values = ["…", …] ({_FROM_CODEBOOK}), or values_file = "FILE.txt" with '
                'one value per line; or write kind = "hashed" for many values without a list.'
            )
        if self.prefix is not None and (long := [v for v in self.values if len(v) > self.prefix]):
            raise ValueError(
                f"prefix = {self.prefix} compares that many letters, but {quoted(long)} has more; "
                "shorten the values."
            )
        if self.reference is not None:
            reference = self.reference.strip(SPACES)
            object.__setattr__(self, "reference", reference)
            if reference not in self.values:
                near = nearest(reference, self.values)
                raise ValueError(f"reference = {reference!r} is not among the values; {near}")
        for text, taken in ((OTHER, self.unseen == "other"), (MISSING, self.missing)):
            if taken and text in self.values:
                raise ValueError(f"the value {text!r} is the name of a column that is added.")

    def _encoded_names(self, name: str) -> list[str]:
        texts = (*self.values, OTHER) if self.unseen == "other" else self.values
        return [f"{name}={text}" for text in texts]

    @property
    def reference_level(self) -> str:
        """The text that others are compared with: the declared reference, or the first."""
        return self.values[0] if self.reference is None else self.reference


@dataclass(frozen=True)
class Hashed(Column):
    """A column of many texts without a public list, such as codes: hashed, then one-hot encoded.

    Parameters
    ----------
    buckets : int
        Number of encoded columns, 2 to 100,000. Texts that share a bucket share its weight; about
        twice the number of frequent texts keeps most of them apart.
    prefix : int, optional
        Number of letters of a cell that are hashed: with 3, "250.83" is read as "250".
    missing : bool
        Accept missing cells, and add a column "(missing)" for them.
    gaps : {"refuse", "average"}
        Treatment of missing cells without ``missing``: stop, or leave all columns at 0, which a
        model of a table scores as the average over the buckets.
    """

    buckets: Annotated[int, partial(integer, least=2, most=100_000)] = 64
    prefix: Letters | None = None
    missing: bool = False
    gaps: Literal["refuse", "average"] = "refuse"

    def _encoded_names(self, name: str) -> list[str]:
        return [f"{name}#{bucket}" for bucket in range(self.buckets)]


@dataclass(frozen=True)
class Boolean(Column):
    """A column of yes and no, encoded as 1 and 0. Upper and lower case do not matter.

    Parameters
    ----------
    true, false : sequence of str
        The texts that mean yes, and those that mean no. Any other is refused.
    missing : bool
        Accept missing cells. They are marked in an indicator column, and the number is then 0.
    gaps : {"refuse", "average"}
        Treatment of missing cells without ``missing``, as in `Numeric`.
    """

    true: Texts = ("true", "yes", "1", "t", "y")
    false: Texts = ("false", "no", "0", "f", "n")
    missing: bool = False
    gaps: Literal["refuse", "average"] = "refuse"

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("true", "false"):
            if not getattr(self, field):
                raise ValueError(f'fill in {field} = ["…"], the texts that mean {field}.')
        if both := {text.lower() for text in self.true} & {text.lower() for text in self.false}:
            raise ValueError(
                f"{quoted(sorted(both))} means both true and false (case does not matter); "
                "take it out of one list."
            )


@dataclass(frozen=True)
class Ordinal(Column):
    """A column of texts that have an order; the i-th of k becomes (i - 1) / (k - 1).

    Parameters
    ----------
    values : sequence of str
        Every text that can occur, from the least to the greatest. Any other is refused.
    missing : bool
        Accept missing cells. They are marked in an indicator column, and the number is then 0.
    gaps : {"refuse", "average"}
        Treatment of missing cells without ``missing``, as in `Numeric`.
    """

    values: Texts
    missing: bool = False
    gaps: Literal["refuse", "average"] = "refuse"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.values) < 2:
            raise ValueError(
                f'fill in values = ["least", …, "greatest"], two at least ({_FROM_CODEBOOK}).'
            )


def check_date(field: str, value: Any) -> str:
    """Return a date or time, given as such or as ISO text, as ISO text without a time zone.

    A time with a zone is converted to UTC.
    """
    found = value
    if isinstance(value, str):
        try:
            found = datetime.datetime.fromisoformat(value.strip(SPACES))
        except ValueError:
            found = None
    if not isinstance(found, datetime.date):
        raise ValueError(f'{field} must be a date such as "2015-01-31"; got {display(value)}.')
    return _moment(found).isoformat().removesuffix("T00:00:00")


def _moment(value: datetime.date) -> datetime.datetime:
    """Return a date or time as a time without a zone; one with a zone is converted to UTC."""
    if not isinstance(value, datetime.datetime):
        return datetime.datetime(value.year, value.month, value.day)
    if value.tzinfo is None:
        return value
    return value.astimezone(datetime.UTC).replace(tzinfo=None)


def _check_invalid(column: Numeric | Date) -> None:
    """Refuse to count texts as missing cells where those are refused."""
    if column.invalid == "missing" and not column.missing and column.gaps == "refuse":
        raise ValueError('invalid = "missing" needs missing = true or gaps = "average".')


def _check_parts(field: str, values: Any) -> tuple[str, ...]:
    """Return the names of parts of a date."""
    found = check_texts(field, values)
    if unknown := [part for part in found if part not in DATE_PARTS]:
        raise ValueError(f"{field} has {quoted(unknown)}; {nearest(unknown[0], DATE_PARTS)}")
    return found


@dataclass(frozen=True)
class Date(Column):
    """A column of dates or times: a trend, and levels of parts of the date.

    The trend is the number of days since 2000-01-01, with fractions for times, and is encoded as
    `Numeric` is: as (t - low) / (high - low) between public bounds, else as it is. Times without a
    zone are taken as they are, times with a zone are converted to UTC. Cells are dates or times of
    pandas, polars or Arrow, or texts.

    Parameters
    ----------
    low, high : date or str, optional
        Public bounds, as dates or ISO texts such as "2015-01-31". Dates outside are clipped to
        them. Without bounds the fit has to find the unit of the trend with part of its budget.
    parts : sequence of {"month", "weekday", "hour"}
        Parts of the date that are levels of their own, in addition to the trend. Their levels are
        known: Jan to Dec, Mon to Sun, 0 to 23.
    per : {"day", "year"}
        Unit of the trend: a coefficient is for a day, or for a year of 365.2425 days.
    missing : bool
        Accept missing cells. They are marked in an indicator column; the trend is then 0, and no
        part has a level.
    invalid : {"refuse", "missing"}
        Treatment of a cell that is not a date: stop, or count it as missing.
    format : str, optional
        Form of texts, as in ``datetime.strptime``: "%d.%m.%Y". By default ISO 8601.
    shape : {"linear", "smooth", "bins"}
        Effect of the trend, as in `Numeric`.
    gaps : {"refuse", "average"}
        Treatment of missing cells without ``missing``, as in `Numeric`.
    """

    low: Moment | None = None
    high: Moment | None = None
    parts: Annotated[tuple[str, ...], _check_parts] = ()
    per: Literal["day", "year"] = "day"
    missing: bool = False
    invalid: Literal["refuse", "missing"] = "refuse"
    format: Text | None = None
    shape: Literal["linear", "smooth", "bins"] = "linear"
    gaps: Literal["refuse", "average"] = "refuse"

    def __post_init__(self) -> None:
        check_declared(self)
        low = self.low
        high = self.high
        if (low is None) != (high is None):
            raise ValueError("give both low and high, or neither.")
        _check_invalid(self)
        if low is not None and high is not None and self.number_of(low) >= self.number_of(high):
            raise ValueError(f"low must be before high; got low = {low} and high = {high}.")
        super().__post_init__()

    @property
    def trend(self) -> Numeric:
        """The number that is encoded: days, or years, since 2000-01-01."""
        low = None if self.low is None else self.number_of(self.low)
        high = None if self.high is None else self.number_of(self.high)
        return Numeric(
            low,
            high,
            missing=self.missing,
            invalid=self.invalid,
            shape=self.shape,
            gaps=self.gaps,
        )

    def number_of(self, moment: str) -> float:
        """Return a date or time, as ISO text without a zone, as a number of the trend."""
        days = (datetime.datetime.fromisoformat(moment) - ORIGIN) / datetime.timedelta(days=1)
        return days if self.per == "day" else days / DAYS_PER_YEAR

    def date_of(self, number: float) -> str:
        """Return the day of a number of the trend, as ISO text; "" beyond the calendar."""
        days = number if self.per == "day" else number * DAYS_PER_YEAR
        try:
            return (ORIGIN + datetime.timedelta(days=days)).date().isoformat()
        except (OverflowError, ValueError):
            return ""

    def pieces(self, name: str) -> tuple[Piece, ...]:
        """Return the trend, and the levels of each part, called ``name.month`` and so on."""
        levels = (
            Piece(f"{name}.{part}", Categorical(DATE_PARTS[part], unseen="average"), part)
            for part in self.parts
        )
        return (Piece(name, self.trend, "trend"), *levels)

    def feature_names(self, name: str) -> list[str]:
        """Return the names of the encoded columns of a column called ``name``."""
        pieces = self.pieces(name)
        return [each for piece in pieces for each in piece.column.feature_names(piece.name)]


@dataclass(frozen=True)
class Discovered(Column):
    """A column of texts whose levels a fit finds within its own budget; see `discreet.discover`.

    Until then it cannot be encoded. A fitted model has a `Categorical` in its place, or an
    `Ignored` column if no level was frequent enough.

    Parameters
    ----------
    share : float
        Share of the fit's μ² and of its δ that finding the levels may spend.
    prefix : int, optional
        Number of letters of a cell that are compared: with 3, "250.83" is read as "250".
    most : int, optional
        Number of levels to keep: those with the largest noisy counts. By default all are kept.
    """

    share: Annotated[float, partial(number, above=0.0, below=1.0)] = 0.05
    prefix: Letters | None = None
    most: Letters | None = None

    def pieces(self, name: str) -> tuple[Piece, ...]:
        """Return one group with one level, which stands for those to be found."""
        return (Piece(name, Categorical(("?",), unseen="average", prefix=self.prefix)),)

    def _encoded_names(self, name: str) -> list[str]:
        return [f"{name}=?"]


@dataclass(frozen=True)
class Ignored(Column):
    """A column that is not read.

    Parameters
    ----------
    reason : str
        Why, for a person who reads the schema.
    """

    reason: Text = ""

    def _encoded_names(self, name: str) -> list[str]:
        return []


KINDS: dict[str, type[Column]] = {
    column.kind: column
    for column in (Numeric, Categorical, Hashed, Boolean, Ordinal, Date, Discovered, Ignored)
}


def repeated(texts: Iterable[str]) -> list[str]:
    """Return the texts that occur more than once."""
    return [text for text, times in Counter(texts).items() if times > 1]


def nearest(text: str, known: Iterable[str]) -> str:
    """Suggest the known word that was meant, as the end of a message."""
    known = list(known)
    close = difflib.get_close_matches(text, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {quoted(known)}."


def check_text(field: str, value: Any) -> str:
    """Return a string that can be written to a file."""
    if not isinstance(value, str):
        raise ValueError(f"{field} must be a text in quotes; got {display(value)}.")
    if "\x00" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ValueError(f"{field} holds a character that no file can hold: {value!r}.")
    return value


def check_texts(field: str, values: Any, *, stripped: bool = True) -> tuple[str, ...]:
    """Return a list of distinct strings as a tuple, without the spaces around them."""
    # A set is refused because the order of the columns would not be that of the declaration.
    if isinstance(values, (str, bytes, Set, Mapping)) or not isinstance(values, Iterable):
        raise ValueError(f"{field} must be a list of texts; got {display(values)}.")
    texts = tuple(check_text(field, value) for value in values)
    if stripped:
        texts = tuple(text.strip(SPACES) for text in texts)
    if len(set(texts)) < len(texts):
        raise ValueError(f"{field} lists {quoted(repeated(texts))} more than once.")
    return texts


Text: TypeAlias = Annotated[str, check_text]
Texts: TypeAlias = Annotated[tuple[str, ...], check_texts]
Letters: TypeAlias = Annotated[int, integer]  # a number of letters, or of levels
Moment: TypeAlias = Annotated[str, check_date]  # a date or time, as ISO text


def check_bounds(owner: Any) -> tuple[float, float]:
    """Check the fields ``low`` and ``high``: both given, finite and in order."""
    for field in ("low", "high"):
        if getattr(owner, field) is None:
            raise ValueError(f"{field} is not filled in ({_FROM_CODEBOOK}).")
    check_fields(owner, number, "low", "high")
    low, high = owner.low, owner.high
    if not low < high:
        raise ValueError(f"low must be below high; got low = {low:g} and high = {high:g}.")
    return low, high


# Hints about columns in drafts: what their names, which are public, or a caller say about them.
Kind: TypeAlias = Literal["numeric", "categorical", "boolean", "ignored", "hashed", "date"]

IDENTIFIER = "its name is that of an identifier"

_ROW_NUMBER = re.compile(  # names of a row's number, as tools write them; one has none
    r"(#|n[or]\.?|index|unnamed: ?\d+|row|(row|line|record)[ _.-]?(id|n[or]|num|number|names?))?",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_IDENTIFIERS = {
    "nbr", "uuid", "guid", "ssn", "mrn", "nhs", "passport", "email", "phone", "telephone", "url",
}  # fmt: skip
_CODES = {
    "icd", "diag", "diagnosis", "dx", "zip", "zipcode", "postal", "postcode", "plz", "code",
    "codes", "naics", "sic", "isco", "fips", "drg", "cpt", "atc", "ndc", "id",
}  # fmt: skip
_PEOPLE = {
    "patient", "person", "subject", "user", "customer", "client", "member", "household", "pupil",
    "student", "employee", "patienten", "kunde", "kunden", "participant", "respondent", "donor",
    "resident", "ssn", "mrn", "nhs",
}  # fmt: skip


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def is_identifier(name: str) -> bool:
    """Return True if a name is that of an identifier: patient_id, encounter_nbr, email, row, #."""
    words = _words(name)
    if _ROW_NUMBER.fullmatch(name.strip()):
        return True
    if len(words) == 1 and words[0] in _PEOPLE - _IDENTIFIERS:
        return False  # it may say whether somebody is a member
    return words == ["id"] or not _IDENTIFIERS.isdisjoint(words[-1:]) or may_be_unit(name)


def may_be_unit(name: str) -> bool:
    """Return True if a name says whose row a row is: Patient, patient_nbr, userId, ssn."""
    words = _words(name)
    if len(words) == 1 and words[0] in _PEOPLE:
        return True
    last = {*_IDENTIFIERS, "id", "ids", "no", "nr", "num", "number", "nummer", "key"}
    return not last.isdisjoint(words[-1:]) and not _PEOPLE.isdisjoint(words)


def is_code(name: str) -> bool:
    """Return True if a name is that of a code, whose digits are no quantity: icd9, zip_code."""
    return bool(_CODES & set(_words(name)))


@dataclass(frozen=True)
class Hint:
    """A caller's statement about a column: its kind, and the letters by which it is grouped."""

    kind: Kind | None = None
    prefix: int | None = None


def given_hints(
    kinds: Mapping[str, Any] | None, prefixes: Mapping[str, Any] | None
) -> dict[str, Hint]:
    """Check a caller's statements about columns."""
    known = [kind for kind in KINDS if kind not in ("ordinal", "discovered")]
    found: dict[str, Hint] = {}
    for name, kind in (kinds or {}).items():
        if kind not in known:
            raise ValueError(
                f"the kind of column {name!r} is {display(kind)}; {nearest(str(kind), known)}"
            )
        found[name] = Hint(kind)
    for name, prefix in (prefixes or {}).items():
        kind = found.get(name, Hint("categorical")).kind
        if kind not in ("categorical", "hashed"):
            raise ValueError(f"a prefix groups texts; column {name!r} is to be {kind}.")
        found[name] = Hint(kind, integer(f"the prefix of {name!r}", prefix, least=1))
    return found
