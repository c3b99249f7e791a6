"""A default fit passes through few files and functions, so that a reader can follow it."""

import importlib.util
import sys
import threading
from pathlib import Path

import pytest

from discreet import validate

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("walk", ROOT / "tools" / "walk.py")
tool = importlib.util.module_from_spec(spec)
sys.modules["walk"] = tool
spec.loader.exec_module(tool)

FILES, FUNCTIONS = 36, 243
WITH_INTERVALS = 40, 260


@pytest.mark.parametrize(
    ("inference", "limits"), [(False, (FILES, FUNCTIONS)), ("auto", WITH_INTERVALS)]
)
def test_a_default_fit_passes_through_few_files_and_functions(inference, limits):
    functions = tool.walks(lambda: tool.fit(inference=inference))[0]
    assert len(functions) > 50
    assert len(tool.files_of(functions)) <= limits[0]
    assert len(functions) <= limits[1], sorted(functions)


def test_functions_are_counted_in_the_order_of_their_first_call_and_in_all_threads():
    def checked():
        return [validate.number("epsilon", value) for value in (1.0, 2.0)]

    def call():
        validate.integer("count", 3)
        thread = threading.Thread(target=checked)
        thread.start()
        thread.join()

    found = tool.walk(call)
    names = [name for _, name in found]
    assert found["validate.py", "integer"] == 1
    assert found["validate.py", "number"] == 2
    assert names.index("integer") < names.index("number")
    assert tool.files_of(found) == ["validate.py"]


def test_a_call_that_fails_leaves_no_profiler():
    before = sys.getprofile()
    with pytest.raises(ZeroDivisionError):
        tool.walk(lambda: 1 / 0)
    assert sys.getprofile() is before
    assert threading.getprofile() is None


def test_the_command_is_followed_and_listed(tmp_path, capsys):
    tool.write_table(tmp_path)
    tool.command(tmp_path)
    found = tool.walk(lambda: tool.command(tmp_path))
    assert ("cli/fit.py", "fit") in found
    tool.show("discreet fit", [found], listed=True)
    shown = capsys.readouterr().out
    assert f"{len(tool.files_of(found))} files" in shown
    assert "\n  cli/fit.py: " in shown
    (tmp_path / "people.csv").write_text("age\n1\n", "utf-8")
    with pytest.raises(SystemExit, match="exit code"):
        tool.command(tmp_path)
