"""Faults: damaged, altered, old and unreachable ledgers give a clear error and lose nothing."""

import contextlib
import ctypes
import json
import os
import re
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from datetime import datetime
from fractions import Fraction
from pathlib import Path

import pytest

from discreet import Ledger
from discreet.core import Account, Budget
from discreet.errors import BudgetExceeded, LedgerError
from discreet.ledger import sqlite, store
from discreet.ledger.costs import CostTotals

LIMIT = Budget(3.0, 1e-6, "add_remove")
FIT = Budget(0.5, 1e-6, "add_remove")


def charge(dataset):
    return dataset.charge("gdp", Fraction(0.01), Fraction(0), FIT)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "visits.sqlite"


@pytest.fixture
def visits(path):
    made = Ledger(path, who="ada").create("visits", LIMIT)
    for _ in range(3):
        charge(made).confirm()
    return made


def alter(path, *statements):
    """Change the file by hand, as with the program sqlite3."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(*statement if isinstance(statement, tuple) else (statement,))
        connection.commit()


def body_of(path, seq):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(
            "SELECT body FROM ledger_events WHERE seq = ?", (seq,)
        ).fetchone()[0]


def test_a_removed_a_moved_and_an_altered_event_are_named(path, visits):
    assert Ledger(path).verify().events == 7
    changes = {
        "altered": ("UPDATE ledger_events SET body = replace(body, 'ada', 'bob') WHERE seq = 4",),
        "missing": ("DELETE FROM ledger_events WHERE seq = 4",),
        "moved": (
            "UPDATE ledger_events SET seq = 99 WHERE seq = 4",
            "UPDATE ledger_events SET seq = 4 WHERE seq = 6",
            "UPDATE ledger_events SET seq = 6 WHERE seq = 99",
        ),
        "filed": ("UPDATE ledger_events SET entry = 3 WHERE seq = 4",),
        "signature": ("UPDATE ledger_events SET signature = 'ab' WHERE seq = 4",),
    }
    for word, statements in changes.items():
        copy = path.with_name(f"{word}.sqlite")
        shutil.copy(path, copy)
        alter(copy, *statements)
        found = Ledger(copy).verify()
        assert not found.ok, word
        assert found.first_bad == 4, word
    assert Ledger(path).verify().ok


def forged(path, seq, change):
    """Rewrite an event with a right hash, and the chain after it, as a cheat with time would."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT seq, body FROM ledger_events ORDER BY seq").fetchall()
        previous = None
        for number, text in rows:
            body = json.loads(text)
            if number == seq:
                change(body)
            if previous is not None:
                body["previous"] = previous
            event = store.Event.make(body)
            previous = event.hash
            connection.execute(
                "UPDATE ledger_events SET body = ?, hash = ?, entry = ? WHERE seq = ?",
                (event.text, event.hash, body["entry"], number),
            )
        connection.commit()


@pytest.mark.parametrize("seq", [1, 2, 3, 6])
def test_an_event_that_was_altered_with_its_own_hash_is_found(path, visits, state_folder, seq):
    """The event after it has the hash of what was there before."""
    body = json.loads(body_of(path, seq))
    body["who"] = "bob"
    event = store.Event.make(body)
    statement = "UPDATE ledger_events SET body = ?, hash = ? WHERE seq = ?"
    alter(path, (statement, (event.text, event.hash, seq)))
    found = Ledger(path).verify()
    assert (found.ok, found.first_bad) == (False, seq + 1)
    assert "does not follow the event before it" in found.problem


@pytest.mark.parametrize(
    ("seq", "change"),
    [
        (2, lambda body: body["totals"][""].update(gdp="1/1000")),
        (4, lambda body: body["charged"].update(total="1/1000000")),
        (4, lambda body: body.update(group=2)),
        (4, lambda body: body.update(blocks=[])),
        (4, lambda body: body.update(relation="replace_one")),
        (5, lambda body: body.update(entry=2)),
        (5, lambda body: body.update(kind="refund")),
        (5, lambda body: body.update(kind="return", totals={"": body.get("totals")})),
        (1, lambda body: body["settings"]["limit"].update(squared_mu="3")),
        (1, lambda body: body["settings"]["limit"].update(whole_rho="3")),
        (1, lambda body: body["settings"]["limit"].update(delta="1/2")),
        (1, lambda body: body["settings"]["limit"].update(zcdp_delta="-1/2", rho="0")),
        (1, lambda body: body["settings"]["limit"]["mixed"][0].update(delta="1/2")),
        (1, lambda body: body["settings"]["limit"]["mixed"][0].update(squared_mu="3")),
        (1, lambda body: body["settings"]["limit"]["mixed"][0].update(epsilon="1/0")),
    ],
)
def test_sums_are_computed_anew_even_if_all_hashes_are(path, visits, seq, change, state_folder):
    forged(path, seq, change)
    with pytest.raises(LedgerError, match="old or altered copy"):
        Ledger(path).verify()  # this machine has seen another chain
    shutil.rmtree(state_folder)
    found = Ledger(path).verify()
    assert not found.ok
    assert found.first_bad == seq


