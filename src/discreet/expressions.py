"""Arithmetic of columns in a formula, such as ``log(bmi)`` or ``age ** 2``, with its public bounds.

An expression is a function of one row's own cells: nothing in it can be learned from the rows. Its
bounds follow from those of its columns by interval arithmetic, so that they are public, too.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from discreet.tables.columns import nearest
from discreet.validate import FloatArray

__all__ = ["Expression", "Interval"]

LARGEST = 1e100
"""Size that results are cut to, where columns have no bounds."""

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class Interval(NamedTuple):
    """The values that a number can have; infinite ends where they are not known."""

    low: float
    high: float

    @classmethod
    def of(cls, value: Any) -> Interval:
        """Return an interval, or the one of a constant."""
        return value if isinstance(value, Interval) else cls(float(value), float(value))

    @classmethod
    def around(cls, values: Any) -> Interval:
        """Return the smallest interval with some values; infinity times 0 is 0."""
        found = [0.0 if math.isnan(value) else float(value) for value in values]
        return cls(min(found), max(found))

    @property
    def is_finite(self) -> bool:
        """True if both ends are known."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def plus(self, other: Interval, sign: float = 1.0) -> Interval:
        """Return the interval of the sum, or of the difference for a sign of -1."""
        low, high = (other.low, other.high) if sign > 0 else (-other.high, -other.low)
        return Interval(self.low + low, self.high + high)

    def times(self, other: Interval) -> Interval:
        """Return the interval of the product."""
        return Interval.around([one * two for one in self for two in other])


@dataclass(frozen=True)
class _Function:
    """A rising function, and the smallest argument that it has a value for, if there is one."""

    of: Callable[[Any], Any]
    above: float = -math.inf
    attained: bool = False

    def bounds(self, name: str, inner: Interval, text: str) -> Interval:
        """Return the interval of the function; arguments must have bounds where it has values."""
        allowed = inner.low >= self.above if self.attained else inner.low > self.above
        if not inner.is_finite or not allowed:
            limit = ""
            if math.isfinite(self.above):
                limit = f" {'of at least' if self.attained else 'above'} {self.above:g}"
            raise ValueError(
                f"{name}() in {text!r} needs public bounds{limit} of its argument. Declare those "
                "of its columns: columns={'COLUMN': (low, high)}."
            )
        with np.errstate(all="ignore"):
            return Interval.around([float(self.of(inner.low)), float(self.of(inner.high))])


FUNCTIONS: dict[str, _Function] = {
    "log": _Function(np.log, 0.0),
    "log2": _Function(np.log2, 0.0),
    "log10": _Function(np.log10, 0.0),
    "log1p": _Function(np.log1p, -1.0),
    "sqrt": _Function(np.sqrt, 0.0, attained=True),
    "exp": _Function(np.exp),
    "expm1": _Function(np.expm1),
}
"""Functions that an expression may have, with or without ``np.`` before them."""


@dataclass(frozen=True)
class Expression:
    """Arithmetic of columns, as text: numbers, names, + - * / **, and `FUNCTIONS`.

    A ``ValueError`` says what else is in it.
    """

    text: str

    def __post_init__(self) -> None:
        try:
            tree = ast.parse(self.text, mode="eval").body
        except SyntaxError:
            raise ValueError(f"{self.text!r} is not an expression of columns.") from None
        _check(tree, self.text)
        if not self.columns:
            raise ValueError(f"{self.text!r} names no column.")

    @cached_property
    def _tree(self) -> ast.expr:
        return ast.parse(self.text, mode="eval").body

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, each once."""
        called = {id(node.func) for node in ast.walk(self._tree) if isinstance(node, ast.Call)}
        names = (
            node.id
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Name) and id(node) not in called and node.id != "np"
        )
        return tuple(dict.fromkeys(names))

    def values(self, columns: Mapping[str, FloatArray]) -> FloatArray:
        """Return the value for each row, by its own cells alone."""
        with np.errstate(all="ignore"):  # a warning about one row would be about that row
            found = _value(self._tree, columns)
            shape = columns[self.columns[0]].shape
            return np.clip(np.broadcast_to(np.asarray(found, dtype=np.float64), shape), *_ENDS)

    def bounds(self, columns: Mapping[str, Interval]) -> Interval:
        """Return the public bounds of the values, given those of the columns."""
        return _bounds(self._tree, columns, self.text)


_ENDS = (-LARGEST, LARGEST)


def _check(node: ast.expr, text: str) -> None:
    """Refuse everything but arithmetic and known functions."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        _check(node.left, text)
        _exponent(node.right, text)
        return
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        _check(node.left, text)
        _check(node.right, text)
        return
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        _check(node.operand, text)
        return
    if isinstance(node, ast.Call):
        name = function_name(node)
        if name not in FUNCTIONS and name != "I":
            raise ValueError(
                f"{name}() in {text!r} is not a function of formulas; "
                f"{nearest(name, [*FUNCTIONS, 'I', 'C', 'bs', 'offset'])}"
            )
        if len(node.args) != 1 or node.keywords:
            raise ValueError(f"{name}() in {text!r} takes one argument.")
        _check(node.args[0], text)
        return
    is_number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    if not (is_number or isinstance(node, ast.Name)):
        raise ValueError(
            f"{ast.unparse(node)!r} in {text!r} is not arithmetic of columns: use + - * / **, "
            f"numbers and {', '.join(FUNCTIONS)}, or make the column before the fit."
        )


