"""Building blocks of a card, and descriptions of models, schemas and mechanisms in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

_COLUMNS_SHOWN = 60  # columns of a schema that a card lists one by one
_LEFT_OUT = {
    "random_state", "ledger", "progress", "verbose", "epsilon", "delta", "relation", "classes",
    "schema",
}  # fmt: skip
"""Parameters of a model that the card does not list, or lists elsewhere."""


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of text."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of short texts."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class TextTable:
    """A table of texts; ``numeric`` lists the columns that are aligned right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()


Content = Paragraph | Bullets | TextTable


def summarise_uses(uses: Iterable[Any]) -> tuple[tuple[str, str, str], ...]:
    """Return one row per kind of mechanism: name, range of each setting, number of uses."""
    kinds: dict[str, tuple[list[dict[str, Any]], int]] = {}
    for use in uses:
        mechanism = use.mechanism
        described = is_dataclass(mechanism) and not isinstance(mechanism, type)
        stated = asdict(mechanism) if described else {}
        if isinstance(stated.get("fields"), tuple):  # known by name only
            stated = dict(stated["fields"])
        settings, count = kinds.get(use.mechanism.name, ([], 0))
        kinds[use.mechanism.name] = ([*settings, stated], count + use.count)
    return tuple(
        (shown(name.replace("_", " "), 60), _ranges(settings), f"{count:,}")
        for name, (settings, count) in kinds.items()
    )


def _ranges(settings: list[dict[str, Any]]) -> str:
    texts = []
    for key in settings[0]:
        values = [each[key] for each in settings if key in each]
        name = shown(key.replace("_", " "), 40)
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            low = f"{min(values):.4g}"
            high = f"{max(values):.4g}"
            texts.append(f"{name} {low}" if low == high else f"{name} {low} to {high}")
        else:
            answers = {True: "yes", False: "no", None: "none"}
            each = dict.fromkeys(answers.get(value, str(value)) for value in values)
            texts.append(f"{name} {listed(each, 3)}")
    return ", ".join(texts)


def last_step(model: Any) -> Any:
    """Return the last step of a pipeline, or the model itself."""
    steps = getattr(model, "steps", None)
    return last_step(steps[-1][1]) if steps else model


def describe_model(model: Any) -> TextTable:
    """Describe a fitted model by its kind and settings; no weight is shown."""
    estimator = last_step(model)
    rows = [("Kind", type(estimator).__name__)]
    settings = estimator.get_params(deep=False)
    solver = settings.pop("solver", None)
    if solver is not None:
        ran = getattr(estimator, "solver_", None)
        chosen = f", which ran {shown(ran)}" if solver == "auto" and ran else ""
        rows.append(("Solver", f"{_component(solver)}{chosen}"))
    if hasattr(estimator, "n_encoded_"):
        rows.append(("Encoded columns", f"{estimator.n_encoded_:,}"))
    expansion = getattr(getattr(estimator, "features_", None), "expansion", None)
    if expansion is not None:
        features = f"{expansion.name}: {expansion.count:,} of {len(expansion.columns):,} columns"
        rows.append(("Features", features))
    pairs = getattr(estimator, "pairs_", None)
    if pairs is not None:
        rows.append(("Pairs of columns", " ".join(pairs.summary())))
    if hasattr(estimator, "classes_"):
        rows.append(("Labels", listed(estimator.classes_.tolist())))
    for name, value in sorted(settings.items()):
        if name in _LEFT_OUT or value is None:
            continue
        if name == "preparation":
            value = "; ".join(_component(step) for step in value) or "none"
        rows.append((name.replace("_", " "), shown(value, 200)))
    return TextTable(("", ""), tuple((key, shown(value)) for key, value in rows))


def _component(component: Any) -> str:
    """Describe a solver or preparation step: its name and the settings that are not defaults."""
    if isinstance(component, str) or not is_dataclass(component):
        return shown(component)
    name = getattr(component, "name", type(component).__name__)
    changed = [
        f"{field.name.replace('_', ' ')} {shown(getattr(component, field.name), 60)}"
        for field in fields(component)
        if getattr(component, field.name) != field.default
    ]
    return f"{name} ({', '.join(changed)})" if changed else str(name)


def describe_columns(schema: Any) -> list[tuple[str, str, str]]:
    """Return name, kind and description of unit, target and the first columns of a schema."""
    rows = [
        (shown(name, 60), column.kind, _describe_column(column))
        for name, column in list(schema.columns.items())[:_COLUMNS_SHOWN]
    ]
    target = schema.target
    if target is not None:
        ends = "no bounds"
        if target.low is not None:
            ends = f"{_number(target.low)} to {_number(target.high)}"
        said = f"labels {listed(target.labels)}" if target.is_classification else ends
        rows.insert(0, (shown(target.column, 60), "target", said))
    if schema.unit is not None:
        rows.insert(0, (shown(schema.unit, 60), "unit", "whose row a row is; never a feature"))
    more = len(schema.columns) - _COLUMNS_SHOWN
    return rows if more <= 0 else [*rows, (f"… and {more:,} more columns", "", "")]


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:g}"


def _describe_column(column: Any) -> str:
    kind = column.kind
    if kind == "numeric":
        texts = ["bounds estimated in the fit, within its budget"]
        if column.low is not None:
            texts = [f"{_number(column.low)} to {_number(column.high)}"]
        if column.scale != "linear":
            texts.append(f"on a {column.scale} scale")
    elif kind in ("categorical", "ordinal"):
        texts = [listed(column.values)]
    elif kind == "boolean":
        texts = ["yes or no"]
    elif kind == "hashed":
        texts = [f"any text, in {column.buckets:,} buckets of a public hash"]
    elif kind == "date":
        texts = ["any date" if column.low is None else f"{column.low} to {column.high}"]
        texts += [f"{part} as levels" for part in column.parts]
    elif kind == "discovered":
        texts = ["levels found in the fit, within its budget"]
    elif kind == "ignored":
        return f"not used{f': {shown(column.reason, 80)}' if column.reason else ''}"
    else:
        texts = [shown(column)]
    if getattr(column, "prefix", None) is not None:
        texts.append(f"by the first {column.prefix} letters")
    if getattr(column, "missing", False):
        texts.append("may be missing")
    return ", ".join(texts)


def shown(text: object, most: int = 300) -> str:
    """Return external text in a displayable form: one line, printable, at most ``most`` characters.

    Column names and labels come from files. An escape sequence or a change of writing direction in
    one of them could make a card appear to say something else.
    """
    line = str(text)[: most + 1].translate(str.maketrans("\n\r\t", "   "))
    escaped = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    clean = "".join(escaped)
    return clean if len(clean) <= most else f"{clean[: most - 1]}…"


def listed(texts: Iterable[object], most: int = 6) -> str:
    """Return the first items of a list, and the number of items if there are more."""
    items = list(texts)
    first = ", ".join(shown(item, 40) for item in items[:most])
    return first if len(items) <= most else f"{first}, … ({len(items):,} in all)"