def test_an_overspending_entry_is_found(path, state_folder):
    visits = Ledger(path).create("visits", LIMIT)
    visits.add(gaussian=1.0)

    def reserved(body):
        body["kind"] = "reserve"

    forged(path, 2, reserved)
    shutil.rmtree(state_folder)
    found = Ledger(path).verify()
    assert (found.first_bad, found.problem) == (2, "it exceeds the limit.")


@pytest.mark.parametrize(
    ("filter_", "field"),
    [
        (None, "squared_mu"),
        (None, "rho"),
        (None, "whole_squared_mu"),
        (None, "whole_rho"),
        (0, "squared_mu"),
        (2, "squared_mu"),
        (2, "epsilon"),
    ],
)
def test_limits_that_allow_more_than_they_state_are_found(path, state_folder, filter_, field):
    Ledger(path).create("visits", LIMIT)

    def wider(body):
        limit = body["settings"]["limit"]
        limit = limit if filter_ is None else limit["mixed"][filter_]
        limit[field] = str(Fraction(limit[field]) * Fraction(101, 100))

    forged(path, 1, wider)
    shutil.rmtree(state_folder)
    found = Ledger(path).verify()
    assert (found.first_bad, found.problem) == (1, "its limits allow more than the stated ε.")


def test_altered_totals_stop_charges_at_once(path, visits):
    alter(path, "UPDATE ledger_events SET body = replace(body, '3/100', '1/100') WHERE seq = 6")
    assert body_of(path, 6)
    text = body_of(path, 6).replace('"entries":"3"', '"entries":"1"')
    alter(path, ("UPDATE ledger_events SET body = ? WHERE seq = 6", (text,)))
    with pytest.raises(LedgerError, match="Event 6 of this ledger was altered"):
        charge(visits)
    with pytest.raises(LedgerError, match="altered"):
        visits.spent  # noqa: B018


def test_the_pointer_to_the_totals_cannot_be_turned_back(path, visits):
    alter(path, "UPDATE ledger_state SET last = 2")
    found = Ledger(path).verify()
    assert not found.ok
    alter(path, "UPDATE ledger_state SET last = 5")  # a confirmation has no totals
    with pytest.raises((LedgerError, KeyError)):
        charge(visits)


def test_the_pointer_to_the_totals_stays_in_its_data_set(path, visits):
    Ledger(path).create("others", LIMIT)  # event 8, with totals of 0
    alter(path, "UPDATE ledger_state SET last = 8 WHERE dataset = 'visits'")
    with pytest.raises(LedgerError, match="The state of 'visits' was altered"):
        charge(visits)


@pytest.mark.parametrize("page", [1, 2, 7])
def test_events_are_read_page_by_page(path, visits, monkeypatch, page):
    monkeypatch.setattr(store, "_PAGE", page)
    assert [event["seq"] for event in Ledger(path).events()] == list(range(1, 8))
    assert len(visits.records()) == 3


def test_a_removed_end_is_found(path, visits, state_folder):
    alter(path, "DELETE FROM ledger_events WHERE seq > 5", "UPDATE ledger_state SET last = 4")
    with pytest.raises(LedgerError, match="old or altered copy"):
        charge(visits)
    shutil.rmtree(state_folder)
    alter(path, "UPDATE ledger_state SET last = 6")
    found = Ledger(path).verify()
    assert (found.ok, found.first_bad) == (False, 6)


def test_a_restored_old_copy_is_refused(path, visits):
    shutil.copy(path, path.with_name("backup"))
    charge(visits)
    os.replace(path.with_name("backup"), path)
    with pytest.raises(LedgerError, match=r"old or altered copy.*forget"):
        charge(Ledger(path).open("visits"))


def test_a_file_in_the_place_of_another_is_refused(path, visits):
    other = path.with_name("other")
    Ledger(other).create("visits", LIMIT)
    os.replace(other, path)
    with pytest.raises(LedgerError, match="replaced"):
        charge(visits)


