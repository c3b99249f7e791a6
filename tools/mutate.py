"""Break trusted code on purpose, one place at a time, and see whether its tests notice.

    python tools/mutate.py [--paths PATH … | --trusted] [--count 12] [--seed NUMBER] [--minutes 30]

Each breakage is a small change of one expression or statement: a comparison is negated, ``+``
becomes ``-``, a constant is doubled, a check is removed. Functions of the paths are drawn at
random, and in each of them a breakage; what a module or a class has outside of functions counts as
one more. The paths are ``src/discreet/core`` and ``src/discreet/rows`` if none are given, and with
``--trusted`` all code that ``tools/sizes.py`` lists as trusted. Each breakage is applied to a
temporary copy of the checkout, where the tests of the folder that mirrors the code are run until
the first one fails. The checkout itself is never changed.

A breakage is *caught* if a test fails, *timed out* if the tests take too long, and has *survived*
if all tests pass. A survivor is a line that no test checks, or a change that makes no difference.
In the latter case it is listed with a reason in ``tools/survivors.toml``. The exit code is 1 if a
survivor is not listed there, and 2 if the tests fail without any breakage.
"""

from __future__ import annotations

import argparse
import ast
import copy
import datetime
import importlib.util
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SURVIVORS = "tools/survivors.toml"
PATHS = ("src/discreet/core", "src/discreet/rows")
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "out", "__pycache__", ".*_cache", "generated")

NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], tuple[str, ast.operator]] = {
    ast.Add: ("plus becomes minus", ast.Sub()),
    ast.Mult: ("times becomes divided by", ast.Div()),
}
SWAPPED = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
HARMLESS = ("stacklevel", "strict")  # keywords without an effect on correct input
SEQUENCES = (ast.List, ast.Tuple, ast.JoinedStr)


@dataclass(frozen=True)
class Breakage:
    """A change of one expression or statement of a file."""

    file: str
    function: str
    operator: str
    before: str
    """The lines that are changed, in one line."""
    after: str
    """The same lines after the change: they tell apart two changes of one line."""
    line: int
    span: tuple[int, int]
    """Place of the changed text in the file, in bytes."""
    text: str
    """The text that replaces it."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Name of the change, which stays the same if it moves to another line."""
        return (self.file, self.function, self.before, self.after)

    def apply(self, source: bytes) -> bytes:
        """Return the broken source."""
        start, end = self.span
        return source[:start] + self.text.encode() + source[end:]