def function_name(node: ast.Call) -> str:
    """Return the name of a function that is called, without ``np.``."""
    return ast.unparse(node.func).removeprefix("np.").removeprefix("numpy.")


def _exponent(node: ast.expr, text: str) -> float:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = None
    if type(value) not in (int, float):
        raise ValueError(f"the exponent in {text!r} must be a number.")
    return float(value)


def _value(node: ast.expr, columns: Mapping[str, FloatArray]) -> Any:
    """Return the values of a checked expression."""
    if isinstance(node, ast.Name):
        return columns[node.id]
    if isinstance(node, ast.Constant):
        return float(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.UnaryOp):
        inner = _value(node.operand, columns)
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.Call):
        inner = _value(node.args[0], columns)
        name = function_name(node)
        return inner if name == "I" else FUNCTIONS[name].of(inner)
    assert isinstance(node, ast.BinOp)
    left = _value(node.left, columns)
    if isinstance(node.op, ast.Pow):
        return left ** _exponent(node.right, "")
    return _OPERATORS[type(node.op)](left, _value(node.right, columns))


def _bounds(node: ast.expr, columns: Mapping[str, Interval], text: str) -> Interval:
    """Return the interval of a checked expression."""
    if isinstance(node, ast.Name):
        return columns[node.id]
    if isinstance(node, ast.Constant):
        return Interval.of(node.value)
    if isinstance(node, ast.UnaryOp):
        inner = _bounds(node.operand, columns, text)
        negative = isinstance(node.op, ast.USub)
        return Interval(-inner.high, -inner.low) if negative else inner
    if isinstance(node, ast.Call):
        inner = _bounds(node.args[0], columns, text)
        name = function_name(node)
        return inner if name == "I" else FUNCTIONS[name].bounds(name, inner, text)
    assert isinstance(node, ast.BinOp)
    left = _bounds(node.left, columns, text)
    if isinstance(node.op, ast.Pow):
        return _power(left, _exponent(node.right, text), text)
    right = _bounds(node.right, columns, text)
    if isinstance(node.op, ast.Add | ast.Sub):
        return left.plus(right, 1.0 if isinstance(node.op, ast.Add) else -1.0)
    if isinstance(node.op, ast.Mult):
        return left.times(right)
    if right.low <= 0.0 <= right.high:
        raise ValueError(
            f"the divisor in {text!r} may be 0. Declare bounds of its columns that exclude it: "
            "columns={'COLUMN': (low, high)}."
        )
    return left.times(Interval(1.0 / right.high, 1.0 / right.low))


def _power(base: Interval, exponent: float, text: str) -> Interval:
    """Return the interval of a power: whole ones of any number, others of positive numbers."""
    if exponent > 0.0 and exponent.is_integer():
        ends = [base.low**exponent, base.high**exponent]
        inside = base.low < 0.0 < base.high and exponent % 2 == 0
        return Interval.around([*ends, 0.0] if inside else ends)
    least = base.low > 0.0 or (base.low == 0.0 and exponent > 0.0)
    if not (base.is_finite and least):
        raise ValueError(
            f"the power in {text!r} needs public bounds above 0 of what it is taken of. Declare "
            "those of its columns: columns={'COLUMN': (low, high)}."
        )
    return Interval.around([base.low**exponent, base.high**exponent])