def test_a_mark_that_cannot_be_written_or_read_stops_nothing(path, visits, state_folder):
    (mark,) = state_folder.glob("discreet/*.mark")
    for text in ("", "nonsense", "1 2 3", f"{99:020d} {'0' * 64} {'0' * 16}\n"):
        mark.write_text(text)
        charge(visits)
    mark.unlink()
    mark.mkdir()
    charge(visits)
    assert visits.entries == 8


def test_a_missing_and_an_empty_and_a_foreign_file(path, tmp_path):
    with pytest.raises(LedgerError, match="no such ledger"):
        Ledger(path).open("visits")
    assert not path.exists()
    path.touch()
    with pytest.raises(LedgerError, match="truncated"):
        Ledger(path).open("visits")
    with pytest.raises(LedgerError, match="truncated"):
        Ledger(path).create("visits", LIMIT)
    path.write_text("name,age\n" * 1000)
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger(path).open("visits")
    path.unlink()
    alter(path, "CREATE TABLE other (x)")
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger(path).open("visits")
    with pytest.raises(LedgerError, match="no folder"):
        Ledger(tmp_path / "none" / "x").create("visits")


def test_a_truncated_file(path, visits):
    for _ in range(30):
        charge(visits)
    size = path.stat().st_size
    os.truncate(path, size // 2)
    with pytest.raises(LedgerError, match=r"damaged|not a ledger"):
        charge(visits)
    with pytest.raises(LedgerError, match=r"damaged|not a ledger"):
        Ledger(path).verify()
    assert path.stat().st_size == size // 2


def test_a_newer_version(path, visits):
    alter(path, "UPDATE ledger_meta SET value = '2' WHERE key = 'format'")
    before = path.read_bytes()
    for ask in (lambda: charge(visits), lambda: Ledger(path).list()):
        with pytest.raises(LedgerError, match="Install a newer discreet"):
            ask()
    assert path.read_bytes() == before


def test_the_clock_set_back_is_noted_and_changes_nothing(path, visits, monkeypatch):
    class Clock:
        now = staticmethod(lambda zone: datetime(2001, 1, 1, tzinfo=zone))

    monkeypatch.setattr("discreet.ledger.book.datetime", Clock)
    charge(visits)
    found = Ledger(path).verify()
    assert found.ok
    assert found.notes == ("the clock was set back before event 8.",)
    assert "Note: the clock" in str(found)
    assert visits.entries == 4


def test_network_file_systems_are_refused(path, visits, monkeypatch):
    sqlite.check_folder.cache_clear()
    monkeypatch.setattr(sqlite, "file_system", lambda _: "nfs4")
    with pytest.raises(LedgerError, match=r"network file system \(nfs4\)"):
        charge(visits)
    with pytest.raises(LedgerError, match="PostgreSQL"):
        Ledger(path.with_name("new")).create("visits")
    monkeypatch.setattr(sqlite, "file_system", lambda _: "odd")
    monkeypatch.setattr(sqlite, "locks_hold", lambda _: False)
    with pytest.raises(LedgerError, match="does not hold locks"):
        charge(visits)
    assert visits.entries == 3


def test_the_type_of_a_file_system_is_read_from_the_mounts(tmp_path, monkeypatch):
    sqlite.check_folder.cache_clear()
    assert sqlite.file_system("/proc") == "proc"
    lines = (
        "1 0 0:1 / / rw - ext4 /dev/a rw\n"
        f"2 1 0:2 / {tmp_path} rw - nfs4 server:/x rw\n"
        f"3 1 0:3 / {tmp_path}/in rw - ext4 /dev/b rw\n"
    )
    monkeypatch.setattr(sqlite.Path, "read_text", lambda *_: lines)
    assert sqlite.file_system(str(tmp_path / "deep" / "er")) == "nfs4"
    assert sqlite.file_system(str(tmp_path / "in")) == "ext4"
    assert sqlite.file_system(f"{tmp_path}2") == "ext4"


def test_locks_are_tried(tmp_path, monkeypatch):
    import fcntl

    assert sqlite.locks_hold(str(tmp_path))
    monkeypatch.setattr(fcntl, "fcntl", lambda *_: b"")  # every lock is granted
    assert not sqlite.locks_hold(str(tmp_path))

    def none(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "fcntl", none)
    assert not sqlite.locks_hold(str(tmp_path))
    assert list(tmp_path.glob(".ledger*")) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_read_only_file():
    folder = Path(tempfile.mkdtemp())
    path = folder / "visits.sqlite"
    visits = Ledger(path).create("visits", LIMIT)
    charge(visits)
    path.chmod(0o444)
    folder.chmod(0o555)
    child = os.fork()
    if child == 0:
        if os.getuid() == 0:  # who may write everything
            os.setuid(65534)
        try:
            charge(visits)
        except LedgerError as error:
            os._exit(7 if re.search("cannot be (written to|opened)", str(error)) else 8)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    folder.chmod(0o755)
    entries = visits.entries
    shutil.rmtree(folder)
    assert (code, entries) == (7, 1)


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="mounts a small disk")
def test_a_full_disk(tmp_path):
    libc = ctypes.CDLL(None, use_errno=True)
    small = tmp_path / "small"
    small.mkdir()
    if libc.mount(b"none", str(small).encode(), b"tmpfs", 0, b"size=500k") != 0:
        pytest.skip("needs the right to mount")
    try:
        visits = Ledger(small / "visits.sqlite").create("visits", LIMIT)

        def fill():
            for _ in range(5000):
                visits.charge("gdp", Fraction(1e-9), Fraction(0), FIT)

        with pytest.raises(LedgerError, match="disk is full"):
            fill()
        before = visits.entries
        assert before > 10
        with pytest.raises(LedgerError, match="disk is full"):
            fill()
        assert visits.entries == before
        assert Ledger(small / "visits.sqlite").verify().ok
    finally:
        libc.umount2(str(small).encode(), 2)


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="mounts a small disk")
@pytest.mark.parametrize("made_before", [True, False])
def test_a_disk_that_was_full_before(tmp_path, made_before):
    libc = ctypes.CDLL(None, use_errno=True)
    small = tmp_path / "small"
    small.mkdir()
    if libc.mount(b"none", str(small).encode(), b"tmpfs", 0, b"size=500k") != 0:
        pytest.skip("needs the right to mount")
    try:
        ledger = Ledger(small / "visits.sqlite")
        if made_before:
            charge(ledger.create("visits", LIMIT))
        filler = os.open(small / "filler", os.O_WRONLY | os.O_CREAT)
        with contextlib.suppress(OSError):
            while os.write(filler, b"x" * 4096):
                pass
        os.close(filler)
        words = r"disk is full.*Nothing was charged"
        if made_before:
            with pytest.raises(LedgerError, match=words):
                charge(ledger.open("visits"))
        else:
            with pytest.raises(LedgerError, match=words):
                ledger.create("visits", LIMIT)
        (small / "filler").unlink()
        if made_before:
            assert ledger.open("visits").entries == 1
            assert ledger.verify().ok
        else:
            assert list(small.iterdir()) == []
    finally:
        libc.umount2(str(small).encode(), 2)


