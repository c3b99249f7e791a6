"""Faults of the machine and signals: what was written, what is spent, and how to go on."""

import ast
import errno
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path

import pytest

import discreet
from discreet import cli, files
from discreet.cli import state
from discreet.cli.app import describe_error, run
from discreet.cli.exits import Exit, as_options
from discreet.core import Budget
from discreet.errors import EngineError, LedgerError, ModelFileError, PrivacyError, TableError

SOURCE = Path(discreet.__file__).parent


@pytest.fixture
def ledger(tmp_path):
    """The path of a ledger, and its data set."""
    (tmp_path / "ledger").mkdir()
    path = tmp_path / "ledger" / "l.sqlite"
    return path, discreet.Ledger(path).create("people", Budget(9.0, 1e-5, "add_remove"))


@pytest.fixture
def out(tmp_path):
    """An empty folder for outputs."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def command(people, model, *more):
    return [
        *("fit", str(people / "people.csv"), "--schema", str(people / "people.toml")),
        *("--epsilon", "3", "--delta", "1e-6", "--output", str(model), *more),
    ]


def charged(path):
    return ["--ledger", str(path), "--dataset", "people"]


def said(capsys):
    return " ".join(capsys.readouterr().err.split())


def full(*_args, **_rest):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class TestFullDisk:
    @pytest.mark.parametrize("what", ["fit", "draft"])
    def test_it_is_found_before_a_row_is_read(self, people, out, ledger, capsys, monkeypatch, what):
        monkeypatch.setattr(os, "posix_fallocate", full)
        for reading in ("read", "draft_private"):
            monkeypatch.setattr(f"discreet.tables.{reading}", lambda *_a, **_k: pytest.fail("read"))
        path, dataset = ledger
        if what == "fit":
            asked = command(people, out / "m.json", *charged(path))
        else:
            asked = ["schema", "draft", str(people / "people.csv"), "--epsilon", "1", "--header"]
            asked += ["-o", str(out / "s.toml"), *charged(path)]
        assert run(asked) == Exit.UNEXPECTED
        text = said(capsys)
        assert "no space left on device" in text
        assert "Nothing was read, and nothing is spent" in text
        assert dataset.entries == 0
        assert list(out.iterdir()) == []

    def test_the_space_is_held_during_the_fit(self, people, out, monkeypatch):
        held = []
        read = discreet.tables.read

        def watched(*arguments, **more):
            handles = [fd for fd in os.listdir("/proc/self/fd") if _target(fd).startswith(str(out))]
            held.extend(os.fstat(int(fd)).st_blocks * 512 for fd in handles)
            return read(*arguments, **more)

        monkeypatch.setattr("discreet.tables.read", watched)
        assert run(command(people, out / "m.json")) == Exit.OK
        assert held
        assert max(held) >= (out / "m.json").stat().st_size
        assert [path.name for path in out.iterdir()] == ["m.json"]

    def test_a_model_that_cannot_be_written_is_kept(
        self, people, out, ledger, capsys, monkeypatch, tmp_path
    ):
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
        _refuse(monkeypatch, out)
        path, dataset = ledger
        assert run(command(people, out / "m.json", *charged(path))) == Exit.UNEXPECTED
        text = said(capsys).replace(" ", "")  # paths are wrapped in a panel
        (kept,) = elsewhere.iterdir()
        assert str(kept) in text
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert discreet.load(kept).guarantee_.epsilon == 3
        entry = dataset.records()[0]["entry"]
        assert f"Entry{entry}oftheledger" in text
        assert "countsε=3,δ=1e-06,whichisspent" in text
        assert "Donotrepeatthecommand" in text
        assert list(out.iterdir()) == []
        assert dataset.records()[0]["model"]  # the file that was kept is noted

    def test_without_a_second_place_it_goes_to_standard_output(
        self, people, out, tmp_path, capsys, monkeypatch
    ):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
        _refuse(monkeypatch, out)
        assert run(command(people, out / "m.json")) == Exit.UNEXPECTED
        shown = capsys.readouterr()
        (tmp_path / "m.json").write_text(shown.out)
        assert discreet.load(tmp_path / "m.json").guarantee_.epsilon == 3
        assert "kept on standard output" in " ".join(shown.err.split())
        assert "ε = 3, δ = 1e-06 is spent" in " ".join(shown.err.split())

    def test_a_private_draft_is_kept_as_well(self, people, out, tmp_path, capsys, monkeypatch):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
        _refuse(monkeypatch, out)
        asked = ["schema", "draft", str(people / "people.csv"), "--epsilon", "2", "--header"]
        assert run([*asked, "-o", str(out / "s.toml")]) == Exit.UNEXPECTED
        shown = capsys.readouterr()
        assert discreet.tables.Schema.from_toml(shown.out).spent.epsilon == 2
        assert "ε = 2, δ = 1e-09 is spent" in " ".join(shown.err.split())

    @pytest.mark.process
    def test_a_real_small_disk(self, people, tmp_path, ledger):
        path, _ = ledger
        mounted = tmp_path / "small"
        mounted.mkdir()
        fill = f"mount -t tmpfs -o size=2m none {mounted} && cd {tmp_path}"
        words = [sys.executable, "-m", "discreet", *command(people, mounted / "m.json")]
        words += charged(path)
        script = f"{fill} && head -c 1800000 /dev/zero > {mounted}/f && {' '.join(words)}"
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=300
        )
        if "unshare" in done.stderr or "mount" in done.stderr:
            pytest.skip("needs the right to mount")
        assert done.returncode == Exit.UNEXPECTED
        assert "Nothing was read, and nothing is spent" in " ".join(done.stderr.split())
        assert discreet.Ledger(path).open("people").entries == 0


def _target(fd):
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""


def _refuse(monkeypatch, folder):
    """Let writing fail in a folder, after its space was reserved."""
    replace = os.replace

    def refuse(source, target):
        if Path(target).parent == folder:
            full()
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)


class ArrowMemoryError(MemoryError):
    """As that of pyarrow."""


class TestMemory:
    @pytest.mark.parametrize(
        "error",
        [
            MemoryError("SECRET-7391"),
            ArrowMemoryError("malloc of size SECRET-7391"),
            OSError(errno.ENOMEM, "SECRET-7391"),
            OSError("SECRET-7391.so: cannot allocate memory in static TLS block"),
            ImportError("SECRET-7391: failed to map segment from shared object"),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_its_end_is_named_while_reading(self, people, out, capsys, monkeypatch, error):
        def fail(*_args, **_rest):
            raise error

        monkeypatch.setattr("discreet.tables.read", fail)
        assert run(command(people, out / "m.json")) == Exit.UNEXPECTED
        text = said(capsys)
        assert "Memory ran out" in text
        assert "--memory" in text
        assert "nothing is spent" in text
        assert "SECRET" not in text
        assert list(out.iterdir()) == []

    def test_what_a_ledger_was_charged_is_said(self, people, out, ledger, capsys, monkeypatch):
        path, dataset = ledger
        asked = command(people, out / "m.json", *charged(path))

        def fail(*_args, **_rest):
            raise MemoryError

        with monkeypatch.context() as patched:
            patched.setattr("discreet.tables.read", fail)
            assert run(asked) == Exit.UNEXPECTED
            assert "Nothing was charged to the ledger" in said(capsys)
        with monkeypatch.context() as patched:  # charged, but before a row is read
            patched.setattr("discreet.core.account.PrivacyFilter", fail)
            assert run(asked) == Exit.UNEXPECTED
        entry = dataset.records()[-1]["entry"]
        assert f"Entry {entry} of the ledger, data set 'people', was returned" in said(capsys)
        assert dataset.spent == 0
        monkeypatch.setattr("discreet.cli.screen.Screen.bar", _bar(fail))
        assert run(asked) == Exit.UNEXPECTED
        entry = dataset.records()[-1]["entry"]
        text = said(capsys)
        assert f"Entry {entry} of the ledger, data set 'people', counts ε = 3" in text
        assert "which is spent" in text
        assert dataset.spent > 2

    def test_an_error_that_it_led_to_is_named_as_well(self):
        state.begin()
        with pytest.raises(TableError) as caught:  # noqa: PT012
            try:
                raise MemoryError
            except MemoryError:
                raise TableError("t.csv cannot be read") from None
        assert "Memory ran out" in describe_error(caught.value)[1]


SCRIPT = """
    import ctypes, os, signal, sys, time
    import discreet.tables
    from discreet.cli import main

    class Aborts:  # as a library whose threads still run
        def __del__(self):
            os.abort()

    libc = ctypes.CDLL(None)  # and as one that aborts when the process ends in the usual way
    libc.__cxa_atexit(ctypes.cast(libc.abort, ctypes.c_void_p), None, None)

    def read(*args, **more):
        reader = Aborts()
        os.kill(os.getpid(), signal.{signal})
        time.sleep(60)

    discreet.tables.read = read
    sys.argv[1:] = {arguments!r}
    main()
