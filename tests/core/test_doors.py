"""Accounts, filters, charges and noise are made in the core alone; others ask a curator.

A release needs a charge and noise. Where no other package opens an account, charges a filter or
draws noise, every release passes through the doors of the core: a curator or a session. The audit
attacks these doors, and methods on exact rows are handed their noise by one of them.
"""

import ast
from pathlib import Path

import pytest

from discreet.core import Noise

SOURCE = Path(__file__).parents[2] / "src" / "discreet"

TRUSTED = ("core", "exact", "audit", "sites")
"""Packages that may make accounts and draw noise."""

MADE = {"Account", "Noise", "PlannedFilter", "PrivacyFilter"}
"""Classes that other packages may name in annotations only."""

CHARGES = {"charge", "charge_all", "_charge", "_charge_ledger"}
"""Methods that spend."""

DRAWS = {name for name in dir(Noise) if not name.startswith("_") and callable(getattr(Noise, name))}
"""Methods that draw noise."""

RELEASES = {"release", "select", "draw_block", "_draw"}
"""Methods of mechanisms that draw noise from the noise they are passed."""


def breaches(text):
    """Return the source of every construction, charge and draw of a module."""
    tree = ast.parse(text)
    known = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    stated = {
        inner for node in ast.walk(tree) for note in _annotations(node) for inner in ast.walk(note)
    }
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if node not in stated and (_names_a_class(node, known) or _spends_or_draws(node))
    ]


def _annotations(node):
    """Return the annotations of a node; they make nothing."""
    found = (getattr(node, "annotation", None), getattr(node, "returns", None))
    return [note for note in found if note is not None]


def _last(node):
    """Return the last name of ``a.b.c`` or ``c``."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _names_a_class(node, known):
    """Return True for any use of a class of `MADE`, under whichever name."""
    if isinstance(node, ast.Name):
        return known.get(node.id, node.id) in MADE
    return isinstance(node, ast.Attribute) and node.attr in MADE


def _spends_or_draws(node):
    """Return True for a call that charges a filter or draws noise.

    An override that passes a charge on to its base class, as one of a ledger, spends nothing else.
    """
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr in CHARGES:
        return ast.unparse(node.func.value) != "super()"
    if node.func.attr in DRAWS and _is_noise(node.func.value):
        return True
    passed = [*node.args, *(word.value for word in node.keywords)]
    named = any(word.arg == "noise" for word in node.keywords)
    return node.func.attr in RELEASES and (named or any(map(_is_noise, passed)))


def _is_noise(node):
    """Return True for an expression that is called noise, or made by the class."""
    name = _last(node.func) if isinstance(node, ast.Call) else _last(node)
    return name.lower().strip("_") in ("noise", "stream", "noises")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("account = Account(budget)", 1),
        ("import discreet.core as c\naccount = c.Account(budget)", 1),
        ("from discreet.core import Account as Purse\nPurse(budget)", 1),
        ("from discreet.core import Account\nmake = Account\nmake(budget)", 1),
        ("from functools import partial\npartial(Noise, bits)", 1),
        ("def f(account: Account, noise: Noise) -> PrivacyFilter: ...", 0),
        ("x: core.Account | None = None", 0),
        ("x: Account = Account(budget)", 1),
        ("account.open('pure').charge(mechanism)", 1),
        ("self._charge((mechanism, 2))", 1),
        ("self._filter.charge_all(uses)", 1),
        ("super().charge(*cost)", 0),
        ("class Own(core.PrivacyFilter):\n    def charge(self): super().charge(0)", 1),
        ("curator.ask(question, mechanism)", 0),
        ("noise.laplace(3, 1.0, -20)", 1),
        ("self._noise.select(scores, 1.0, 'gumbel')", 1),
        ("rng.laplace(0.0, 1.0)", 0),
        ("Profile.gaussian(1.0)", 0),
        ("mechanism.release(values, sensitivity=1.0, magnitude=1.0, noise=given)", 1),
        ("mechanism.draw_block(noise, 1, 1, sensitivity=1.0, magnitude=1.0)", 1),
        ("tally.release(self._noise)", 1),
        ("curator.release(compute, size=2, sensitivity=1.0, mechanism=mechanism)", 0),
        ("frame.select('a')", 0),
    ],
)
def test_breaches_are_seen(text, count):
    assert len(breaches(text)) == count


def found():
    """Return the breaches of all modules outside of the trusted packages, by path."""
    modules = {path.relative_to(SOURCE).as_posix(): path for path in SOURCE.rglob("*.py")}
    outside = {name: path for name, path in modules.items() if name.split("/")[0] not in TRUSTED}
    assert len(outside) > 100
    listed = {name: breaches(path.read_text("utf-8")) for name, path in sorted(outside.items())}
    return {name: some for name, some in listed.items() if some}


def test_no_other_package_opens_accounts_charges_or_draws_noise():
    assert found() == {}


def test_the_core_itself_would_be_seen():
    """The rules find what they look for: in the session, the account and the curator."""
    seen = {name: breaches((SOURCE / "core" / name).read_text("utf-8")) for name in CORE}
    for name, some in CORE.items():
        assert set(some) <= set(seen[name]), name


CORE = {
    "session.py": ["Account", "Noise"],
    "account.py": ["PrivacyFilter", "PlannedFilter", "self._filter.charge_all(uses)"],
    "curator.py": ["self._charge((mechanism, 1))", "self._charge((mechanism, descent.uses))"],
}