# ---- the changes of one node


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """Yield the name of each change of a node, the part that is replaced, and its replacement."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        negated = NEGATED[type(node.ops[0])]()
        yield "comparison negated", node, _with(node, ops=[negated])
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in ARITHMETIC:
        name, other = ARITHMETIC[type(node.op)]
        if not _is_text(node):
            yield name, node, _with(node, op=other)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value:
        yield "constant doubled", node, ast.Constant(2 * node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not dropped", node, node.operand
    if isinstance(node, ast.If | ast.IfExp):
        yield "condition always true", node.test, ast.Constant(True)
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield "condition always false", node.test, ast.Constant(False)
    if isinstance(node, ast.Raise) and "NotImplementedError" not in ast.unparse(node):
        yield "raise removed", node, ast.Pass()
    if isinstance(node, ast.Call):
        yield from _changed_calls(node)


def _changed_calls(node: ast.Call) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """Yield the changes of a call: ``min`` for ``max``, and one keyword less."""
    called = node.func
    if isinstance(called, ast.Name) and called.id in SWAPPED:
        yield "min and max swapped", called, ast.Name(SWAPPED[called.id])
    if isinstance(called, ast.Attribute) and called.attr in SWAPPED:
        yield "min and max swapped", called, _with(called, attr=SWAPPED[called.attr])
    for keyword in node.keywords:
        if keyword.arg and keyword.arg not in HARMLESS:
            fewer = [each for each in node.keywords if each is not keyword]
            yield "keyword dropped", node, _with(node, keywords=fewer)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    """Return a copy of a node with other fields."""
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _is_text(node: ast.BinOp | ast.AugAssign) -> bool:
    """Return True if an operand is a text or a literal sequence, which cannot be subtracted."""
    operands = [node.value] if isinstance(node, ast.AugAssign) else [node.left, node.right]
    literals = [each for each in operands if isinstance(each, ast.Constant)]
    texts = [each for each in literals if isinstance(each.value, str)]
    return bool(texts) or any(isinstance(each, SEQUENCES) for each in operands)


# ---- the breakages of a file


def breakages(root: Path, file: str) -> list[Breakage]:
    """Return all breakages of a file, in the order of its lines."""
    source = (root / file).read_bytes()
    lines = source.splitlines(keepends=True)
    starts = [0, *itertools.accumulate(map(len, lines))]
    found = []
    for node, function in _nodes(ast.parse(source), ""):
        for operator, old, new in _changes(node):
            first, last = starts[old.lineno - 1], starts[old.end_lineno]
            start = first + old.col_offset
            end = starts[old.end_lineno - 1] + old.end_col_offset
            text = ast.unparse(new)
            if isinstance(new, ast.expr) and not isinstance(new, ast.Name | ast.Constant):
                text = f"({text})"
            before = _one_line(source[first:last])
            after = _one_line(source[first:start] + text.encode() + source[end:last])
            made = Breakage(file, function, operator, before, after, old.lineno, (start, end), text)
            compile(made.apply(source), file, "exec")
            found.append(made)
    return sorted(found, key=lambda each: (each.span, each.operator, each.text))


def _one_line(code: bytes) -> str:
    """Return code with single spaces in place of white space."""
    return " ".join(code.decode().split())


def _nodes(node: ast.AST, function: str) -> Iterator[tuple[ast.AST, str]]:
    """Yield the nodes that may be broken, each with the dotted name of its function.

    Annotations, decorators, formatted texts and the messages of errors are left out, and so are
    comments and docstrings, which are no code.
    """
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".lstrip(".")
    yield node, function or "module"
    if isinstance(node, ast.Raise | ast.JoinedStr):
        return
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _nodes(child, function)


def files_of(root: Path, paths: list[str]) -> list[str]:
    """Return the modules under these paths, relative to the root."""
    found: list[str] = []
    for name in paths:
        path = root / name
        if not path.exists():
            raise SystemExit(f"{name} does not exist under {root}. Pass files or folders of it.")
        modules = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        found += [module.relative_to(root).as_posix() for module in modules]
    return found


def trusted(root: Path) -> list[str]:
    """Return the files of trusted code, as ``tools/sizes.py`` lists them."""
    spec = importlib.util.spec_from_file_location("sizes", root / "tools" / "sizes.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"tools/sizes.py cannot be loaded from {root}.")
    sizes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sizes)
    files = [file for ring in sizes.RINGS.values() for file in sizes.trusted(ring)]
    return [file.relative_to(root).as_posix() for file in files]


def draw(candidates: list[Breakage], count: int, seed: int) -> list[Breakage]:
    """Draw different breakages: first the function, then the kind of change, then the place.

    Every function has the same chance, whatever its length or that of its file. None is drawn twice
    before all others were drawn once. Within a function, every kind of change has the same chance:
    constants and keywords are many, removed checks are few.
    """
    generator = random.Random(seed)
    left: dict[tuple[str, str], dict[str, list[Breakage]]] = {}
    for each in candidates:
        kinds = left.setdefault((each.file, each.function), {})
        kinds.setdefault(each.operator, []).append(each)
    drawn: list[Breakage] = []
    while left and len(drawn) < count:
        for function in generator.sample(sorted(left), len(left)):
            kinds = left[function]
            kind = generator.choice(sorted(kinds))
            places = kinds[kind]
            drawn.append(places.pop(generator.randrange(len(places))))
            if not places:
                del kinds[kind]
            if not kinds:
                del left[function]
    return drawn[:count]


# ---- running tests


def tests_of(root: Path, file: str) -> list[str]:
    """Return the tests that mirror a module: the file of its name first, then its folder."""
    path = Path(file)
    package = path.parts[2:-1]  # without src/NAME and without the file
    folder = Path("tests", *package[:1])
    own = folder / f"test_{path.stem}.py"
    named = [own.as_posix()] if (root / own).exists() else []
    return [*named, folder.as_posix()] if package else named


class Checkout:
    """A temporary copy of the checkout, in which files are broken and tests are run."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = folder / "checkout"
        self.kernels = folder / "kernels"
        if folder.resolve().is_relative_to(root.resolve()):
            raise SystemExit(f"{folder} is inside the checkout. Set TMPDIR to a folder outside it.")
        shutil.copytree(root, self.root, ignore=LEFT_OUT, symlinks=True)

    def write(self, file: str, source: bytes) -> None:
        """Write a file, and remove its bytecode, which might look up to date."""
        path = self.root / file
        path.write_bytes(source)
        for bytecode in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            bytecode.unlink()

    def test(
        self, tests: list[str], seconds: float, kernels: Path | None = None
    ) -> tuple[str, str]:
        """Run tests until one fails; return "passed", "failed" or "timed out", and which failed."""
        sources = [self.root / "src", self.root / "bench" / "src"]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, sources)),
            "NUMBA_CACHE_DIR": str(kernels or self.kernels),
            "OMP_NUM_THREADS": "1",
        }
        options = ["-x", "-q", "--no-header", "--tb=no", "-rfE", "-p", "no:cacheprovider"]
        started = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = started.communicate(timeout=seconds)
        except BaseException as error:  # also an interruption: no test may be left running
            os.killpg(started.pid, signal.SIGKILL)  # the session that was started here
            started.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                return "timed out", ""
            raise
        if started.returncode == 0:
            return "passed", ""
        failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
        return "failed", failed[1] if failed else f"exit code {started.returncode}"