"""


@pytest.mark.process
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_signals_end_a_command_with_a_report_and_no_abort(people, out, ledger, name, code):
    path, dataset = ledger
    arguments = command(people, out / "m.json", *charged(path), "--log", str(path) + ".log")
    script = textwrap.dedent(SCRIPT.format(signal=name, arguments=arguments))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stderr
    assert "No file was written" in done.stderr
    assert "Nothing was charged to the ledger" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert list(out.iterdir()) == []
    assert dataset.entries == 0
    assert f"Exit code {code}" in Path(f"{path}.log").read_text()


def test_an_interrupt_within_a_fit_says_that_the_entry_counts(
    people, out, ledger, capsys, monkeypatch
):
    path, dataset = ledger

    def interrupt(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr("discreet.cli.screen.Screen.bar", _bar(interrupt))
    monkeypatch.setattr(cli, "_signal", signal.SIGTERM)
    assert run(command(people, out / "m.json", *charged(path))) == Exit.TERMINATED
    (record,) = dataset.records()
    text = said(capsys)
    assert record["status"] == "reserved"
    assert "Ended by SIGTERM. No file was written." in text
    assert f"Entry {record['entry']} of the ledger, data set 'people', counts ε = 3" in text
    assert list(out.iterdir()) == []


def _bar(interrupt):
    from contextlib import contextmanager

    def show(share, what=""):
        if "fitting" in what:
            interrupt(share)

    @contextmanager
    def bar(_screen, _what):
        yield show

    return bar


@pytest.mark.process
def test_forked_workers_end_by_the_signal_itself():
    script = """
        import os, signal, time
        from discreet.cli import handle_signals
        handle_signals()
        child = os.fork()
        if not child:
            time.sleep(60)
            os._exit(0)
        time.sleep(0.2)
        os.kill(child, signal.SIGTERM)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == f"{-signal.SIGTERM}\n"
    assert done.stderr == ""


