"""Hints about columns: what their names, which are public, or a caller say about them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from discreet.tables.columns import KINDS, nearest
from discreet.validate import display, integer

Kind: TypeAlias = Literal["numeric", "categorical", "boolean", "ignored", "hashed"]

IDENTIFIER = "its name is that of an identifier"

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_IDENTIFIERS = {
    "nbr", "uuid", "guid", "ssn", "mrn", "nhs", "passport", "email", "phone", "telephone", "url",
}  # fmt: skip
_CODES = {
    "icd", "diag", "diagnosis", "dx", "zip", "zipcode", "postal", "postcode", "plz", "code",
    "codes", "naics", "sic", "isco", "fips", "drg", "cpt", "atc", "ndc", "id",
}  # fmt: skip
_PEOPLE = {
    "patient", "person", "subject", "user", "customer", "client", "member", "household", "pupil",
    "student", "employee", "participant", "respondent", "donor", "resident", "ssn", "mrn", "nhs",
}  # fmt: skip


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def is_identifier(name: str) -> bool:
    """Return True if a name is that of an identifier: patient_id, encounter_nbr, email."""
    words = _words(name)
    if not words:
        return False
    return words[-1] in _IDENTIFIERS or words == ["id"] or may_be_unit(name)


def may_be_unit(name: str) -> bool:
    """Return True if a name says whose row a row is: patient_nbr, userId, ssn."""
    words = _words(name)
    if not words:
        return False
    last = words[-1] in {*_IDENTIFIERS, "id", "no", "number", "key"}
    return last and bool(_PEOPLE & {words[0], *words})


def is_code(name: str) -> bool:
    """Return True if a name is that of a code, whose digits are no quantity: icd9, zip_code."""
    return bool(_CODES & set(_words(name)))


@dataclass(frozen=True)
class Hint:
    """A caller's statement about a column: its kind, and the letters by which it is grouped."""

    kind: Kind | None = None
    prefix: int | None = None


def given_hints(
    kinds: Mapping[str, Any] | None, prefixes: Mapping[str, Any] | None
) -> dict[str, Hint]:
    """Check a caller's statements about columns."""
    known = [kind for kind in KINDS if kind != "ordinal"]
    found: dict[str, Hint] = {}
    for name, kind in (kinds or {}).items():
        if kind not in known:
            raise ValueError(
                f"the kind of column {name!r} is {display(kind)}; {nearest(str(kind), known)}"
            )
        found[name] = Hint(kind)
    for name, prefix in (prefixes or {}).items():
        kind = found.get(name, Hint("categorical")).kind
        if kind not in ("categorical", "hashed"):
            raise ValueError(f"a prefix groups texts; column {name!r} is to be {kind}.")
        found[name] = Hint(kind, integer(f"the prefix of {name!r}", prefix, least=1))
    return found
