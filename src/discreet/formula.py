"""Formulas of models: their text, the terms that it names, and the factors of each term.

The package ``formulaic`` reads the operators of a formula. Factors are read here, because none of
them may learn from the rows: levels, bounds and knots are declared, or found within a budget.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from discreet.errors import NotSupported
from discreet.expressions import Expression, function_name
from discreet.tables.columns import nearest
from discreet.validate import display, integer, number

__all__ = ["Factor", "Formula"]

NEEDS = (
    "formulas need the package formulaic: install discreet with the extra 'formula', "
    "pip install 'discreet[formula]'."
)

_DECLARED = "Declare the bounds of the column, columns={'COLUMN': (low, high)}, and write"

LEARNED: dict[str, str] = {
    "poly": f"{_DECLARED} x + I(x**2), or bs(x) for a curve",
    "scale": "write the column itself: a fit scales its columns within its budget",
    "standardize": "write the column itself: a fit scales its columns within its budget",
    "center": "write I(x - 50) with a public number, or the column itself",
    "cr": f"{_DECLARED} bs(x, df=5)",
    "cs": f"{_DECLARED} bs(x, df=5)",
    "cc": f"{_DECLARED} bs(x, df=5)",
    "te": f"{_DECLARED} bs(x):bs(z)",
    "ns": f"{_DECLARED} bs(x, df=5)",
    "hashed": "declare the column as Hashed() of discreet.tables in an estimator without formula",
    "lag": "make the column before the fit, within the rows of one person",
}
"""Functions of formulas elsewhere that learn from the rows, and what to write in their place."""

CONTRASTS = ("Treatment", "contr.treatment")
"""Names of the coding by differences from a reference level."""


@dataclass(frozen=True)
class Factor:
    """One factor of a term: a column, arithmetic of columns, levels, or a spline basis.

    Attributes
    ----------
    text : str
        The factor as it is written, in a normal form.
    kind : {"column", "number", "levels", "spline"}
        A column of any kind, arithmetic of columns, a column with levels, or B-splines.
    columns : tuple of str
        Names of the columns.
    expression : Expression, optional
        What a number or the argument of a spline is.
    reference : str, optional
        The level that others are compared with.
    df, degree, knots, bounds
        Number of B-splines, their degree, inner knots, and bounds, as far as they are given.
    """

    text: str
    kind: str
    columns: tuple[str, ...]
    expression: Expression | None = None
    reference: str | None = None
    df: int | None = None
    degree: int = 3
    knots: tuple[float, ...] = ()
    bounds: tuple[float, float] | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a factor; a name in backticks is that of a column, whatever its letters."""
        if text.startswith("`") and text.endswith("`") and len(text) > 2:
            return cls(text, "column", (text[1:-1],))
        if text.replace(".", "_").isidentifier():
            return cls(text, "column", (text,))
        try:
            tree = ast.parse(text, mode="eval").body
        except SyntaxError:
            raise ValueError(f"{text!r} in the formula is not a factor.") from None
        called = function_name(tree) if isinstance(tree, ast.Call) else ""
        if called in LEARNED:
            raise NotSupported(
                f"{called}() in a formula would learn from the rows, outside the budget. "
                f"Instead: {LEARNED[called]}."
            )
        if isinstance(tree, ast.Call) and called == "C":
            return cls._levels(tree)
        if isinstance(tree, ast.Call) and called == "bs":
            return cls._spline(tree)
        found = Expression(ast.unparse(tree))
        return cls(found.text, "number", found.columns, found)

    @classmethod
    def _levels(cls, call: ast.Call) -> Self:
        """Read ``C(ward, ref='A')``, or ``C(ward, Treatment('A'))``."""
        text = ast.unparse(call)
        named = {each.arg: each.value for each in call.keywords}
        first = call.args[0] if call.args else None
        contrast = call.args[1] if len(call.args) > 1 else named.pop("contr", None)
        reference = named.pop("ref", named.pop("reference", None))
        if isinstance(contrast, ast.Call) and ast.unparse(contrast.func) in CONTRASTS:
            inner = [*contrast.args, *(each.value for each in contrast.keywords)]
            reference = inner[0] if inner else reference
        elif contrast is not None and ast.unparse(contrast) not in CONTRASTS:
            raise NotSupported(
                f"{text}: levels are compared with a reference level. Write C(COLUMN, ref='LEVEL')."
            )
        if not isinstance(first, ast.Name) or named or len(call.args) > 2:
            raise ValueError(f"{text} must be C(COLUMN) or C(COLUMN, ref='LEVEL').")
        level = None if reference is None else str(_constant(reference, text))
        return cls(text, "levels", (first.id,), reference=level)

    @classmethod
    def _spline(cls, call: ast.Call) -> Self:
        """Read ``bs(bmi, df=5, degree=3, knots=[…], lower_bound=…, upper_bound=…)``."""
        text = ast.unparse(call)
        named = {str(each.arg): _constant(each.value, text) for each in call.keywords}
        order = ("df", "knots", "degree")
        if not call.args or len(call.args) > 1 + len(order):
            raise ValueError(f"{text} must name a column: bs(COLUMN, df=5).")
        named |= {
            key: _constant(value, text) for key, value in zip(order, call.args[1:], strict=False)
        }
        inner = Expression(ast.unparse(call.args[0]))
        ends = (named.pop("lower_bound", None), named.pop("upper_bound", None))
        if named.pop("include_intercept", False):
            raise NotSupported(f"{text}: the model has the constant. Leave include_intercept out.")
        df = named.pop("df", None)
        degree = integer("degree", named.pop("degree", 3), least=1, most=5)
        knots = named.pop("knots", ()) or ()
        if named:
            raise ValueError(f"{text}: unknown {', '.join(named)}; bs takes df, knots and degree.")
        if df is not None:
            remedy = "It is the number of B-splines, at least their degree."
            integer("df", df, least=degree, most=100, remedy=remedy)
        if df is not None and knots:
            raise ValueError(f"{text}: give df or knots, but not both.")
        inside = tuple(number("knots", each) for each in knots)
        if list(inside) != sorted(set(inside)):
            raise ValueError(f"{text}: knots must rise.")
        bounds = None
        if ends != (None, None):
            low = number("lower_bound", ends[0])
            bounds = (low, number("upper_bound", ends[1], above=low))
        about: Any = {"df": df, "degree": degree, "knots": inside, "bounds": bounds}
        return cls(text, "spline", inner.columns, inner, **about)

    @property
    def name(self) -> str:
        """Name in tables: that of the column, or the text."""
        return self.columns[0] if self.kind in ("column", "levels") else self.text


