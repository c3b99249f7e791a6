"""Drafts of a schema: the layout of a file, with gaps to fill in or with private estimates.

`draft` writes a schema with gaps for a person to fill in from a codebook. `draft_private` fills
them with private estimates instead, at a cost that the schema then carries.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from discreet.core import Budget, Relation
from discreet.errors import TableError
from discreet.ledger import Dataset
from discreet.tables import columns
from discreet.tables.cell_rows import CellBlock
from discreet.tables.cell_rules import as_number
from discreet.tables.csv_files import EMPTY, TextPart, TextStream
from discreet.tables.dates import is_date
from discreet.tables.declarations import to_plain, toml_text
from discreet.tables.encoder import family
from discreet.tables.estimate import Estimate, Task
from discreet.tables.messages import Refusal, arrow, door, instead, joined
from discreet.tables.parts import DAMAGED, Request
from discreet.tables.reader import batches
from discreet.tables.schema import AVERAGED, VERSION, FileFormat, Schema
from discreet.tables.source import Source, source
from discreet.validate import flag

FIRST_RECORDS = 1000
"""Records of a text file from which the kinds of its columns are guessed."""

_DELIMITERS = (",", ";", "\t", "|")

_ABOUT = f"""\
Schema of a table, for discreet: what is publicly known about each column.
Fill in what is marked, from a codebook or a form, and uncomment it. Do not look it up in the
rows: bounds taken from them give away the most extreme people, lists of values the rare ones.

