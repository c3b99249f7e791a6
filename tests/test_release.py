"""What a release is made of: versions agree, the lock is complete, materials and addresses hold."""

import importlib.util
import json
import re
import tomllib
from pathlib import Path

import pytest

import discreet

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release = tool("release")


def test_all_files_state_the_same_version():
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1]
    assert discreet.__version__ == PROJECT["version"] == cited


def locked():
    text = (ROOT / "requirements.lock").read_text("utf-8")
    return text, dict(re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", text, re.MULTILINE))


def test_the_lock_has_every_dependency_with_a_hash_and_no_address():
    text, versions = locked()
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["cli"], *extras["tables"], *extras["report"]]
    names = {release.needed(each) for each in wanted} - {"discreet"}
    assert names <= set(versions)
    entries = re.split(r"\n(?=[a-z])", text.split("make lock\n")[1].strip())
    assert len(entries) >= len(versions)
    hashes = {entry.split("==")[0]: entry.count("--hash=sha256:") for entry in entries}
    assert min(hashes.values()) >= 1
    compiled = ("numpy", "scipy", "scikit-learn", "numba", "llvmlite", "msgspec", "kiwisolver")
    few = {name: hashes[name] for name in compiled if hashes[name] < 8}
    assert few == {}, "a lock holds the files of all versions of Python and all machines"
    assert "://" not in text
    assert "--index" not in text


def test_the_lock_satisfies_the_ranges():
    packaging = pytest.importorskip("packaging.requirements")
    _, versions = locked()
    for each in PROJECT["dependencies"]:
        wanted = packaging.Requirement(each)
        assert versions[release.normal(wanted.name)] in wanted.specifier


def test_a_bill_of_materials_lists_all_and_what_needs_what(tmp_path):
    wheel = tmp_path / "discreet-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    listed = [
        ["discreet", "0.1.0", "Apache-2.0", ["numpy>=1.26", 'typer>=0.12; extra == "cli"']],
        ["numpy", "2.4.0", "", []],
        ["Typing_Extensions", "4.0", "PSF-2.0", ["other"]],
    ]
    made = release.bill(wheel, listed)
    json.dumps(made)
    assert made["bomFormat"] == "CycloneDX"
    own = made["metadata"]["component"]
    assert own["hashes"][0]["content"] == release.checksum(wheel)
    assert [each["purl"] for each in made["components"]] == [
        "pkg:pypi/numpy@2.4.0",
        "pkg:pypi/typing-extensions@4.0",
    ]
    needs = {each["ref"]: each["dependsOn"] for each in made["dependencies"]}
    assert needs["pkg:pypi/discreet@0.1.0"] == ["pkg:pypi/numpy@2.4.0"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("numpy>=1.26", "numpy"),
        ("Scikit_Learn (>=1.6)", "scikit-learn"),
        ("psycopg[binary]>=3.1; extra == 'postgres'", "psycopg"),
        ("ruamel.yaml", "ruamel-yaml"),
    ],
)
def test_names_of_requirements(text, name):
    assert release.needed(text) == name


def test_addresses_come_from_whoever_releases(monkeypatch):
    pytest.importorskip("hatchling")
    urls = tool("project_urls")
    hook = urls.ProjectUrls(str(ROOT), {})
    monkeypatch.delenv("DISCREET_REPOSITORY", raising=False)
    found = {}
    hook.update(found)
    assert found == {"urls": {}}
    monkeypatch.setenv("DISCREET_REPOSITORY", "https://example.org/discreet/")
    hook.update(found)
    assert found["urls"]["Issues"] == "https://example.org/discreet/issues"
    monkeypatch.setenv("DISCREET_REPOSITORY", "example.org")
    with pytest.raises(ValueError, match="https://"):
        hook.update(found)


def test_a_container_runs_without_root_and_installs_what_is_locked():
    text = (ROOT / "Containerfile").read_text("utf-8")
    last = text[text.rindex("\nFROM ") :]
    assert re.search(r"^USER 10001:10001$", last, re.MULTILINE)
    assert last.index("USER") > last.rindex("RUN")
    assert "--require-hashes -r requirements.lock" in text
    for copied in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE):
        assert all((ROOT / path).exists() for path in copied.split())
    job = (ROOT / "examples" / "scheduled_job" / "cronjob.yaml").read_text("utf-8")
    for demand in ("runAsNonRoot: true", "readOnlyRootFilesystem: true", "drop: [ALL]"):
        assert demand in job