def test_an_evaluation_that_cannot_be_shown_says_that_it_is_spent(people, out, capsys, monkeypatch):
    assert run(command(people, out / "m.json")) == Exit.OK
    monkeypatch.setattr("discreet.cli.screen.Screen.result", full)
    asked = ["evaluate", str(out / "m.json"), str(people / "held-out.csv"), "--epsilon", "0.5"]
    assert run(asked) == Exit.UNEXPECTED
    text = said(capsys)
    assert "no space left on device" in text
    assert "ε = 0.5, δ = 0 is spent." in text


# ---- messages


def _texts():
    """All texts of the library that a message could be, with a number for each inserted value."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        left_out = set()
        for node in ast.walk(tree):
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
                left_out.add(body[0].value)  # a docstring
            if isinstance(node, ast.JoinedStr):
                left_out.update(node.values)
        for node in ast.walk(tree):
            text = None if node in left_out else _text(node)
            if text is not None and " " in text and "<" not in text:
                yield f"{path.relative_to(SOURCE)}:{node.lineno}", text


def _text(node):
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(value) or "7" for value in node.values)
    return None


def _options():
    """All options of the command."""
    from typer.main import get_command

    from discreet.cli.app import _application
    from discreet.cli.screen import Screen

    found, waiting = set(), [get_command(_application(["fit"], Screen()))]
    while waiting:
        each = waiting.pop()
        waiting += getattr(each, "commands", {}).values()
        found |= {name for option in each.params for name in (*option.opts, *option.secondary_opts)}
    return found


def test_every_message_names_options_or_says_that_python_is_needed():
    options = _options()
    # Keywords of Python, which only look like options of the command.
    namesakes = {"target", "columns", "seed"}
    keyword = re.compile(r"(?<![\w-])([a-z]\w*)=(?!=)")
    checked = 0
    for where, text in _texts():
        shown = as_options(text)
        message, _, rest = shown.partition(" (The command has no option for ")
        for name in keyword.findall(message):
            option = f"--{name.replace('_', '-')}"
            assert name in namesakes or option not in options, f"{where}: {shown}"
            assert name in rest.partition(":")[0].split(", "), f"{where}: {shown}"
            checked += 1
        if message != text:  # what replaced a keyword exists
            for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", message):
                assert option in options, f"{where}: {shown}"
                checked += 1
    assert checked > 100


def test_a_message_of_the_system_and_one_of_ours_keep_their_capitals(
    people, out, capsys, monkeypatch, tmp_path
):
    def write(array, _data):
        array._fail(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), 880_000)

    monkeypatch.setattr("discreet.tables.storage.GrowingArray._write", write)
    more = ["--memory", "1kB", "--temp-folder", str(tmp_path)]
    assert run(command(people, out / "m.json", *more)) == Exit.UNEXPECTED
    text = said(capsys)
    assert re.search(r"no space for an encoded table of 0.00088 GB or more", text)
    assert "pass --temp-folder with one on a larger disk, or a larger --memory." in text
    assert "Nothing was left behind." in text
    assert "nothing is spent" in text


def test_the_text_of_a_foreign_system_error_is_withheld():
    state.begin()
    try:
        exec(compile("raise OSError(5, 'SECRET-7391')", "foreign.py", "exec"))
    except OSError as error:
        shown = describe_error(error)[1]
    assert "SECRET" not in shown
    assert "OSError in foreign.py" in shown


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TableError("x"), Exit.DATA),
        (PrivacyError("x"), Exit.PRIVACY),
        (discreet.BudgetExceeded("x"), Exit.PRIVACY),
        (discreet.NotSupported("x"), Exit.PRIVACY),
        (ModelFileError("x"), Exit.MODEL),
        (LedgerError("x"), Exit.LEDGER),
        (EngineError("x"), Exit.UNEXPECTED),
    ],
    ids=lambda value: type(value).__name__,
)
def test_errors_have_one_code_in_the_library_and_in_the_command(error, code):
    state.begin()
    assert error.exit_code == code
    assert describe_error(error) == (code, "x")


def test_no_meaning_of_a_code_speaks_of_fit():
    assert not [code for code in Exit if re.search(r"\bfit\b", code.meaning)]


# ---- warnings


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["boxes", "json"])
def test_a_warning_is_shown_once_with_its_count(people, out, capsys, monkeypatch, form):
    read = discreet.tables.read

    def warned(*arguments, **more):
        for _ in range(10):
            with warnings.catch_warnings():
                warnings.simplefilter("always")
                warnings.warn("Leave random_state=None for real data.", stacklevel=1)
        return read(*arguments, **more)

    monkeypatch.setattr("discreet.tables.read", warned)
    assert run(command(people, out / "m.json", *form)) == Exit.OK
    text = capsys.readouterr().err
    assert text.count("Leave out --test-seed for real data.") == 1
    assert ('"times": 10' if form else "Warning (10 times)") in text


def test_warnings_come_before_the_error(people, out, capsys, monkeypatch):
    def fail(*_args, **_rest):
        warnings.warn("A remark.", stacklevel=1)
        raise MemoryError

    monkeypatch.setattr("discreet.tables.read", fail)
    assert run(command(people, out / "m.json")) == Exit.UNEXPECTED
    text = capsys.readouterr().err
    assert text.index("A remark.") < text.index("Memory ran out")


# ---- space


def test_space_is_written_to_where_it_cannot_be_reserved(tmp_path, monkeypatch):
    sizes = []
    monkeypatch.delattr(os, "posix_fallocate")
    with files.reserved(tmp_path / "f", 200_001):
        for fd in os.listdir("/proc/self/fd"):
            if _target(fd).startswith(str(tmp_path)):
                sizes.append(os.fstat(int(fd)).st_size)
    assert sizes == [200_001]
    assert list(tmp_path.iterdir()) == []


def test_an_error_within_the_block_is_not_one_of_space(tmp_path):
    inner = OSError(errno.ENOSPC, "inner", "other")
    with pytest.raises(OSError, match="inner") as caught, files.reserved(tmp_path / "f", 10):
        raise inner
    assert caught.value is inner