def is_compiled(root: Path, file: str) -> bool:
    """Return True if compiled kernels contain code or constants of a file.

    Compiled kernels are stored, and what they import from other files is stored with them. After a
    change of such a file they must be compiled again.
    """
    path = root / file
    for other in path.parent.glob("*.py"):
        text = other.read_text("utf-8")
        if re.search(r"^@(kernel|inlined|njit|intrinsic)", text, re.MULTILINE) and (
            other == path or re.search(rf"\b{path.stem}\b.* import|import .*\b{path.stem}\b", text)
        ):
            return True
    return False


def try_breakage(checkout: Checkout, breakage: Breakage, seconds: float) -> tuple[str, str]:
    """Break the copy, run the tests, mend the copy; return how it ended and the failed test."""
    path = checkout.root / breakage.file
    source = path.read_bytes()
    tests = tests_of(checkout.root, breakage.file)
    fresh = None
    if is_compiled(checkout.root, breakage.file):
        fresh = Path(tempfile.mkdtemp(dir=checkout.kernels.parent))
        seconds += 240  # kernels are compiled in about a minute on an idle machine
    try:
        checkout.write(breakage.file, breakage.apply(source))
        ended, name = checkout.test(tests, seconds, fresh)
    finally:
        checkout.write(breakage.file, source)
        if fresh is not None:
            shutil.rmtree(fresh)
    return {"passed": "survived", "failed": "caught"}.get(ended, ended), name