Kinds: "numeric" (low and high, or bounds = "private" to spend part of a fit's budget on them),
"categorical" (values, or values_file = "FILE.txt" with one value per line), "hashed" (many
values, without a list), "boolean", "ordinal" (values, in order), "date" (low and high if they
are public; parts = ["month"], "weekday" or "hour" for levels) and "ignored".
{AVERAGED}"""

_FIRST_LINE = """
The names of the columns are the first line of the file, which becomes public with this schema."""

_GUESSED = f"""
Which columns hold numbers was guessed from the first {FIRST_RECORDS} records of the file. That is
a look at the data, which no budget covers: check every kind against the codebook."""

_MAY_BE_UNIT = """
If {} says whose row a row is, draft again with --unit:
people are then protected with all of their rows."""

_ALL_DIFFERENT = "each of the first records has another text, as in an identifier or a free text"

_UNNAMED = """
Only the names of the columns were read. Fill in the kind of each."""

_MISSING = "missing = true     # for an effect of empty cells, in place of their average"

_GAPS: dict[columns.Kind | None, tuple[str, ...]] = {
    "numeric": (
        "low =              # fill in: the least value that can occur, whatever the rows hold",
        "high =             # fill in: the greatest",
        'scale = "log"      # for numbers with a heavy tail, such as amounts of money',
        _MISSING,
    ),
    "categorical": (
        'values = ["", ""]  # fill in: every text that can occur, whatever the rows hold',
        _MISSING,
    ),
    "boolean": (_MISSING,),
    "hashed": (
        "buckets = 64       # number of encoded columns: about twice that of frequent texts",
        "prefix = 3         # to use the first letters of a code only",
        _MISSING,
    ),
    "date": (
        "low = 2000-01-01   # if it is public: the earliest date that can occur",
        "high = 2030-12-31  # the latest",
        'parts = ["month"]  # also "weekday", "hour": levels besides the trend',
        _MISSING,
    ),
    "ignored": (),
    None: ('kind = "numeric"   # fill in, then its low and high, or values = ["", …]',),
}

_CODE_GAPS = (
    'values_file = "codes.txt"   # or fill in a file with one code per line; with',
    "prefix = 3         # only the first letters of a code are compared; without any list:",
    'kind = "hashed"    # in place of "categorical"',
)

_TARGET_GAPS = (
    'classes = ["", ""] # fill in: the classes, as the cells name them; or, for a number,',
    "low =              # fill in: the least value that can occur",
    "high =             # fill in: the greatest",
)


@dataclass(frozen=True)
class Layout:
    """Columns of a source, in order, known before a record is read, and the caller's part in them.

    A text file states neither the kinds of its columns nor the number of rows; ``reasons`` say why
    a column of another source cannot be used, and ``whole`` names its columns of whole numbers.
    """

    names: tuple[str, ...]
    file: FileFormat
    kinds: dict[str, columns.Kind] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()
    source: Source = field(default_factory=lambda: Source(()))
    hints: dict[str, columns.Hint] = field(default_factory=dict)
    target: str | None = None
    unit: str | None = None
    dates: str | None = None

    @property
    def names_in_first_line(self) -> bool:
        """True if the names were read from the first line of a text file."""
        return not self.kinds and self.file.header

    def reading(self, wanted: dict[str, columns.Column] | None = None) -> Schema:
        """Return a schema that reads some of the columns, or all that hold usable cells."""
        names = [name for name in self.names if name != self.unit]
        if wanted is None:
            usable = [name for name in names if self.kinds.get(name) != "ignored"]
            wanted = {name: columns.Boolean() for name in usable}
        if not wanted:
            raise TableError("No column of this file holds texts, numbers or truth values.")
        file = self.file if self.file.header else replace(self.file, names=self.names)
        read = {name: wanted.get(name, columns.Ignored()) for name in names}
        return Schema(read, file=file, unit=self.unit)

    def check_names(self, *, stated: bool) -> None:
        """Refuse names that repeat, or seem to be cells of a record unless a header is stated."""
        if twice := columns.repeated(self.names):
            if self.names_in_first_line:
                raise Refusal("has columns of the same name. Rename them.")
            raise Refusal("has columns of the same name: {names}. Rename them.", names=twice)
        is_number = any(as_number(name) is not None for name in self.names)
        if self.names_in_first_line and not stated and is_number:
            raise Refusal(
                "the first line holds a number, so it seems to be a record and not the names of "
                "the columns. If so, pass --no-header, or --names a,b,… (names=[…] in Python); if "
                "it does hold the names, pass --header (header=True)."
            )

    def check(self, *, public: bool) -> None:
        """Refuse target, unit or hints that are no columns; show names only if they are public."""
        target = self.target
        unit = self.unit
        if unit is not None and unit not in self.names:
            raise Refusal("there is no column {name} for the unit; check its name.", name=unit)
        if unit is not None and unit == target:
            raise Refusal("{name} cannot be both the target and the unit.", name=unit)
        if target is not None and target not in self.names:
            start = Refusal("there is no column {name} to predict;", name=target)
            raise joined([start, self._hint(target, public)], " ")
        if target in self.reasons:
            start = Refusal("{name} cannot be predicted", name=target)
            raise joined([start, Refusal(self.reasons[target] + ".")], ": ")
        if target is not None and self.kinds.get(target) == "date":
            raise Refusal("{name} cannot be predicted: it holds dates.", name=target)
        if unknown := [name for name in self.hints if name not in self.names]:
            raise Refusal("there is no column {names} to state a kind of.", names=unknown)

    def _hint(self, target: str, public: bool) -> Refusal:
        """Return the end of a refusal of a target: the column that was meant, if it is public."""
        if self.names_in_first_line and not public:
            return Refusal(
                "the names in the first line are not shown, because it may be a record. If it "
                "is, pass --no-header (header=False in Python)."
            )
        if close := difflib.get_close_matches(target, self.names, n=1):
            return Refusal("did you mean {name}?", name=close[0])
        return Refusal("known: {names}.", names=list(self.names))


@dataclass(frozen=True)
class TextForm:
    """A caller's statements about the form of a text file, as in `draft`."""

    delimiter: str | None = None
    encoding: str | None = None
    header: bool | None = None
    names: Sequence[str] | None = None
    missing: Sequence[str] = ()
    decimal: str | None = None
    dates: str | None = None

    def formats(self) -> list[FileFormat]:
        """Return the forms that the file may have: one for each delimiter, if none is stated."""
        plain = FileFormat() if self.encoding is None else FileFormat(encoding=self.encoding)
        if self.missing:
            plain = replace(plain, missing=tuple(dict.fromkeys(("", *self.missing))))
        if self.header is not None:
            plain = replace(plain, header=flag("header", self.header))
        if self.names is not None:
            if self.header:
                raise ValueError("names are for a file without a header: leave out one of the two.")
            plain = replace(plain, header=False, names=columns.check_texts("names", self.names))
        marks = _DELIMITERS if self.delimiter is None else (self.delimiter,)
        return [replace(plain, delimiter=mark, **self._numbers(mark)) for mark in marks]

    def _numbers(self, delimiter: str) -> dict[str, Any]:
        """Return the signs in numbers: where semicolons separate cells, commas are in numbers."""
        decimal = self.decimal or ("," if delimiter == ";" else ".")
        if decimal not in (".", ","):
            raise ValueError(f'decimal must be "." or ","; got {decimal!r}.')
        return {"decimal": ",", "thousands": "."} if decimal == "," else {}


def layout(
    data: Any,
    form: TextForm | None = None,
    *,
    target: str | None = None,
    unit: str | None = None,
    hints: dict[str, columns.Hint] | None = None,
    public: bool = False,
) -> Layout:
    """Read the names of a source's columns and, if it has types, those; no record.

    An error shows names from the first line of a text file only if they are ``public``.
    """
    form = TextForm() if form is None else form
    formats = form.formats()  # checked before a file is opened
    listed = source(data)
    first = listed.parts[0]
    given = {target, unit, *(hints or ()), *(form.names or ())} - {None}
    words = {formats[0].encoding, *(each.delimiter for each in formats)}
    with door(given, words, first.place):
        if isinstance(first, TextPart):
            found = _text_layout(first.place, formats)
        else:
            with instead(DAMAGED if first.stamps else ""):
                fields = first.fields()
            found = _typed_layout(fields, formats[0])
    about: dict[str, Any] = {"target": target, "unit": unit, "dates": form.dates}
    found = replace(found, source=listed, hints=hints or {}, **about)
    shown = public or not found.names_in_first_line
    with door({*given, *found.names} if shown else given, (), first.place):
        found.check_names(stated=form.header is not None)
        found.check(public=public)
    if len(listed.parts) > 1:
        request = Request(found.reading(), target=False, drafting=True)
        with listed.door(request):
            listed.check(request)
    return found


def _text_layout(path: Path, formats: list[FileFormat]) -> Layout:
    """Choose the format that gives most columns, or as many as there are names."""
    best: tuple[str, ...] = ()
    chosen = formats[0]
    for candidate in formats:
        with TextStream(path, candidate, drafting=True) as stream:
            fields = tuple(field.strip(columns.SPACES) for field in stream.first_record() or ())
            stream.check()
        if candidate.names and len(fields) == len(candidate.names):
            return Layout(candidate.names, candidate)
        if len(fields) > len(best):
            best = fields
            chosen = candidate
    stream.check_form()
    if not best:
        raise Refusal(EMPTY)
    if chosen.names:
        raise Refusal(
            "its first line has {fields:field}, but names lists {names}. Name every column, and "
            "check the delimiter.",
            fields=len(best),
            names=len(chosen.names),
        )
    if not chosen.header:
        best = tuple(f"column_{number}" for number in range(1, len(best) + 1))
        chosen = replace(chosen, names=best)
    return Layout(best, chosen)


def _typed_layout(fields: Any, form: FileFormat) -> Layout:
    names: dict[str, columns.Kind] = {
        "numbers": "numeric",
        "texts": "categorical",
        "truth values": "boolean",
    }
    kinds = {
        each.name: "date" if is_date(each.type) else names.get(family(each.type), "ignored")
        for each in fields
    }
    types = {each.name: each.type for each in fields}
    ignored = [name for name, kind in kinds.items() if kind == "ignored"]
    reasons = {
        name: str(Refusal("cells of type {kind} are not read", kind=types[name]))
        for name in ignored
    }
    whole = frozenset(name for name, kind in types.items() if arrow().types.is_integer(kind))
    return Layout(tuple(fields.names), FileFormat(missing=form.missing), kinds, reasons, whole)


def draft(
    path: Any,
    *,
    target: str | None = None,
    unit: str | None = None,
    names_only: bool = False,
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool | None = None,
    names: Sequence[str] | None = None,
    missing: Sequence[str] = (),
    decimal: str | None = None,
    dates: str | None = None,
    kinds: Mapping[str, str] | None = None,
    prefixes: Mapping[str, int] | None = None,
) -> str:
    """Write the text of a schema file, with gaps to fill in from a codebook.

    The text is TOML. `Schema.from_toml` refuses it, and lists what to fill in, until that is done.

    Parameters
    ----------
    path : path or table
        A source that ``schema.open`` takes.
    target, unit : str, optional
        The column to predict, and the one that says whose row a row is.
    names_only : bool
        Read the names of the columns and nothing else, and leave their kinds to fill in.
    delimiter, encoding : str, optional
        Form of a text file: by default the one of comma, semicolon, tab and bar that gives most
        fields in the first line, and UTF-8.
    header : bool, optional
        True if the first line of a text file holds the names of the columns, False if it is a
        record. If None, it is taken for names unless one of them is a number.
    names : sequence of str, optional
        The names of all columns, for a text file without a header; column_1, column_2, … if None.
    missing : sequence of str
        Texts that mean a missing cell, besides the empty one, such as "?".
    decimal : {".", ","}, optional
        Sign before the decimals of numbers in a text file; with "," dots are between thousands. By
        default "," where semicolons separate the cells. The schema states it.
    dates : str, optional
        Form of dates in a text file, as in ``datetime.strptime``: "%d.%m.%Y". By default ISO 8601.
    kinds, prefixes : mapping, optional
        Known kinds of columns, and of columns of codes the number of first letters that group them.
        By default columns named like identifiers are ignored, those like codes ("icd9", "zip") are
        categorical.

    Privacy
    -------
    No bound and no category is taken from the rows, but the first line of a text file becomes
    public if it is taken for names. Types come from the metadata of a Parquet file. The kinds of a
    text file's columns are guessed from its first records, which the text says; with ``names_only``
    no record is read.
    """
    form = TextForm(delimiter, encoding, header, names, missing, decimal, dates)
    hints = columns.given_hints(kinds, prefixes)
    found = layout(path, form, target=target, unit=unit, hints=hints, public=header is True)
    about = _ABOUT + _FIRST_LINE * found.names_in_first_line
    if names_only:
        about += _UNNAMED
        guessed = replace(found, kinds={}, whole=frozenset())
    elif not found.kinds:
        about += _GUESSED
        guessed = _guessed(found)
    else:
        guessed = found
    people = [name for name in found.names if columns.may_be_unit(name) and name != target]
    if unit is None and people:
        about += _MAY_BE_UNIT.format(" or ".join(map(repr, people)))
    plain: dict[str, Any] = {"version": VERSION} | ({} if unit is None else {"unit": unit})
    if settings := to_plain(found.file):
        plain["file"] = settings
    if target is not None:
        plain["target"] = {"column": target}
    gaps: dict[tuple[str, ...], Sequence[str]] = {("target",): _TARGET_GAPS}
    plain["columns"] = {}
    for name in found.names:
        if name not in (target, unit):
            column = plain["columns"][name] = _proposed(guessed, name)
            code = column.get("kind") == "categorical" and columns.is_code(name)
            gaps["columns", name] = (*_CODE_GAPS * code, *_GAPS[column.get("kind")])
    return toml_text(about, plain, gaps)


def _proposed(found: Layout, name: str) -> dict[str, Any]:
    """Return a column of a draft: what the caller, the types or the name say about it."""
    kind = found.kinds.get(name)
    hint = found.hints.get(name, columns.Hint())
    if hint.kind is not None and kind != "ignored":
        prefix = {} if hint.prefix is None else {"prefix": hint.prefix}
        return _of_kind(hint.kind) | prefix
    if name in found.reasons:
        return {"kind": "ignored", "reason": found.reasons[name]}
    if kind is None:
        return {}
    if kind == "date" and found.dates is not None:
        return _of_kind(kind) | {"format": found.dates}
    if columns.is_identifier(name):
        return {"kind": "ignored", "reason": columns.IDENTIFIER}
    if kind == "numeric" and columns.is_code(name):
        return {"kind": "categorical"}
    return _of_kind(kind) | ({"integer": True} if name in found.whole else {})


def _of_kind(kind: columns.Kind) -> dict[str, Any]:
    """Return a column of a kind, which averages missing cells if it would refuse them."""
    averages = kind in ("numeric", "hashed", "boolean", "date")
    return {"kind": str(kind)} | ({"gaps": "average"} if averages else {})


def _guessed(found: Layout) -> Layout:
    """Tell numbers, texts and identifiers apart by the first records of a text file."""
    schema = found.reading()
    with closing(batches(found.source, schema, target=False, drafting=True)) as records:
        first = next(records)
    kinds: dict[str, columns.Kind] = {}
    whole: set[str] = set()
    reasons: dict[str, str] = {}
    with found.source.door(Request(schema, target=False, drafting=True)):
        for name, cells in first.items():
            values = cells.slice(0, FIRST_RECORDS)
            present = len(values) - values.null_count
            first_cells = CellBlock({name: values})
            is_numeric = first_cells.margin(name, "number") == present > 0
            is_date = (
                not is_numeric and first_cells.margin(name, "date", found.dates) == present > 0
            )
            kinds[name] = "numeric" if is_numeric else "date" if is_date else "categorical"
            if is_numeric and first_cells.margin(name, "whole") == present:
                whole.add(name)
            may_name = present >= 100 and (name in whole or kinds[name] == "categorical")
            if may_name and len(values.drop_null().unique()) == present:
                reasons[name] = _ALL_DIFFERENT
    return replace(found, kinds=kinds, whole=frozenset(whole), reasons=reasons)


def draft_private(
    path: Any,
    epsilon: float,
    delta: float,
    relation: str | Relation,
    *,
    target: str | None = None,
    unit: str | None = None,
    task: Task | None = None,
    coverage: float = 0.99,
    ledger: Dataset | None = None,
    progress: Callable[[float], None] | None = None,
    random_state: Any = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool | None = None,
    names: Sequence[str] | None = None,
    missing: Sequence[str] = (),
    decimal: str | None = None,
    dates: str | None = None,
    kinds: Mapping[str, str] | None = None,
    prefixes: Mapping[str, int] | None = None,
) -> Schema:
    """Make a schema from a file by private estimates, where no codebook is at hand.

    Which columns hold numbers or dates is decided by noisy votes (Parquet states it), bounds of
    numbers are chosen privately among round ones so that ``coverage`` of them are kept, and
    categories are those that many rows share. The file is read twice, in blocks; with a unit once
    more.

    Every cell is acceptable to the schema: missing cells and unlisted texts are averaged over. Only
    where a single text was frequent enough, by a noisy count that leaves rows to others, these are
    a level "(other)". Unlisted or missing labels are taken for the most frequent class. Columns
    without a frequent category are ignored. A warning says if the budget is too small, by public
    numbers.

    Parameters
    ----------
    epsilon, delta, relation
        The budget of all of it, which the schema's ``spent`` states; the privacy card of a model
        adds it to that of the fit. ``delta`` must be positive, well below 1/n.
    unit : str, optional
        The column that says whose row a row is: the guarantee is then for one person with all of
        their rows, of which one, drawn at random, is used.
    task : {"classes", "numbers"}, optional
        Content of the target; its share of the budget then goes to that alone. If None, a target of
        texts has classes, and one of whole numbers has them if at most 100 values could be released
        and make up 99 % of the rows by their noisy counts (less what the noise explains, but 90 %
        at least). Give it where values are few but ordered, like a grade from 1 to 10.
    coverage : float
        Share of a column's numbers that its bounds keep as they are, but for a chance of 0.1 %.
        Where the budget cannot buy that, by public numbers, nothing is spent on bounds of the
        column: the fit finds them with part of its own budget. A numeric target always has bounds.
        Where they may cut a larger share s than 1 − ``coverage``, they are widened about their
        middle log(1 − ``coverage``)/log(s) times, which keeps enough of a target whose tails fall
        at least exponentially. A warning says so.
    ledger, progress, random_state
        As in an estimator; ``progress`` is called with the share of the work that is done.
    path, target, delimiter, encoding, names, missing, decimal, dates, kinds, prefixes
        As in `draft`. Columns named like identifiers are ignored, and those named like codes have
        categories, without a vote.
    header : bool
        As in `draft`, but a text file without ``names`` needs it: the first line becomes public if
        it holds the names, and only the caller knows that.

    Privacy
    -------
    (ε, δ)-DP, by adding up. Names and types of columns, the number of rows, and that the file can
    be read (records of one length, valid text) are treated as public. The budget is opened, and
    each question charged, before the cells it is about are read. Proofs: docs/proofs/ranges.md,
    docs/proofs/histogram.md.
    """
    if task is not None and target is None:
        raise ValueError("task says what the target holds: name the target too.")
    budget = Budget(epsilon, delta, Relation(relation))
    estimate = Estimate(budget, coverage, ledger, random_state, task)
    form = TextForm(delimiter, encoding, header, names, missing, decimal, dates)
    hints = columns.given_hints(kinds, prefixes)
    found = layout(path, form, target=target, unit=unit, hints=hints)
    if found.names_in_first_line and header is None:
        raise ValueError(
            f"{found.source.parts[0].place}: the first line of a text file would become public, as "
            "the names of the columns, and no budget covers that. If it holds their names, pass "
            "--header (header=True in Python); if it is a record, --no-header or --names a,b,…"
        )
    return estimate.run(found, progress)
