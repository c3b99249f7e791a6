"""List the functions of discreet that are too long, too branched or have too many arguments.

``python tools/ceilings.py`` prints them and fails if there are any. The ceilings:

- a body, without signature and docstring, has at most 60 lines;
- the complexity is at most 20: 1, plus 1 for each if, for, while, except, case and conditional
  expression, each operand of a boolean operator but the first, and each loop and condition of a
  comprehension; nested functions are counted on their own;
- there are at most 8 arguments, ``self`` and ``cls`` not counted. Exempt are public functions,
  the functions of the command (``discreet.cli``) and compiled kernels.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "discreet"

MOST_LINES = 60
MOST_COMPLEXITY = 20
MOST_ARGUMENTS = 8

COMMAND = "cli/"  # functions whose arguments are the options of a command
KERNELS = {"kernel", "inlined"}  # decorators of compiled kernels, which take no records

Definition = ast.FunctionDef | ast.AsyncFunctionDef
_BRANCHES = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.IfExp, ast.match_case)


class Measured(NamedTuple):
    """A function and its measures; ``exempt`` from the ceiling on arguments."""

    file: str
    name: str
    complexity: int
    lines: int
    arguments: int
    exempt: bool

    @property
    def key(self) -> str:
        """Name by which a list of exceptions knows the function."""
        return f"{self.file}: {self.name}"

    @property
    def exceeds(self) -> bool:
        """True if the function is above a ceiling."""
        many = self.arguments > MOST_ARGUMENTS and not self.exempt
        return many or self.complexity > MOST_COMPLEXITY or self.lines > MOST_LINES

    def __str__(self) -> str:
        counts = f"complexity {self.complexity}, {self.lines} lines, {self.arguments} arguments"
        return f"{self.key}: {counts}"


def complexity(function: Definition) -> int:
    """Count the branches of a function, in statements and in expressions."""
    total = 1
    pending = list(ast.iter_child_nodes(function))
    while pending:
        node = pending.pop()
        if isinstance(node, Definition | ast.ClassDef):
            continue
        if isinstance(node, _BRANCHES):
            total += 1
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            total += 1 + len(node.ifs)
        pending += ast.iter_child_nodes(node)
    return total


def body_lines(function: Definition) -> int:
    """Count the lines of a function from its first statement after the docstring."""
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    if not body:
        return 0
    return (function.end_lineno or function.lineno) - body[0].lineno + 1


def arguments(function: Definition) -> int:
    """Count the named arguments of a function, but for ``self`` and ``cls``."""
    stated = function.args
    positional = [*stated.posonlyargs, *stated.args]
    bound = bool(positional) and positional[0].arg in ("self", "cls")
    return len(positional) + len(stated.kwonlyargs) - bound


def public_functions(source: Path = SOURCE) -> set[tuple[str, str]]:
    """Return the file and name of everything that a package lists in ``__all__``.

    A package imports its public names from the modules that define them. The top-level package,
    whose list is computed, imports them for type checkers as ``name as name``.
    """
    found = set()
    for file in source.rglob("__init__.py"):
        tree = ast.parse(file.read_text("utf-8"))
        listed = _listed(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                module = node.module.partition(".")[2].replace(".", "/")
                for name in node.names:
                    public = name.asname == name.name if listed is None else name.name in listed
                    if public:
                        found.add((f"{module}.py", name.name))
    return found


def _listed(tree: ast.Module) -> set[str] | None:
    """Return the names in a literal ``__all__``, or None if it is computed or missing."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            try:
                return set(ast.literal_eval(node.value))
            except ValueError:
                return None
    return None


def measure(source: Path = SOURCE) -> Iterator[Measured]:
    """Measure every function below ``source``, file by file."""
    public = public_functions(source)
    for path in sorted(source.rglob("*.py")):
        file = path.relative_to(source).as_posix()
        for name, function in _functions(ast.parse(path.read_text("utf-8"))):
            decorators = {ast.unparse(each) for each in function.decorator_list}
            exempt = (file, name) in public or file.startswith(COMMAND)
            yield Measured(
                file=file,
                name=name,
                complexity=complexity(function),
                lines=body_lines(function),
                arguments=arguments(function),
                exempt=exempt or bool(decorators & KERNELS),
            )


def _functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """Return all functions below a node with their qualified names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition | ast.ClassDef):
            name = f"{prefix}{child.name}"
            if not isinstance(child, ast.ClassDef):
                yield name, child
            yield from _functions(child, f"{name}.")
        else:
            yield from _functions(child, prefix)


def main() -> None:
    """Print the functions above a ceiling."""
    found = [each for each in measure() if each.exceeds]
    for each in found:
        print(each)
    print(f"{len(found)} functions are above a ceiling.")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
