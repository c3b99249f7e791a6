"""What a card says about mechanisms, about a model and about a schema."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from discreet.card.parts import Block, Paragraph, Table, listed, shown

__all__ = ["describe_model", "describe_schema", "summarise_uses"]

_COLUMNS_SHOWN = 60
_LEFT_OUT = {"random_state", "accountant", "progress"}


def summarise_uses(uses: Iterable[Any]) -> tuple[tuple[str, str, str], ...]:
    """One row a kind of mechanism: its name, the range of each setting, and how often it ran."""
    kinds: dict[str, tuple[list[dict[str, Any]], int]] = {}
    for use in uses:
        settings, count = kinds.get(use.mechanism.name, ([], 0))
        kinds[use.mechanism.name] = ([*settings, _settings(use.mechanism)], count + use.count)
    return tuple(
        (shown(name.replace("_", " "), 60), _ranges(settings), f"{count:,}")
        for name, (settings, count) in kinds.items()
    )


def _settings(mechanism: Any) -> dict[str, Any]:
    stated = asdict(mechanism) if is_dataclass(mechanism) else {}
    if isinstance(stated.get("fields"), tuple):  # known by name only
        stated = dict(stated["fields"])
    return stated


def _ranges(settings: list[dict[str, Any]]) -> str:
    words = []
    for key in settings[0]:
        values = [each[key] for each in settings if key in each]
        name = shown(key.replace("_", " "), 40)
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            low, high = min(values), max(values)
            span = f"{low:.4g}" if f"{low:.4g}" == f"{high:.4g}" else f"{low:.4g} to {high:.4g}"
            words.append(f"{name} {span}")
        else:
            words.append(f"{name} {listed(dict.fromkeys(_word(value) for value in values), 3)}")
    return ", ".join(words)


def _word(value: Any) -> str:
    return {True: "yes", False: "no", None: "none"}.get(value, str(value))


def describe_model(model: Any) -> tuple[Block, ...]:
    """Kind and settings of a fitted model; no weight is shown."""
    steps = getattr(model, "steps", None)
    estimator = steps[-1][1] if steps else model
    rows = [("Kind", type(estimator).__name__)]
    settings = estimator.get_params(deep=False)
    solver = settings.pop("solver", None)
    if solver is not None:
        ran = getattr(estimator, "solver_", None)
        chosen = f"{_solver(solver)}, which ran {shown(ran)}" if solver == "auto" and ran else None
        rows.append(("Solver", chosen or _solver(solver)))
    if hasattr(estimator, "n_features_in_"):
        rows.append(("Columns, encoded", f"{estimator.n_features_in_:,}"))
    if hasattr(estimator, "classes_"):
        rows.append(("Labels", listed(estimator.classes_.tolist())))
    for name, value in sorted(settings.items()):
        if name in _LEFT_OUT | {"epsilon", "delta", "relation", "classes"} or value is None:
            continue
        if name == "preparation":
            value = [step if isinstance(step, str) else _solver(step) for step in value]
            value = "; ".join(value) or "none"
        rows.append((name.replace("_", " "), shown(value, 200)))
    return (Table(("", ""), tuple((key, shown(value)) for key, value in rows)),)


def _solver(solver: Any) -> str:
    """A solver or a step of the preparation: its name and what differs from its defaults."""
    if isinstance(solver, str) or not is_dataclass(solver):
        return shown(solver)
    name = getattr(solver, "name", type(solver).__name__)
    changed = [
        f"{field.name.replace('_', ' ')} {shown(getattr(solver, field.name), 60)}"
        for field in fields(solver)
        if getattr(solver, field.name) != field.default
    ]
    return f"{name} ({', '.join(changed)})" if changed else str(name)


def describe_schema(schema: Any) -> list[Block]:
    """What a schema says of each column: all of it counts as public."""
    rows = [
        (shown(name, 60), column.kind, _column(column))
        for name, column in list(schema.columns.items())[:_COLUMNS_SHOWN]
    ]
    target = schema.target
    if target is not None:
        bounds = f"{target.low:g} to {target.high:g}" if target.low is not None else "no bounds"
        said = f"labels {listed(target.labels)}" if target.is_classification else bounds
        rows.insert(0, (shown(target.column, 60), "target", said))
    blocks: list[Block] = [
        Paragraph(
            "The schema, with all its bounds and lists of values"
            + (":" if schema.spent is None else " (estimating them is counted above):")
        ),
        Table(("Column", "Kind", "What the schema says"), tuple(rows)),
    ]
    more = len(schema.columns) - _COLUMNS_SHOWN
    if more > 0:
        blocks.append(Paragraph(f"… and {more:,} more columns."))
    return blocks


def _column(column: Any) -> str:
    kind = column.kind
    if kind == "numeric":
        words = ["bounds estimated in the fit, within its budget"]
        if column.low is not None:
            words = [f"{column.low:g} to {column.high:g}"]
        if column.scale != "linear":
            words.append(f"on a {column.scale} scale")
    elif kind in ("categorical", "ordinal"):
        words = [listed(column.values)]
    elif kind == "boolean":
        words = ["yes or no"]
    elif kind == "ignored":
        return f"not used{f': {shown(column.reason, 80)}' if column.reason else ''}"
    else:
        words = [shown(column)]
    if getattr(column, "missing", False):
        words.append("may be missing")
    return ", ".join(words)
