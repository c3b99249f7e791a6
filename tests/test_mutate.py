"""tools/mutate.py on a planted package: weak tests leave survivors, strong ones catch them."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("mutate", ROOT / "tools" / "mutate.py")
mutate = importlib.util.module_from_spec(spec)
sys.modules["mutate"] = mutate
spec.loader.exec_module(mutate)

PLANTED = '''"""A module."""

__all__ = ["charge"]


def charge(cost: int = 3, *, left):
    """Return what is left: ε."""
    if not cost > 0:
        raise ValueError(f"Cost {cost + 1} must be positive.")
    return max(left - 2 * cost, 0)
'''
WEAK = "from pack.part.code import charge\n\ndef test_zero():\n    assert charge(5, left=1) == 0\n"
STRONG = """import pytest
from pack.part.code import charge

def test_value():
    assert charge(1, left=9) == 7
    assert charge(5, left=9) == 0
    assert charge(left=9) == 3

def test_refusal():
    with pytest.raises(ValueError, match="positive"):
        charge(0, left=1)
"""


@pytest.fixture
def planted(tmp_path):
    """A checkout with one module, and the function that writes its tests."""
    source = tmp_path / "src" / "pack" / "part"
    tests = tmp_path / "tests" / "part"
    source.mkdir(parents=True)
    tests.mkdir(parents=True)
    (source / "code.py").write_text(PLANTED, "utf-8")

    def write(text):
        (tests / "test_code.py").write_text(text, "utf-8")
        return tmp_path

    return write


def found(root):
    return mutate.breakages(root, "src/pack/part/code.py")


def test_every_kind_of_breakage_is_found_and_texts_are_left_alone(planted):
    changes = {each.operator: each for each in found(planted(WEAK))}
    assert changes["not dropped"].after == "if (cost > 0):"
    assert changes["comparison negated"].after == "if not (cost <= 0):"
    assert changes["condition always true"].after == "if True:"
    assert changes["condition always false"].after == "if False:"
    assert changes["raise removed"].after == "pass"
    assert changes["min and max swapped"].after == "return min(left - 2 * cost, 0)"
    assert changes["times becomes divided by"].after == "return max(left - (2 / cost), 0)"
    assert {each.function for each in changes.values()} == {"charge"}
    assert "plus becomes minus" not in changes  # the only plus is in a message
    doubled = [each.after for each in found(planted(WEAK)) if each.operator == "constant doubled"]
    assert doubled == ["def charge(cost: int = 6, *, left):", "return max(left - 4 * cost, 0)"]


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("f(x, weights=w, clip=c)", ["(f(x, clip=c))", "(f(x, weights=w))"]),
        ("zip(x, y, strict=True)", []),
        ("x.minimum(y)", ["(x.maximum)(y)"]),
        ("x += y", ["x -= y"]),
        ("x = 'a' + y", []),
        ("x = a is not None", ["x = (a is None)"]),
        ("raise NotImplementedError", []),
        ("é = 'ü'; x = a + b", ["é = 'ü'; x = (a - b)"]),
    ],
)
def test_breakages_of_one_line(tmp_path, line, after):
    (tmp_path / "line.py").write_text(line + "\n", "utf-8")
    made = mutate.breakages(tmp_path, "line.py")
    assert sorted(each.after for each in made) == sorted(after)
    assert all(each.before == line for each in made)


@pytest.mark.process
def test_a_weak_test_leaves_survivors_and_a_strong_one_none(planted, capsys):
    root = planted(WEAK)
    chosen = [each for each in found(root) if each.operator in ("raise removed", "not dropped")]
    assert mutate.run(root, chosen, minutes=5) == 1
    shown = capsys.readouterr().out
    assert "1 caught, 1 survived, 0 timed out; 1 without a reason" in shown
    assert "caught     src/pack/part/code.py:8 " in shown
    assert "survived   src/pack/part/code.py:9 " in shown
    assert "+ pass" in shown
    root = planted(STRONG)
    assert mutate.run(root, chosen, minutes=5) == 0
    assert "2 caught, 0 survived" in capsys.readouterr().out
    assert (root / "src/pack/part/code.py").read_text("utf-8") == PLANTED


@pytest.mark.process
def test_a_survivor_with_a_reason_is_accepted(planted, capsys):
    root = planted(WEAK)
    (only,) = [each for each in found(root) if each.operator == "raise removed"]
    (root / "tools").mkdir()
    entry = {"file": only.file, "function": only.function, "reason": "Planted on purpose."}
    entry |= {"before": only.before, "after": only.after}
    lines = [f"{name} = '''{value}'''" for name, value in entry.items()]
    (root / "tools" / "survivors.toml").write_text("\n".join(["[[survivor]]", *lines]), "utf-8")
    assert mutate.run(root, [only], minutes=5) == 0
    assert "Planted on purpose." in capsys.readouterr().out


@pytest.mark.process
def test_time_limits(planted, capsys):
    root = planted(STRONG)
    assert mutate.run(root, found(root)[:1], minutes=0) == 0
    assert "0 of 1 breakages tried" in capsys.readouterr().out
    (root / "src/pack/part/code.py").write_text("def charge():\n    return 1\n", "utf-8")
    slow = "import time\nfrom pack.part.code import charge\ndef test():\n"
    planted(slow + "    time.sleep(60 * (charge() - 1))\n")
    (only,) = found(root)
    checkout = mutate.Checkout(root, root.parent / "copy")
    assert mutate.try_breakage(checkout, only, 3.0) == ("timed out", "")
    assert (checkout.root / only.file).read_text("utf-8") == "def charge():\n    return 1\n"


@pytest.mark.process
def test_a_run_that_is_ended_leaves_no_test_and_no_copy(planted, tmp_path, tmp_path_factory):
    root = planted(f"import os, time\nfrom pathlib import Path\ndef test():\n"
                   f"    Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n"
                   "    time.sleep(60)\n")  # fmt: skip
    copies = tmp_path_factory.mktemp("copies")
    command = [sys.executable, ROOT / "tools" / "mutate.py", "--root", root, "--paths", "src"]
    started = subprocess.Popen(command, env=os.environ | {"TMPDIR": str(copies)})
    written = tmp_path / "pid"
    end = time.monotonic() + 60
    while not (written.exists() and written.read_text()) and time.monotonic() < end:
        time.sleep(0.05)
    started.terminate()
    assert started.wait(30) == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int(written.read_text()), 0)
    assert list(copies.iterdir()) == []


@pytest.mark.process
def test_tests_that_fail_or_read_another_copy_are_refused(planted, capsys):
    root = planted(STRONG + "\ndef test_bad():\n    assert False\n")
    with pytest.raises(SystemExit) as ended:
        mutate.run(root, found(root)[:1], minutes=5)
    assert ended.value.code == 2
    assert "do not pass without a breakage" in capsys.readouterr().out
    planted("def test_nothing():\n    pass\n")
    with pytest.raises(SystemExit) as ended:
        mutate.run(root, found(root)[:1], minutes=5)
    assert ended.value.code == 2
    assert "another copy" in capsys.readouterr().out


def test_a_copy_inside_the_checkout_is_refused(planted, tmp_path):
    with pytest.raises(SystemExit, match="TMPDIR"):
        mutate.Checkout(planted(WEAK), tmp_path / "inside")


def test_the_draw_is_reproducible_without_repeats_and_of_all_kinds(planted):
    every = found(planted(WEAK))
    drawn = mutate.draw(every, 6, seed=1)
    assert drawn == mutate.draw(every, 6, seed=1)
    assert drawn != mutate.draw(every, 6, seed=2)
    assert sorted(map(repr, mutate.draw(every, 1000, seed=3))) == sorted(map(repr, every))


def test_every_function_is_drawn_once_before_any_is_drawn_twice(tmp_path):
    long = "def long(x):\n" + "    x = x + 1\n" * 200 + "    return x\n"
    short = [f"def short_{k}(x):\n    return 2 * x\n" for k in range(9)]
    (tmp_path / "long.py").write_text(long, "utf-8")
    (tmp_path / "short.py").write_text("\n\n".join(short), "utf-8")
    (tmp_path / "other.py").write_text("def other(x):\n    return x + 1\n", "utf-8")
    files = mutate.files_of(tmp_path, ["long.py", "short.py", "other.py"])
    every = [each for file in files for each in mutate.breakages(tmp_path, file)]
    for seed in range(20):
        drawn = mutate.draw(every, 22, seed)
        names = [(each.file, each.function) for each in drawn]
        assert len(set(names[:11])) == 11
        assert len(set(names[11:])) == 11
    first = {mutate.draw(every, 1, seed)[0].function for seed in range(200)}
    assert len(first) == 11  # a function is missed with a probability of 11 * (10/11)**200 < 1e-7


def test_all_trusted_code_can_be_broken_and_has_tests(planted, capsys):
    paths = mutate.trusted(ROOT)
    assert {"src/discreet/core/curator.py", "src/discreet/rows/sums.py"} <= set(paths)
    assert "src/discreet/exact/minimise.py" not in paths
    files = mutate.files_of(ROOT, paths)
    assert len(files) == len(set(files))
    assert [file for file in files if not mutate.tests_of(ROOT, file)] == []
    root = planted(STRONG)
    (root / "src" / "pack" / "part" / "more.py").write_text("def more(x):\n    return 2 * x\n")
    (root / "tools").mkdir()
    (root / "tools" / "sizes.py").write_text(
        "from pathlib import Path\n"
        'SOURCE = Path(__file__).parents[1] / "src" / "pack"\n'
        'RINGS = {"1. all": ("part",)}\n'
        "def trusted(ring):\n"
        '    return sorted((SOURCE / ring[0]).rglob("*.py"))\n'
    )
    assert mutate.main(["--root", str(root), "--trusted", "--count", "0"]) == 0
    assert "in 2 functions of 2 files" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        mutate.main(["--root", str(root), "--trusted", "--paths", "src"])
    assert "not allowed with" in capsys.readouterr().err


def test_kernels_are_compiled_again_if_their_code_or_constants_change():
    for name in ("kernels", "bounds", "vector_kernels"):
        assert mutate.is_compiled(ROOT, f"src/discreet/rows/{name}.py")
    assert not mutate.is_compiled(ROOT, "src/discreet/core/account.py")


def test_every_listed_survivor_exists_and_has_a_reason():
    listed = mutate.explained(ROOT / mutate.SURVIVORS)
    files = {key[0] for key in listed}
    known = {each.key for file in files for each in mutate.breakages(ROOT, file)}
    assert listed.keys() - known == set()
    assert [reason for reason in listed.values() if len(reason.split()) < 6] == []