@pytest.mark.parametrize(
    ("code", "free", "words"),
    [
        (sqlite3.SQLITE_FULL, 10**9, "the disk is full"),
        (sqlite3.SQLITE_IOERR_SHMSIZE, 10**9, "the disk is full"),
        (sqlite3.SQLITE_IOERR_WRITE, 1000, "the disk is full"),
        (sqlite3.SQLITE_IOERR_WRITE, 10**9, "reading or writing failed"),
    ],
)
def test_a_full_disk_is_called_full(path, visits, monkeypatch, code, free, words):
    class Connection:
        in_transaction = False

        def execute(self, *_):
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = code
            raise error

        def close(self):
            pass

    usage = shutil.disk_usage(path.parent)._replace(free=free)
    monkeypatch.setattr("discreet.ledger.files.shutil.disk_usage", lambda _: usage)
    monkeypatch.setattr(sqlite, "_connect", lambda *_: Connection())
    with pytest.raises(LedgerError, match=f"{words}.*Nothing was charged"):
        charge(visits)


def test_a_busy_file_is_waited_for_and_then_an_error(path, visits, monkeypatch):
    monkeypatch.setattr(sqlite, "PATIENCE", 0.1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="locked"):
            charge(visits)
        other.execute("ROLLBACK")
    charge(visits)


@pytest.mark.process
def test_a_server_that_restarts_in_the_middle_of_a_fit(server):
    place = server.address()
    visits = Ledger(place).create("visits", LIMIT)
    made = charge(visits)
    server.stop("immediate")
    with pytest.raises(LedgerError, match="Nothing was released"):
        charge(visits)
    with pytest.warns(UserWarning, match="could not be confirmed"):
        made.confirm()
    server.start()
    made.confirm()
    assert [r["status"] for r in visits.records()] == ["confirmed"]
    charge(visits)
    assert Ledger(place).verify().ok


