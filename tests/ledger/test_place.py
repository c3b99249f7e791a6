"""The file of a ledger: its one name, who may read it, and where it lies."""

import os
import shutil
import stat
import subprocess
import sys
import textwrap
from fractions import Fraction

import pytest

from discreet import Ledger
from discreet.core import Budget
from discreet.errors import LedgerError
from discreet.ledger import sqlite

LIMIT = Budget(3.0, 1e-6, "add_remove")
FIT = Budget(0.5, 1e-6, "add_remove")


def charge(dataset):
    return dataset.charge("gdp", Fraction(0.01), Fraction(0), FIT)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "visits.sqlite"


@pytest.fixture
def visits(path):
    return Ledger(path).create("visits", LIMIT)


def test_a_hard_link_is_refused_under_both_names(path, visits):
    other = path.with_name("other.sqlite")
    os.link(path, other)
    with pytest.raises(LedgerError, match=r"has 2 names .*other\.sqlite.*Nothing was charged"):
        charge(visits)
    for ask in (Ledger(other).list, Ledger(other).verify, lambda: Ledger(path).open("visits")):
        with pytest.raises(LedgerError, match="hard links"):
            ask()
    with pytest.raises(LedgerError, match="hard links"):
        Ledger(other).create("others", LIMIT)
    other.unlink()
    charge(visits)
    assert visits.entries == 1


def test_a_hard_link_in_another_folder_is_refused(path, visits, tmp_path):
    (tmp_path / "in").mkdir()
    os.link(path, tmp_path / "in" / "visits.sqlite")
    with pytest.raises(LedgerError, match=r"others: in other folders.*find / -samefile"):
        charge(visits)


def test_a_symbolic_link_is_the_same_name(path, visits):
    other = path.with_name("other.sqlite")
    other.symlink_to(path)
    charge(Ledger(other).open("visits"))
    charge(visits)
    assert visits.entries == 2


def test_a_file_that_is_a_mount_point_is_refused(path, visits, monkeypatch):
    lines = "1 0 0:1 / / rw - ext4 /dev/a rw\n"
    monkeypatch.setattr(sqlite.Path, "read_text", lambda *_: lines)
    charge(visits)
    odd = path.with_name("odd name\\\t.sqlite")
    Ledger(odd).create("visits", LIMIT)
    escaped = str(odd).replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")
    lines += f"2 1 0:2 /l {path} rw shared:1 - ext4 /dev/a rw\n"
    lines += f"3 1 0:2 /l {escaped} rw - ext4 /dev/a rw\n"
    with pytest.raises(LedgerError, match=r"itself a mount point.*Mount the folder"):
        charge(visits)
    for found in (path, odd):
        with pytest.raises(LedgerError, match="Nothing was charged"):
            Ledger(found).open("visits")
    link = path.with_name("link")
    link.symlink_to(path)
    with pytest.raises(LedgerError, match="mount point"):
        Ledger(link).list()
    lines = f"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {path.parent} rw - ext4 /dev/a rw\n"
    charge(visits)  # a folder may be mounted


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file")
def test_a_mounted_file_is_refused_and_a_mounted_folder_is_not(path, visits, tmp_path):
    program = shutil.which("unshare")
    if program is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("there is no unshare")
    alone = [program, "--mount", "--propagation", "private"]
    if subprocess.run([*alone, "true"], capture_output=True).returncode != 0:
        pytest.skip("needs the right to mount")
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "visits.sqlite").touch()
    (tmp_path / "folder").mkdir()
    code = """
        import sys
        from discreet import Ledger
        try:
            Ledger(sys.argv[1]).open("visits").add(rho=0.01)
        except Exception as error:
            print(type(error).__name__, error)
    """
    python = [sys.executable, "-c", textwrap.dedent(code)]

    def mounted(source, target, place):
        mount = f'mount --bind "{source}" "{target}" && exec "$@"'
        line = [*alone, "sh", "-c", mount, "sh", *python, str(place)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    inside = tmp_path / "file" / "visits.sqlite"
    said = mounted(path, inside, inside)
    assert "LedgerError" in said
    assert "itself a mount point" in said
    assert visits.entries == 0
    assert mounted(path.parent, tmp_path / "folder", tmp_path / "folder" / "visits.sqlite") == ""
    assert visits.entries == 1


def test_creation_leaves_one_name_and_no_other_file(path, visits):
    assert path.stat().st_nlink == 1
    assert [each.name for each in path.parent.iterdir() if each.name != "state"] == [path.name]


def test_the_file_has_one_name_from_its_first_moment(path, monkeypatch):
    """A process that comes between the two steps of a creation finds no second name."""
    seen = []
    real = sqlite.Path.unlink

    def unlink(self, *arguments, **settings):
        seen.append(path.exists() and path.stat().st_nlink)
        return real(self, *arguments, **settings)

    monkeypatch.setattr(sqlite.Path, "unlink", unlink)
    Ledger(path).create("visits", LIMIT)
    assert seen == [1]


def test_of_two_creators_the_first_wins(path, monkeypatch):
    real = sqlite.make_private

    def late(part):
        monkeypatch.setattr(sqlite, "make_private", real)
        Ledger(path).create("first", LIMIT)
        real(part)

    monkeypatch.setattr(sqlite, "make_private", late)
    Ledger(path).create("second", LIMIT)
    assert [each.name for each in Ledger(path).list()] == ["first", "second"]
    assert list(path.parent.glob(".*")) == []


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_others_may_not_read_a_ledger_nor_its_log_nor_the_mark(path, umask, state_folder):
    visits = Ledger(path).create("visits", LIMIT)
    charge(visits)
    with visits.book.begin(write=True):
        found = {
            each: mode(path.with_name(f"visits.sqlite{each}")) for each in ("", "-wal", "-shm")
        }
    assert set(found.values()) == {0o660 & ~umask}
    (mark,) = state_folder.glob("discreet/*.mark")
    assert mode(mark) == 0o600
    assert mode(mark.parent) == 0o700


def test_the_mode_of_a_file_that_is_there_is_kept(path, visits, state_folder):
    charge(visits)
    (mark,) = state_folder.glob("discreet/*.mark")
    path.chmod(0o600)
    mark.chmod(0o400)
    charge(visits)
    assert (mode(path), mode(mark)) == (0o600, 0o400)


@pytest.mark.skipif(not hasattr(os, "fork") or os.getuid() != 0, reason="changes its user")
@pytest.mark.parametrize(("member", "expected"), [(True, (4002, 0o660)), (False, (4001, 0o600))])
def test_the_group_is_the_one_of_the_folder(tmp_path_factory, member, expected):
    folder = tmp_path_factory.mktemp("shared")
    for each in (folder, *folder.parents[:-2]):
        each.chmod(0o755)
    os.chown(folder, 4003, 4002)
    folder.chmod(0o777)
    place = folder / "visits.sqlite"
    child = os.fork()
    if child == 0:
        code = 9
        try:
            os.setgroups([4002] if member else [])
            os.setgid(4001)
            os.setuid(4000)
            os.umask(0o007)
            os.environ["XDG_STATE_HOME"] = str(folder)
            visits = Ledger(place).create("visits", LIMIT)
            with visits.book.begin(write=True):
                found = {
                    (each.stat().st_gid, mode(each))
                    for each in (place, folder / "visits.sqlite-wal", folder / "visits.sqlite-shm")
                }
            code = 0 if found == {expected} else 8
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
