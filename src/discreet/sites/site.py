"""A site: a table that stays where it is, and answers to a coordinator that it need not trust.

A site gets messages and sends messages. It checks the terms of a fit against its own, charges its
own ledger before it reads, and holds a filter of its own: what the coordinator asks is charged at
the site again. Under a trust model with noise at the sites, nothing that the coordinator sends can
make a site release more than its filter allows. Each message counts once and in order, so a message
that is sent again is refused.

Proof: docs/proofs/sites.md.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from discreet.core import Curator, Gaussian, Noise, PrivacyFilter
from discreet.core.account import Charge
from discreet.core.bits import Bits
from discreet.core.questions import SumQuestion
from discreet.core.session import Session, bits_of
from discreet.engines.blocks import attempted
from discreet.errors import NotSupported, PrivacyError
from discreet.ledger import Dataset
from discreet.log import note
from discreet.rows import UNIT_ROUNDOFF, AffineMap, Counts, Rows, Unit, Units, as_rows
from discreet.sites import wire
from discreet.sites.shares import Share, is_divisible, share_of
from discreet.sites.terms import Terms, trust_model
from discreet.tables import Schema
from discreet.validate import check_table, integer

DERIVED = frozenset(
    {"with_targets", "with_row_norm", "with_units", "transformed", "columns", "within_reach"}
)
"""Methods that make other rows, each from a row and public numbers alone."""


_NO_CODES = np.empty(0, dtype=np.int32)


class SiteCurator(Curator):
    """A curator at a site, which answers with the site's share of the noise."""

    def contribute(
        self, asked: Sequence[tuple[SumQuestion, Gaussian]], terms: Terms
    ) -> list[Share]:
        """Return the site's part of each answer.

        Privacy
        -------
        As `Curator.ask_all`: every question is checked, then all are charged for, then rows are
        read. The sum over sites has the noise of the mechanism: docs/proofs/sites.md.
        """
        for question, mechanism in asked:
            if not is_divisible(question, mechanism):
                raise NotSupported("A site adds its share to sums with Gaussian noise alone.")
            question.check(self._public, mechanism)
            _check_codes(self._table, getattr(question, "loss", None))
        self._charge(*((mechanism, question.uses) for question, mechanism in asked))
        exact = self._rows.answer([question for question, _ in asked])
        about: Any = {"sites": len(terms.sites), "sharing": terms.sharing}
        return [
            share_of(value, question, mechanism, self._public, noise=self._noise, **about)
            for value, (question, mechanism) in zip(exact, asked, strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What a site agrees to, and whom it knows.

    Parameters
    ----------
    accepts : sequence of {"secure", "local", "aggregator"}
        Trust models under which it takes part.
    least_colluding : int
        Least number of colluding sites that a fit with secure aggregation must protect against.
    peers : mapping
        Public key of each other site by its name, for secure aggregation: whoever is not in it is
        no site. They are exchanged beforehand, not through the coordinator.
    identity : `discreet.sites.masks.Identity`, optional
        Its own lasting key, for secure aggregation.
    approve : callable, optional
        Called with the `Terms` of a fit; returns None to take part, or the reason for a refusal.
    """

    accepts: Sequence[str] = ("secure", "local")
    least_colluding: int = 0
    peers: Mapping[str, bytes] = field(default_factory=dict)
    identity: Any = None
    approve: Callable[[Terms], str | None] | None = None

    def __post_init__(self) -> None:
        for name in self.accepts:
            trust_model(name)
        integer("least_colluding", self.least_colluding, least=0)

    def check(self, name: str, terms: Terms) -> None:
        """Refuse terms that the site does not agree to."""
        if terms.trust not in self.accepts:
            known = " or ".join(map(repr, self.accepts))
            raise PrivacyError(f"The site takes part with trust={known} only.")
        if terms.model.masked:
            if terms.colluding < self.least_colluding:
                raise PrivacyError(
                    f"The fit protects against {terms.colluding} colluding sites; this site needs "
                    f"{self.least_colluding}."
                )
            unknown = [each for each in terms.sites if each not in (*self.peers, name)]
            if unknown or self.identity is None:
                raise PrivacyError(
                    "The site has no key of its own, or was not told those of "
                    f"{', '.join(map(repr, unknown)) or 'the others'}."
                )
        reason = None if self.approve is None else self.approve(terms)
        if reason is not None:
            raise PrivacyError(f"The site takes no part: {reason}")


class Stored(NamedTuple):
    """A table that rows are made of, and its targets."""

    X: Any
    y: NDArray[Any]

    def after(self, step: str, by: Any) -> Stored:
        """Return the table after a step whose rows are each made of one row of this table."""
        if step == "targets":
            return self._replace(y=by(self.y))
        if step == "applied":
            _check_map(getattr(by, "affine", None), self.X.shape[1])
            return self._replace(X=by.apply(self.X))
        if step == "expanded":
            return self._replace(X=by.transform(self.X))
        raise NotSupported(f"Sites make no other table by {step!r}.")


@dataclass(eq=False)
class Visit:
    """One fit at a site: its terms, the messages so far, and what they cost.

    ``digest`` is that of all messages; ``answers`` is the number of released vectors.
    """

    terms: Terms
    digest: bytes
    bits: Bits
    keys: Any = None
    round: int = 0
    held: dict[int, Any] = field(default_factory=dict)
    session: Session | None = None
    filter: PrivacyFilter | None = None
    noise: Noise | None = None
    charge: Charge | None = None
    charged: bool = False
    answers: int = 0

    def end(self, *, released: bool) -> str:
        """Confirm what was charged, or give it back if nothing was read; return which."""
        if released or self.answers:
            if self.session is not None:
                self.session.account.confirm()
            elif self.charge is not None:
                self.charge.confirm()
            return "counted" if self.charged else "not charged"
        if self.session is not None:
            self.session.account.abandon()
        elif self.charge is not None:
            self.charge.give_back()
        return "given back" if self.charged else "not charged"


class Site:
    """A table at one place, with its own ledger, that takes part in fits over several sites.

    Parameters
    ----------
    name : str
        Name by which the other sites and the coordinator know it.
    X, y : array or DataFrame of numbers, array
        The rows and their targets. They do not leave the site.
    groups : sequence of ids, optional
        Whose row each row is; ids do not leave the site either.
    schema : Schema, optional
        The schema that made X of a table: all sites must have the same.
    ledger : Dataset, optional
        Data set of a ledger, charged with the whole budget of a fit before a row is read.
    policy : Policy
        What the site agrees to, and whom it knows.
    random_state : int, optional
        For tests only: fix the noise, which then protects nobody.

    Attributes
    ----------
    record : list of dict
        What it released, for whom and under which trust model: one entry per fit.
    """

    def __init__(
        self,
        name: str,
        X: Any,
        y: Any,
        groups: Any = None,
        *,
        schema: Schema | None = None,
        ledger: Dataset | None = None,
        policy: Policy | None = None,
        random_state: int | None = None,
    ) -> None:
        check_table(X)
        self.name = name
        self.columns = [str(column) for column in getattr(X, "columns", ())]
        self.schema = schema
        self.ledger = ledger
        self.policy = Policy() if policy is None else policy
        self.record: list[dict[str, Any]] = []
        self._X = _table(X)
        self._y = np.asarray(y)
        if self._y.shape != (self._X.shape[0],):
            raise ValueError("y must have one target for each row of X.")
        self._units = None if groups is None else Units.of(groups, self._X.shape[0])
        self._random_state = random_state
        self._visit: Visit | None = None
        self._refusal: str | None = None
        self._watcher: Callable[[Site], None] | None = None
        self._lock = threading.Lock()

    @property
    def unit(self) -> Unit:
        """Privacy unit at this site."""
        return "row" if self._units is None else self._units.unit

    @property
    def size(self) -> int:
        """Number of its units: public."""
        return int(self._X.shape[0]) if self._units is None else self._units.count

    def watch(self, watcher: Callable[[Site], None]) -> None:
        """Call a function after each entry of the record, with this site."""
        self._watcher = watcher

    def refuse(self, reason: str | None) -> None:
        """Refuse all messages from now on, for this reason; None takes part again."""
        self._refusal = reason

    def handle(self, message: bytes) -> bytes:
        """Return the reply to a message; whatever it is, no error is raised and no cell shown."""
        with self._lock:
            found, problem = attempted(lambda: self._answered(message))
            visit = self._visit
            about = {"site": self.name, "round": 0 if visit is None else visit.round}
            if problem is None:
                return wire.encode({**about, "answer": found})
            note("Site %s refused a message: %s", self.name, problem)
            return wire.encode({**about, "refused": problem})

    # ---- messages

    def _answered(self, message: bytes) -> Any:
        request = wire.decode(message)
        do = request["do"]
        if do == "describe":
            return self._description()
        if self._refusal is not None:
            raise PrivacyError(f"The site takes no part: {self._refusal}")
        if do == "join":
            return self._join(request["terms"], message)
        visit = self._visit
        if visit is None or request["session"] != visit.terms.session:
            raise PrivacyError("This is no message of a fit that the site takes part in.")
        if request["round"] != visit.round + 1:
            raise PrivacyError(
                f"Message {request['round']} came after message {visit.round}: it was answered "
                "before, or one is missing. Nothing was read for it."
            )
        visit.round += 1
        visit.digest = hashlib.sha256(visit.digest + message).digest()
        doors: dict[str, Callable[..., Any]] = {
            "agree": self._agree,
            "charge": self._charge,
            "make": self._make,
            "exact": self._exact,
            "share": self._share,
            "end": self._end,
        }
        return doors[do](visit, **request["settings"])

    def _description(self) -> dict[str, Any]:
        """Return what is public about the site."""
        return {
            "columns": self.columns,
            "width": int(self._X.shape[1]),
            "dtype": self._X.dtype.str,
            "sparse": bool(sp.issparse(self._X)),
            "size": self.size,
            "unit": self.unit,
            "schema": None if self.schema is None else self.schema.to_toml(),
            "accepts": list(self.policy.accepts),
        }

    def _join(self, terms: Terms, message: bytes) -> dict[str, Any]:
        """Check the terms; begin a visit. One that was not ended is ended first."""
        self._check(terms)
        if self._visit is not None:
            self._close(self._visit, released=False, why="another fit began")
        digest = hashlib.sha256(message).digest()
        self._visit = visit = Visit(terms, digest, bits_of(self._random_state))
        signed = None
        if terms.model.masked:
            from discreet.sites.masks import PairKeys  # needs an optional package

            visit.keys = PairKeys(self.name, self.policy.identity, digest)
            signed = (visit.keys.signed.key, visit.keys.signed.signature)
        note("Site %s joined fit %s: %s.", self.name, terms.session[:8], terms.trust)
        return {"key": signed, "secure": visit.bits.secure}

    def _check(self, terms: Terms) -> None:
        """Refuse terms that are not those of this site."""
        if self.name not in terms.sites:
            raise PrivacyError(f"{self.name!r} is not among the sites of the fit.")
        if terms.sizes[terms.sites.index(self.name)] != self.size or terms.unit != self.unit:
            raise PrivacyError("The terms state another unit, or number of units, of this site.")
        self.policy.check(self.name, terms)

    def _agree(self, visit: Visit, keys: dict[str, tuple[bytes, bytes]]) -> None:
        """Agree on a key with each other site."""
        from discreet.sites.masks import SignedKey  # needs an optional package

        if tuple(keys) != visit.terms.sites:
            raise PrivacyError("Keys must be those of all sites of the fit.")
        visit.keys.agree({name: SignedKey(*each) for name, each in keys.items()}, self.policy.peers)

    def _charge(self, visit: Visit, measure: Any, total: str, delta: str) -> None:
        """Charge the ledger for all of the fit, before anything is read.

        Where noise is added here, the site charges the budget of the terms and opens its own
        filter, in Gaussian DP; a trusted aggregator says what its account holds.
        """
        if visit.charged:
            raise PrivacyError("The fit was charged before.")
        terms = visit.terms
        ledger = self.ledger
        if ledger is not None:
            ledger = ledger.noting(fit=terms.session, trust=terms.trust, sites=len(terms.sites))
        if terms.model.exact:
            if ledger is not None:
                cost = (Fraction(total), Fraction(delta))
                visit.charge = ledger.charge(measure, *cost, terms.budget, terms.unit)
        else:
            visit.session = Session(terms.budget, terms.unit, ledger=ledger, bits=visit.bits)
            visit.filter = visit.session.account.open("gdp")
            visit.noise = Noise(visit.bits)
        visit.charged = True
        note("Site %s charged fit %s: ε = %g.", self.name, terms.session[:8], terms.epsilon)

    def _make(
        self, visit: Visit, source: int, handle: int, step: str, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        """Make other rows, or another table; return what is public about rows.

        *Privacy.* A row of the result is made of that row and of what the message says. Nothing is
        released but what is the same for every table of this form.
        """
        held = visit.held[source] if source else Stored(self._X, self._y)
        made: Any
        if isinstance(held, Stored) and step == "rows":
            made = self._as_rows(held, visit.terms, **arguments)
        elif isinstance(held, Stored):
            made = held.after(step, **arguments)
        elif step == "sample":
            made = self._sampled(held, visit.terms, **arguments)
        elif step in DERIVED:
            _check_map(arguments.get("map"), held.n_features)
            made = getattr(held, step)(**arguments)
        else:
            raise NotSupported(f"Sites make no other rows by {step!r}.")
        visit.held[handle] = made
        return made.public_facts if isinstance(made, Rows) else {}

    def _as_rows(self, table: Stored, terms: Terms, **settings: Any) -> Rows:
        """Return rows with weights by which each unit of this site counts once."""
        weights = None
        if self._units is not None:
            weights = replace(self._units.weights(), size=terms.size, codes=_NO_CODES)
        return as_rows(table.X, table.y, weights=weights, public_size=terms.size, **settings)

    def _sampled(self, rows: Rows, terms: Terms, rate: float, seed: list[int]) -> Rows:
        """Return the rows of a public sample: no amplification is claimed for it.

        All sites draw for the rows of all sites, and take their own: the sample is that of the
        pooled table.
        """
        if rows.grouped or rows.n_rows != self.size:
            raise NotSupported("Samples are drawn of tables whose rows are the units.")
        first = sum(terms.sizes[: terms.sites.index(self.name)])
        drawn = np.random.default_rng(seed).random(terms.size) + UNIT_ROUNDOFF <= rate
        return rows.take(np.flatnonzero(drawn[first : first + self.size]))

    def _rows_of(self, visit: Visit, handle: int) -> Rows:
        """Return rows that may be read: the fit was charged for."""
        rows = visit.held.get(handle)
        if not visit.charged or not isinstance(rows, Rows):
            raise PrivacyError("Rows are read once the fit was charged for. Nothing was read.")
        return rows

    def _exact(self, visit: Visit, handle: int, asked: list[Any]) -> list[Any]:
        """Return exact answers, to a trusted aggregator alone."""
        rows = self._rows_of(visit, handle)
        if not visit.terms.model.exact:
            raise PrivacyError("This site sends nothing exact under these terms.")
        visit.answers += len(asked)
        return [
            ("counts", found.values, found.unit)
            if isinstance(found, Counts)
            else ("sum", found.values, float(found.error))
            for found in rows.answer(asked)
        ]

    def _share(self, visit: Visit, handle: int, asked: list[Any]) -> list[Any]:
        """Return the site's share of noisy answers, masked if the terms say so."""
        rows = self._rows_of(visit, handle)
        if visit.session is None or visit.noise is None:
            raise PrivacyError("Under these terms the coordinator adds the noise.")
        curator = SiteCurator(rows, visit.session.account, visit.noise)
        curator._filter = visit.filter
        visit.answers += len(asked)
        replies = []
        for at, share in enumerate(curator.contribute(asked, visit.terms)):
            words = share.values.view(np.uint64)
            if visit.terms.model.masked:
                about = f"|{at}|{share.grid}|{share.scale.hex()}"
                words = visit.keys.masked(share.values, visit.digest + about.encode())
            replies.append((words, share.grid, share.scale))
        return replies

    def _end(self, visit: Visit, released: bool) -> None:
        """End the fit: confirm what was charged, or give it back if nothing was read."""
        self._close(visit, released=released, why="ended by the coordinator")

    def _close(self, visit: Visit, *, released: bool, why: str) -> None:
        self._visit = None
        outcome = visit.end(released=released)
        terms = visit.terms
        self.record.append(
            {
                "fit": terms.session,
                "trust": terms.trust,
                "statement": terms.statement,
                "sites": list(terms.sites),
                "unit": terms.unit,
                "epsilon": terms.epsilon,
                "delta": terms.delta,
                "relation": terms.relation,
                "answers": visit.answers,
                "spent_share": 0.0 if visit.filter is None else visit.filter.spent_share,
                "budget": outcome,
                "end": why,
            }
        )
        note("Site %s ended fit %s: %s, budget %s.", self.name, terms.session[:8], why, outcome)
        if self._watcher is not None:
            self._watcher(self)


def _check_map(map: AffineMap | None, width: int) -> None:
    """Refuse an affine map of another number of columns, which compiled loops would not notice."""
    if map is None:
        return
    fits = map.linear.shape[-1:] == (width,) and map.offset.shape == map.linear.shape[:1]
    if map.linear.ndim not in (1, 2) or not fits or map.units.shape not in ((), (width,)):
        raise PrivacyError(f"A message has an affine map that is not of {width} columns.")


def _check_codes(rows: Rows, loss: Any) -> None:
    """Refuse a loss of several outputs for targets that are not their numbers.

    That all targets are known labels is public, as in every fit.
    """
    outputs = getattr(loss, "n_outputs", 1)
    if outputs > 1 and not np.isin(rows.targets, np.arange(outputs)).all():
        raise PrivacyError(f"The loss needs targets that are whole numbers below {outputs}.")


def _table(X: Any) -> Any:
    """Return a table as an array of floating point numbers, or as CSR."""
    if sp.issparse(X):
        matrix: Any = X
        return matrix.tocsr()
    array: NDArray[Any] = np.asarray(X)
    return np.ascontiguousarray(array, dtype=np.float32 if array.dtype == np.float32 else float)