@pytest.mark.process
def test_errors_of_servers(server):
    with pytest.raises(LedgerError, match="no ledger in this database"):
        Ledger(server.address()).list()
    with pytest.raises(LedgerError) as failed:
        Ledger("postgresql://me:secret@127.0.0.1:1/none").list()
    assert "secret" not in str(failed.value)
    place = server.address()
    visits = Ledger(place).create("visits", LIMIT)
    charge(visits)
    import psycopg

    with psycopg.connect(place) as connection:
        alter_one = "UPDATE ledger_events SET body = replace(body, 'gdp', 'gpd') WHERE seq = 2"
        connection.execute(alter_one)
    assert Ledger(place).verify().first_bad == 2
    with pytest.raises(LedgerError, match="altered"):
        charge(visits)


def lengthen(visits, count):
    """Append reservations as charges would, in one transaction."""
    with visits.book.begin(write=True) as transaction:
        event = None
        for k in range(count):
            totals = {
                **CostTotals().to_dict(),
                "entries": str(k + 1),
                "gdp": str(Fraction(k + 1, 10**6)),
            }
            content = {
                "blocks": [""], "loss": {"measure": "gdp", "total": "1/1000000", "delta": "0"},
                "charged": {"measure": "gdp", "total": "1/1000000", "delta": "0"}, "group": 1,
                "relation": "add_remove", "unit": "row", "epsilon": "0.01", "delta": "1e-6",
                "entered": False, "details": {}, "totals": {"": totals},
            }  # fmt: skip
            event = visits.book.append(transaction, "reserve", "visits", content)
        transaction.point("visits", "", 1, event.seq)


def work(monkeypatch, act):
    """Count what a call asks of the database: statements, rows, and instructions in tens."""
    done = {"statements": 0, "rows": 0, "instructions": 0}
    connect, run = sqlite._connect, store.Transaction.__init__

    def instruction():
        done["instructions"] += 1

    def connected(path):
        made = connect(path)
        made.set_progress_handler(instruction, 10)
        return made

    def counting(self, real):
        def counted(statement, values):
            found = real(statement, values)
            done["statements"] += 1
            done["rows"] += len(found)
            return found

        run(self, counted)

    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "_connect", connected)
        patch.setattr(store.Transaction, "__init__", counting)
        act()
    return done


def test_opening_and_charging_a_long_ledger_is_no_more_work_than_a_short_one(path, monkeypatch):
    found = []
    for count in (10, 3000):
        place = path.with_name(f"{count}.sqlite")
        lengthen(Ledger(place).create("visits", Budget(30.0, 1e-6, "add_remove")), count)

        def ask(place=place, count=count):
            again = Ledger(place).open("visits")
            assert again.affords(FIT)
            assert again.entries == count
            charge(again).confirm()

        found.append(work(monkeypatch, ask))
        assert Ledger(place).verify().ok
    short, long = found
    assert short["statements"] == long["statements"] <= 60
    assert short["rows"] == long["rows"] <= 60
    # A scan of 3,000 rows would take 300 tens of instructions more, at least.
    assert long["instructions"] <= short["instructions"] + 30


def test_overspending_is_refused_whatever_the_handle_believes(path):
    Ledger(path).create("visits", Budget(0.6, 1e-6, "add_remove"))
    handles = [Ledger(path).open("visits") for _ in range(3)]
    Account(FIT, handles[0]).open("gdp")
    for handle in handles[1:]:
        with pytest.raises(BudgetExceeded):
            Account(FIT, handle).open("gdp")


def test_commits_are_durable_also_after_a_fork(path, visits, monkeypatch):
    connect, seen = sqlite._connect, set()

    def connected(*arguments):
        made = connect(*arguments)
        for setting in ("synchronous", "journal_mode"):
            seen.add((setting, *made.execute(f"PRAGMA {setting}").fetchone()))
        return made

    monkeypatch.setattr(sqlite, "_connect", connected)
    charge(visits)
    assert seen == {("synchronous", 3), ("journal_mode", "wal")}
    child = os.fork()
    if child == 0:
        charge(visits)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert visits.entries == 5


@pytest.mark.process
def test_commits_on_a_server_are_durable_whatever_its_defaults(server):
    place = server.address()
    visits = Ledger(place).create("visits", LIMIT)
    loose = place.replace("options=-c", "options=-csynchronous_commit%3Doff%20-c")
    with Ledger(loose)._book.store.begin(write=True) as transaction:
        assert transaction._run("SHOW synchronous_commit", ()) == [("on",)]
    charge(visits)