def _constant(node: ast.expr, text: str) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise ValueError(
            f"{ast.unparse(node)!r} in {text} must be a number, a text or a list of them."
        ) from None


@dataclass(frozen=True)
class Formula:
    """A model as a statistician writes it: ``y ~ age + bs(bmi) + C(ward, ref='A') + age:sex``.

    Attributes
    ----------
    text : str
        The formula.
    response : str or None
        Column to predict; None without a left side.
    intercept : bool
        True unless the formula takes it out, by ``0 +`` or ``- 1``.
    terms : tuple of tuple of Factor
        The factors of each term.
    offsets : tuple of Expression
        What is added to the score with the coefficient 1.

    Examples
    --------
    >>> from discreet.formula import Formula
    >>> made = Formula.of("readmitted ~ age * sex + offset(log(days))")
    >>> made.response, made.columns
    ('readmitted', ('age', 'sex', 'days'))
    >>> [[factor.name for factor in term] for term in made.terms]
    [['age'], ['sex'], ['age', 'sex']]
    """

    text: str
    response: str | None
    intercept: bool
    terms: tuple[tuple[Factor, ...], ...]
    offsets: tuple[Expression, ...] = ()

    @classmethod
    def of(cls, text: Any, available: Iterable[str] = ()) -> Formula:
        """Read a formula; ``available`` are the columns that a dot stands for.

        A ``ValueError`` says what cannot be read.
        """
        if not isinstance(text, str) or not text.strip():
            raise ValueError(
                f"formula must be a text such as 'y ~ age + C(ward)'; got {display(text)}."
            )
        return _read(text, tuple(available))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns but the response, each once."""
        used = [name for term in self.terms for factor in term for name in factor.columns]
        used += [name for each in self.offsets for name in each.columns]
        return tuple(dict.fromkeys(used))

    def to_dict(self) -> dict[str, Any]:
        """Return the formula as plain data."""
        return {
            "text": self.text,
            "response": self.response,
            "intercept": self.intercept,
            "terms": [[factor.text for factor in term] for term in self.terms],
            "offsets": [each.text for each in self.offsets],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Formula:
        """Return the formula that `to_dict` was called on; anything else is a ``ValueError``."""
        try:
            terms = tuple(tuple(Factor.of(text) for text in term) for term in data["terms"])
            offsets = tuple(Expression(text) for text in data["offsets"])
            own = cls(str(data["text"]), data["response"], data["intercept"], terms, offsets)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("a formula must have a text, terms and offsets.") from error
        known = own.response is None or isinstance(own.response, str)
        if not (known and isinstance(own.intercept, bool) and all(terms)):
            raise ValueError("a formula must have a response, an intercept and factors.")
        return own

    def sources(self, names: Sequence[Any]) -> list[Any]:
        """Return the columns of a table that the formula needs, in its order.

        A part of a date, such as ``admitted.month``, needs the column before the dot.
        """
        known = {str(name): name for name in names}
        needed = set()
        for name in self.columns:
            source = name if name in known else name.rpartition(".")[0]
            if source not in known:
                raise ValueError(
                    f"the formula names {name!r}, which the table does not have; "
                    f"{nearest(name, known)}"
                )
            needed.add(source)
        return [name for text, name in known.items() if text in needed]


@lru_cache(maxsize=256)
def _read(text: str, available: tuple[str, ...]) -> Formula:
    lhs, rhs = _sides(text, available)
    terms: list[tuple[Factor, ...]] = []
    offsets: list[Expression] = []
    intercept = False
    for term in rhs:
        written = [_written(factor) for factor in term.factors]
        known = [each.startswith("offset(") for each in written]
        if written == ["1"]:
            intercept = True
        elif known == [True]:
            offsets.append(_offset(written[0]))
        elif any(known):
            raise ValueError(f"offset() in {text!r} is a term of its own.")
        else:
            terms.append(tuple(Factor.of(each) for each in written if each != "1"))
    if not terms:
        raise ValueError(f"the formula {text!r} names no column to predict by.")
    names = [":".join(sorted(factor.name for factor in term)) for term in terms]
    if len(set(names)) < len(names):
        raise ValueError(f"the formula {text!r} has a term twice.")
    terms.sort(key=len)  # effects of single columns first, as in statsmodels
    return Formula(text, _response(lhs, text), intercept, tuple(terms), tuple(offsets))


def _sides(text: str, available: tuple[str, ...]) -> tuple[list[Any], list[Any]]:
    """Return the terms on both sides of a formula, as formulaic reads them."""
    try:
        from formulaic.errors import FormulaicError
        from formulaic.parser import DefaultFormulaParser
    except ImportError:
        raise NotSupported(NEEDS) from None
    context = {"__formulaic_variables_available__": list(available)} if available else {}
    try:
        found = DefaultFormulaParser().get_terms(text, context=context)
    except (FormulaicError, SyntaxError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"the formula {text!r} cannot be read: {first}") from None
    sides: dict[str, Any] = dict(found._to_dict())
    several = any(isinstance(side, tuple) for side in sides.values())
    if several or not set(sides) <= {"lhs", "rhs", "root"}:
        raise ValueError(f"the formula {text!r} must have one model: 'y ~ age + ward'.")
    return list(sides.get("lhs", ())), list(sides.get("rhs", sides.get("root", ())))


def _written(factor: Any) -> str:
    """Return the text of a factor as `Factor.of` reads it."""
    text = str(factor.expr)
    if factor.eval_method.value == "lookup" and not text.replace(".", "_").isidentifier():
        return f"`{text}`"
    return text


def _offset(text: str) -> Expression:
    tree = ast.parse(text, mode="eval").body
    if not isinstance(tree, ast.Call) or len(tree.args) != 1 or tree.keywords:
        raise ValueError(f"{text} must be offset(COLUMN), or of arithmetic: offset(log(days)).")
    return Expression(ast.unparse(tree.args[0]))


def _response(lhs: list[Any], text: str) -> str | None:
    """Return the column on the left side."""
    if not lhs:
        return None
    factors = [factor for term in lhs for factor in term.factors]
    if len(factors) != 1 or factors[0].eval_method.value != "lookup":
        raise ValueError(
            f"the left side of {text!r} must be one column. Make it before the fit: "
            "df['log_y'] = np.log(df['y'])."
        )
    return str(factors[0].expr)
