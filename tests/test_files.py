import os

import pytest

from discreet.files import replacing


def test_a_failure_keeps_the_old_file_and_leaves_no_other(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail():
        with replacing(path) as stream:
            stream.write("half of the ne")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]
    with replacing(path) as stream:
        stream.write("new")
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_permissions_are_those_of_the_old_file_or_the_usual_ones(tmp_path):
    path = tmp_path / "a.txt"
    with replacing(path) as stream:
        stream.write("x")
    (tmp_path / "usual").write_text("x")
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode
    path.chmod(0o600)
    with replacing(path) as stream:
        stream.write("y")
    assert path.stat().st_mode & 0o777 == 0o600


def test_links_are_followed_and_what_is_not_a_file_is_refused(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with replacing(tmp_path / "link") as stream:
        stream.write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"), replacing(tmp_path / "pipe"):
        pass


def test_errors_name_the_file_that_was_asked_for(tmp_path):
    with pytest.raises(OSError, match="nowhere") as caught, replacing(tmp_path / "nowhere" / "a"):
        pass
    assert caught.value.filename == str(tmp_path / "nowhere" / "a")


def test_the_new_file_is_on_disk_before_it_takes_the_place_of_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("old")
    done = []
    fsync, replace = os.fsync, os.replace

    def synced(handle):
        fsync(handle)
        done.append(("fsync", os.fstat(handle).st_size, os.fstat(handle).st_ino))

    def replaced(source, target):
        done.append(("replace", os.stat(source).st_size, os.stat(source).st_ino))
        replace(source, target)

    monkeypatch.setattr("discreet.files.os.fsync", synced)
    monkeypatch.setattr("discreet.files.os.replace", replaced)
    with replacing(path) as stream:
        stream.write("the new text")
    inode = path.stat().st_ino
    assert done == [("fsync", 12, inode), ("replace", 12, inode)]