def time_tests(checkout: Checkout, file: str, seconds: float) -> float:
    """Return the seconds of the tests of a file, which must pass and must read the copy."""
    tests = tests_of(checkout.root, file)
    if not tests:
        raise SystemExit(f"{file} has no tests: there is no folder or file of tests of its name.")
    start = time.monotonic()
    ended, name = checkout.test(tests, seconds)
    if ended != "passed":
        print(f"The tests of {file} do not pass without a breakage ({ended} {name}).")
        raise SystemExit(2)
    needed = time.monotonic() - start
    source = (checkout.root / file).read_bytes()
    checkout.write(file, source + b"\nraise RuntimeError\n")
    ended, _ = checkout.test(tests, seconds)
    checkout.write(file, source)
    if ended != "failed":
        print(f"The tests of {file} pass even if it cannot be imported: they read another copy.")
        raise SystemExit(2)
    return needed


# ---- the report


def explained(path: Path) -> dict[tuple[str, str, str, str], str]:
    """Return the listed survivors and the reason why each is harmless."""
    if not path.exists():
        return {}
    listed = tomllib.loads(path.read_text("utf-8")).get("survivor", [])
    return {
        (each["file"], each["function"], each["before"], each["after"]): each["reason"]
        for each in listed
    }


def show(breakage: Breakage, ended: str, note: str) -> None:
    """Print one line of the table."""
    place = f"{breakage.file}:{breakage.line}"
    print(f"{ended:10} {place:40} {breakage.operator:25} {note}".rstrip(), flush=True)
    if ended == "survived":
        print(f"{'':10} in {breakage.function}", flush=True)
        print(f"{'':10} - {breakage.before}", flush=True)
        print(f"{'':10} + {breakage.after}", flush=True)


def run(root: Path, drawn: list[Breakage], minutes: float) -> int:
    """Try the breakages in a temporary copy, print a table and return the exit code."""
    known = explained(root / SURVIVORS)
    end = time.monotonic() + 60 * minutes
    counts = dict.fromkeys(("caught", "survived", "timed out"), 0)
    unexplained = 0
    with tempfile.TemporaryDirectory() as folder:
        checkout = Checkout(root, Path(folder))
        needed: dict[str, float] = {}
        for breakage in drawn:
            left = end - time.monotonic()
            if left <= 0:
                break
            tests = tests_of(root, breakage.file)[-1:]
            key = tests[0] if tests else breakage.file
            if key not in needed:
                needed[key] = time_tests(checkout, breakage.file, 1800)
            ended, note = try_breakage(checkout, breakage, 30 + 3 * needed[key])
            counts[ended] += 1
            if ended == "survived":
                note = known.get(breakage.key, "")
                unexplained += not note
            show(breakage, ended, note)
    tried = sum(counts.values())
    totals = ", ".join(f"{number} {name}" for name, number in counts.items())
    print(f"{tried} of {len(drawn)} breakages tried: {totals}; {unexplained} without a reason")
    return int(unexplained > 0)


def main(arguments: list[str] | None = None) -> int:
    """Draw breakages, try them and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    code = parser.add_mutually_exclusive_group()
    code.add_argument("--paths", nargs="+", default=list(PATHS), help="files or folders to break")
    code.add_argument("--trusted", action="store_true", help="all code that must be trusted")
    parser.add_argument("--count", type=int, default=12, help="number of breakages")
    parser.add_argument("--seed", type=int, help="of the draw; by default the day's number")
    parser.add_argument("--minutes", type=float, default=30.0, help="begin none after this time")
    parser.add_argument("--root", type=Path, default=ROOT, help="another checkout")
    given = parser.parse_args(arguments)
    seed = datetime.date.today().toordinal() if given.seed is None else given.seed
    files = files_of(given.root, trusted(given.root) if given.trusted else given.paths)
    candidates = [each for file in files for each in breakages(given.root, file)]
    functions = len({(each.file, each.function) for each in candidates})
    places = f"{functions} functions of {len(files)} files"
    print(f"{len(candidates)} possible breakages in {places}; seed {seed}", flush=True)
    return run(given.root, draw(candidates, given.count, seed), given.minutes)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the tests, removes the copy
    sys.exit(main())
