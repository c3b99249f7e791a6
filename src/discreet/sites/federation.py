"""A federation: several sites that fit one model, asked by a coordinator that has no rows.

`Federation.open` returns what the ``fit`` of every estimator takes. The coordinator's account, its
division of the budget and its solver are those of a table in one place; only where rows are read,
and where noise is added, differ with the trust model. Each site charges its own ledger.

Proof: docs/proofs/sites.md.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, NoReturn, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.budget import Measure
from discreet.accounting.conversions import Conversion
from discreet.core import Budget, Curator, Gaussian, NoisySum
from discreet.core.account import Charge, Chargeable
from discreet.core.bits import Bits
from discreet.core.curator import Asked, averaged
from discreet.core.noise import from_grid
from discreet.core.questions import Gradient, Question
from discreet.core.session import Session
from discreet.engines import BlockTable, BlockTarget, BlockUnits
from discreet.errors import NotSupported, PrivacyError
from discreet.rows import AffineMap, Counts, Sum, Unit
from discreet.rows.partitions import added
from discreet.sites import wire
from discreet.sites.shares import MedianCounts, divided, summed
from discreet.sites.site import Policy, Site
from discreet.sites.terms import PER_SITE, SiteError, Terms, check_parties, trust_model
from discreet.tables import Schema

SUMS_ONLY = (
    "{} is not supported over sites, which answer questions about sums alone. Use solver='auto', "
    "'gd' or 'newton'."
)


class Channel(Protocol):
    """A way to a site: bytes there, and bytes back. It raises `SiteError` if there is no answer."""

    @property
    def name(self) -> str:
        """Name of the site."""

    def send(self, message: bytes) -> bytes:
        """Send a message and return the reply."""


@dataclass(frozen=True)
class Local:
    """A site in this process, for simulations: it gets the bytes that it would get elsewhere."""

    site: Site

    @property
    def name(self) -> str:
        """Name of the site."""
        return self.site.name

    def send(self, message: bytes) -> bytes:
        """Hand the message to the site."""
        return self.site.handle(message)


@dataclass
class Traffic:
    """Messages and bytes between a coordinator and all sites.

    ``questions`` is the number of private questions, and ``numbers`` that of numbers in answers of
    one site.
    """

    rounds: int = 0
    messages: int = 0
    sent: int = 0
    received: int = 0
    questions: int = 0
    numbers: int = 0


class Federation:
    """Several sites with one table each, which are not pooled, as one table for ``fit``.

    Parameters
    ----------
    sites : iterable of `Site`, `Channel`, or tables
        The sites. ``(X, y)`` or ``(X, y, groups)`` makes one in this process, for a simulation.
    trust : {"secure", "local", "aggregator"}
        Trust model: docs/sites.md.
    colluding : int
        With ``trust="secure"``: number of sites, t, that may share all they know with the
        coordinator. The noise grows by √(K/(K − t)).

    Attributes
    ----------
    traffic : Traffic
        Messages and bytes so far.

    Examples
    --------
    >>> import numpy as np
    >>> from discreet import LogisticRegression
    >>> from discreet.sites import Federation
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 3))
    >>> y = (X[:, 0] + rng.logistic(size=4000) > 0).astype(int)
    >>> hospitals = [(X[k::4], y[k::4]) for k in range(4)]
    >>> federation = Federation(hospitals, trust="secure", colluding=1)
    >>> model = LogisticRegression(epsilon=1.0, delta=1e-6, classes=[0, 1])
    >>> model.fit(*federation.open()).coef_.shape
    (1, 3)
    """

    def __init__(self, sites: Iterable[Any], *, trust: str = "secure", colluding: int = 1) -> None:
        self.model = trust_model(trust)
        self.channels = tuple(_channel(each, number, trust) for number, each in enumerate(sites))
        self.names = tuple(channel.name for channel in self.channels)
        self.colluding = colluding if self.model.masked else 0
        check_parties(self.names, self.colluding)
        self.traffic = Traffic()
        self._meeting: Meeting | None = None
        made = [each.site for each in self.channels if isinstance(each, Local)]
        if self.model.masked and len(made) == len(self.channels):
            introduce(made)

    def open(self, schema: Schema | None = None) -> tuple[Any, BlockTarget, BlockUnits | None]:
        """Return X, y and groups for ``fit``, once all sites have said what is public of them.

        With a ``schema``, sites must have made their rows by this one.
        """
        about = [self._described(channel) for channel in self.channels]
        _check_agreement(self.names, about)
        first = about[0]
        if schema is not None:
            if first["schema"] is None:
                raise SiteError("The sites have no schema, and the fit was given one.")
            found = Schema.from_toml(first["schema"])
            _check_schemas("The given schema and that of the sites", schema, found)
        sizes = tuple(each["size"] for each in about)
        has_units = first["unit"] != "row"
        table = SiteTable(
            engine=_NoEngine(),
            place="sites",
            parts=(),
            shape=(sum(sizes), first["width"]),
            dtype=np.dtype(first["dtype"]),
            header=np.empty((0, first["width"]), dtype=np.dtype(first["dtype"])),
            has_units=has_units,
            federation=self,
            sizes=sizes,
        )
        return table, BlockTarget(table), BlockUnits(table) if has_units else None

    @property
    def schema(self) -> Schema | None:
        """The schema that all sites have, if they have one."""
        about = [self._described(channel) for channel in self.channels]
        _check_agreement(self.names, about)
        text = about[0]["schema"]
        return None if text is None else Schema.from_toml(text)

    def _described(self, channel: Channel) -> dict[str, Any]:
        reply = wire.decode(channel.send(wire.encode({"do": "describe"})))
        if reply["site"] != channel.name or "answer" not in reply:
            raise SiteError(f"Site {channel.name!r} did not describe itself.")
        if self.model.name not in reply["answer"]["accepts"]:
            raise SiteError(f"Site {channel.name!r} takes no part with trust={self.model.name!r}.")
        found: dict[str, Any] = reply["answer"]
        return found

    def meet(self, budget: Budget, unit: Unit, sizes: tuple[int, ...]) -> Meeting:
        """Begin a fit: all sites check its terms, and agree on keys if they mask answers."""
        terms = Terms(
            secrets.token_hex(16),
            self.model.name,
            self.colluding,
            self.names,
            sizes,
            unit,
            budget.epsilon,
            budget.delta,
            str(budget.relation),
        )
        self._meeting = Meeting(self.channels, terms, self.traffic)
        return self._meeting

    @property
    def meeting(self) -> Meeting:
        """The fit that is under way."""
        if self._meeting is None:
            raise PrivacyError("No fit over these sites has begun.")
        return self._meeting


def introduce(sites: Sequence[Site]) -> None:
    """Give sites of one process identities, and tell each the others' public keys.

    It is for simulations. Real sites exchange their public keys beforehand.
    """
    from discreet.sites.masks import Identity  # needs an optional package

    own = {site.name: site.policy.identity or Identity() for site in sites}
    for site in sites:
        peers = {name: each.public for name, each in own.items() if name != site.name}
        site.policy = replace(site.policy, identity=own[site.name], peers=peers)


def _channel(given: Any, number: int, trust: str) -> Channel:
    """Return the way to a site; a table becomes a site of this process."""
    if isinstance(given, Site):
        return Local(given)
    if isinstance(given, tuple):
        return Local(Site(f"site {number + 1}", *given, policy=Policy(accepts=(trust,))))
    channel: Channel = given
    return channel


def _check_agreement(names: Sequence[str], about: Sequence[dict[str, Any]]) -> None:
    """Refuse sites whose tables have not the same columns; the message names one, and no cell."""
    first = about[0]
    for name, other in zip(names[1:], about[1:], strict=True):
        pair = f"Sites {names[0]!r} and {name!r}"
        if (first["schema"] is None) != (other["schema"] is None):
            raise SiteError(f"{pair}: one has a schema and the other has none.")
        if first["schema"] is not None:
            _check_schemas(
                pair, Schema.from_toml(first["schema"]), Schema.from_toml(other["schema"])
            )
        for one, two in zip(first["columns"], other["columns"], strict=False):
            if one != two:
                raise SiteError(f"{pair} have other columns: {one!r} and {two!r} in one place.")
        for fact, words in _FACTS.items():
            if first[fact] != other[fact]:
                raise SiteError(f"{pair} have {words}: {first[fact]!r} and {other[fact]!r}.")


_FACTS = {
    "width": "other numbers of columns",
    "dtype": "numbers of other types",
    "sparse": "tables that are stored in other ways (sparse)",
    "unit": "other privacy units",
}


def _check_schemas(pair: str, one: Schema, two: Schema) -> None:
    """Refuse schemas that differ, by the name of the column."""
    for name in dict.fromkeys((*one.columns, *two.columns)):
        if one.columns.get(name) != two.columns.get(name):
            raise SiteError(f"{pair} declare the column {name!r} otherwise, or one lacks it.")
    if list(one.columns) != list(two.columns):
        raise SiteError(f"{pair} have their columns in another order.")
    if one.target != two.target or one.unit != two.unit:
        raise SiteError(f"{pair} have schemas with another target or unit.")


# ---- one fit


class Meeting:
    """The messages of one fit: every site gets the same bytes, numbered, and must answer each."""

    def __init__(self, channels: Sequence[Channel], terms: Terms, traffic: Traffic) -> None:
        self.terms = terms
        self.traffic = traffic
        self._channels = channels
        self._round = 0
        self._handles = 0
        self._ended = False
        joined = self._sent({"do": "join", "terms": terms})
        self.secure = all(reply["secure"] for reply in joined)
        if terms.model.masked:
            keys = {name: reply["key"] for name, reply in zip(terms.sites, joined, strict=True)}
            self.ask("agree", keys=keys)

    def ask(self, do: str, **settings: Any) -> list[Any]:
        """Send the next message to all sites; return one answer of each, in order.

        If one refuses or is lost, the fit ends at all others: each keeps what it charged, or gives
        it back if it has read nothing.
        """
        if self._ended:
            raise SiteError("The fit over these sites has ended.")
        self._round += 1
        about = {"session": self.terms.session, "round": self._round}
        return self._sent({"do": do, **about, "settings": settings})

    def make(self, source: int, step: str, **arguments: Any) -> tuple[int, dict[str, Any]]:
        """Make other rows or another table at every site; return a handle and what is public."""
        self._handles += 1
        facts = self.ask(
            "make", source=source, handle=self._handles, step=step, arguments=arguments
        )
        if any(fact != facts[0] for fact in facts):
            self.end(released=False)
            raise SiteError("Sites disagree on what is public of their rows; nothing was released.")
        return self._handles, facts[0]

    def end(self, *, released: bool) -> None:
        """End the fit at all sites that can be reached."""
        if self._ended:
            return
        self._ended = True
        self._round += 1
        about = {"session": self.terms.session, "round": self._round}
        message = wire.encode({"do": "end", **about, "settings": {"released": released}})
        for channel in self._channels:
            try:
                channel.send(message)
            except SiteError:
                continue  # a site that is lost keeps its charge

    def _sent(self, content: dict[str, Any]) -> list[Any]:
        message = wire.encode(content)
        self.traffic.rounds += 1
        self.traffic.messages += len(self._channels)
        self.traffic.sent += len(message) * len(self._channels)
        try:
            with ThreadPoolExecutor(len(self._channels)) as pool:
                raw = list(pool.map(lambda channel: channel.send(message), self._channels))
            self.traffic.received += sum(map(len, raw))
            return [
                self._opened(channel.name, reply)
                for channel, reply in zip(self._channels, raw, strict=True)
            ]
        except SiteError:
            self.end(released=False)
            raise

    def _opened(self, name: str, raw: bytes) -> Any:
        """Return the answer of a site to the newest message."""
        reply = wire.decode(raw)
        if reply["site"] == name and "refused" in reply:
            raise SiteError(
                f"Site {name!r} refused: {reply['refused']} The fit has ended; every site's ledger "
                "shows at least what it released."
            )
        if reply["site"] != name or reply["round"] != self._round:
            raise SiteError(f"Site {name!r} answered another message. The fit has ended.")
        return reply["answer"]


@dataclass(frozen=True)
class SitesCharge:
    """What all sites charged to their ledgers for a fit."""

    meeting: Meeting

    def confirm(self) -> None:
        """Tell the sites that the fit was released."""
        self.meeting.end(released=True)

    def give_back(self) -> None:
        """Tell the sites that it ended; each gives its charge back if it has read nothing."""
        self.meeting.end(released=False)


@dataclass(frozen=True)
class SitesLedger:
    """The ledgers of all sites, as the one ledger of the coordinator's account."""

    meeting: Meeting

    def charge(
        self, measure: Measure, total: Fraction, delta: Fraction, budget: Budget, unit: str
    ) -> Charge:
        """Let every site charge its ledger, or end the fit."""
        self.meeting.ask("charge", measure=measure, total=str(total), delta=str(delta))
        return SitesCharge(self.meeting)


def _refused(what: str) -> Any:
    """Return the method that refuses what needs single rows."""

    def refuse(self: Any, *arguments: Any, **settings: Any) -> NoReturn:
        raise NotSupported(SUMS_ONLY.format(what))

    return refuse


@dataclass(frozen=True, eq=False)
class SiteRows:
    """Rows at all sites, as a curator of the coordinator names them."""

    meeting: Meeting
    handle: int
    public_size: int
    row_norm: float | None
    fit_intercept: bool
    n_features: int
    n_parameters: int
    dense: bool
    unit: Unit

    check_batches = _refused("A pass over batches of rows")
    check_sampling = _refused("A sample of rows with amplification")
    take = _refused("A choice of rows")
    take_units = _refused("A choice of units")

    @property
    def n_rows(self) -> int:
        """Public number of units."""
        return self.public_size

    @property
    def n_units(self) -> int:
        """Public number of units."""
        return self.public_size

    @property
    def grouped(self) -> bool:
        """True if rows may share units."""
        return self.unit != "row"

    def with_targets(self, y: Any) -> Self:
        """Return the rows with what a rule makes of each target."""
        return self._made("with_targets", y=y)

    def with_row_norm(self, row_norm: float) -> Self:
        """Return the rows, scaled down to a norm."""
        return self._made("with_row_norm", row_norm=row_norm)

    def with_units(self, units: NDArray[np.float64]) -> Self:
        """Return the rows with columns times powers of two."""
        return self._made("with_units", units=units)

    def transformed(
        self, map: AffineMap, *, fit_intercept: bool, row_norm: float | None = None
    ) -> Self:
        """Return the rows under an affine map."""
        return self._made("transformed", map=map, fit_intercept=fit_intercept, row_norm=row_norm)

    def columns(self, index: Any, factor: float, matrix: Any = None) -> Self:
        """Return some columns of the rows."""
        return self._made("columns", index=np.asarray(index), factor=factor, matrix=matrix)

    def sample(self, rate: float, generator: Any) -> Self:
        """Draw the Poisson sample that `Rows.sample` draws of the same rows in one table.

        No amplification is claimed for it: the sites are told its seed.
        """
        seed = [int(word) for word in generator.bit_generator.seed_seq.entropy]
        return self._made("sample", rate=rate, seed=seed)

    def _made(self, step: str, **arguments: Any) -> Self:
        handle, facts = self.meeting.make(self.handle, step, **arguments)
        return replace(self, handle=handle, **facts)

    def answer(self, questions: Sequence[Any]) -> list[Any]:
        """Return the sum of the sites' exact answers to each question."""
        replies = self.meeting.ask("exact", handle=self.handle, asked=list(questions))
        answers = []
        for at in range(len(questions)):
            found = [_exact_of(reply[at]) for reply in replies]
            answers.append(added(found))
        self._count(questions, [answer.values.size for answer in answers])
        return answers

    def noisy(self, asked: Sequence[tuple[Any, Gaussian]]) -> list[NoisySum]:
        """Return the sum of the sites' noisy answers to each question.

        Its noise is that of all sites: more than what is charged for, by √(K/(K − t)).
        """
        replies = self.meeting.ask("share", handle=self.handle, asked=list(asked))
        terms = self.meeting.terms
        answers = []
        for at, (_, mechanism) in enumerate(asked):
            words, grids, scales = zip(*(reply[at] for reply in replies), strict=True)
            if len(set(grids)) > 1 or len(set(scales)) > 1:
                raise SiteError("Sites disagree on the grid of their noise.")
            values = from_grid(summed(np.array(words)), grids[0])
            deviation = scales[0] * math.sqrt(len(terms.sites) / terms.sharing)
            answers.append(NoisySum(values, deviation, mechanism))
        self._count(asked, [answer.values.size for answer in answers])
        return answers

    def _count(self, asked: Sequence[Any], sizes: Sequence[int]) -> None:
        self.meeting.traffic.questions += len(asked)
        self.meeting.traffic.numbers += sum(sizes)


def _exact_of(reply: tuple[str, Any, Any]) -> Any:
    kind, values, about = reply
    return Counts(values, about) if kind == "counts" else Sum(values, about)


class SitesCurator(Curator):
    """The coordinator's curator: it charges its own account, and asks sites.

    A trusted aggregator adds the noise itself, as any curator. Under the other trust models the
    sites do, after each has charged its own filter.
    """

    _rows: Any

    @property
    def _at_sites(self) -> bool:
        return not self._rows.meeting.terms.model.exact

    def open(self, measure: Measure, conversion: Conversion = "tight") -> float:
        """Choose the measure to compose in: Gaussian DP, where sites have filters of their own."""
        if self._at_sites and measure != "gdp":
            raise NotSupported(
                f"This solver composes in {measure!r}, and sites that add noise themselves keep "
                "filters in Gaussian DP. Use solver='gd', 'auto' or 'newton', or a trusted "
                "aggregator."
            )
        return super().open(measure, conversion)

    def ask_all(self, asked: Sequence[Asked]) -> list[Any]:
        """Return private answers to questions that are read for together, in order.

        Privacy
        -------
        As `Curator.ask_all`; where the noise is added is a matter of the trust model. Proof:
        docs/proofs/sites.md.
        """
        if not self._at_sites:
            return super().ask_all(asked)
        for question, mechanism in asked:
            question.check(self._public, mechanism)
        parts = [divided(*each) for each in asked]
        self._charge(*((mechanism, question.uses) for question, mechanism in parts))
        answers: list[Any] = []
        for (question, mechanism), found in zip(parts, self._rows.noisy(parts), strict=True):
            if isinstance(question, Gradient):
                self._noisy = (found, question, mechanism)
            if isinstance(question, MedianCounts):
                answers.append(question.chosen(found.values))
            else:
                answers.append(found)
        return answers

    _noisy: tuple[NoisySum, Question[Any, Any], Gaussian] | None = None

    def refine(self, gradient: NoisySum, *, mechanism: Gaussian) -> NoisySum:
        """Measure the same gradient again and average; sites compute it again."""
        if not self._at_sites:
            return super().refine(gradient, mechanism=mechanism)
        if self._noisy is None or self._noisy[0] is not gradient:
            raise ValueError("Only the newest gradient of this curator can be refined.")
        question = self._noisy[1]
        second = self.ask_all([(question, mechanism)])[0]
        merged = averaged(gradient, second)
        self._noisy = (merged, question, mechanism)
        return merged

    sampled_gradient = _refused("A gradient of a secret sample")
    descend = _refused("A descent by single rows")
    release = _refused("A computation on exact rows")
    run = _refused("A computation on exact rows")
    reveal = _refused("A baseline that is not private")


class SitesSession(Session):
    """The session of a fit over sites: its ledger is all of theirs."""

    _kind = SitesCurator

    def __init__(self, meeting: Meeting, budget: Budget, unit: Unit, bits: Bits) -> None:
        super().__init__(budget, unit, ledger=SitesLedger(meeting), bits=bits)
        self.meeting = meeting
        self.secure = self.bits.secure if meeting.terms.model.exact else meeting.secure


class _NoEngine:
    """The place of an engine: blocks of other engines are asked by it, sites by messages."""

    def map(self, *_: Any) -> NoReturn:
        """Refuse."""
        raise NotSupported(SUMS_ONLY.format("This"))

    derive = map
    release = map


@dataclass(frozen=True, eq=False)
class SiteTable(BlockTable):
    """The tables of all sites, as one; ``steps`` are made at the sites when a fit begins."""

    whole_units: ClassVar[bool] = True  # a person at two sites is a unit at each of them

    federation: Federation = field(kw_only=True)
    sizes: tuple[int, ...] = field(kw_only=True)
    steps: tuple[tuple[str, Any], ...] = ()

    @property
    def condition(self) -> str:
        """The trust model, and whose privacy unit is meant."""
        terms = self.federation.meeting.terms
        return f"{terms.statement}; {PER_SITE[terms.unit]}"

    def session(
        self, budget: Budget, unit: Unit, ledger: Chargeable | None, bits: Bits
    ) -> SitesSession:
        """Begin a fit: all sites check its terms."""
        if ledger is not None:
            raise ValueError(
                "each site has its own ledger, which it charges; leave ledger=None at the "
                "coordinator."
            )
        return SitesSession(self.federation.meet(budget, unit, self.sizes), budget, unit, bits)

    def by_units(self) -> Self:
        """Return the table: each site gives the rows of its units their weights."""
        return self

    def rows(self, *, fit_intercept: bool = True, row_norm: float | None = None) -> Any:
        """Return the rows of all sites."""
        meeting = self.federation.meeting
        handle = 0
        for step, by in self.steps:
            handle, _ = meeting.make(handle, step, by=by)
        settings: Any = {"fit_intercept": fit_intercept, "row_norm": row_norm}
        handle, facts = meeting.make(handle, "rows", **settings)
        return SiteRows(meeting, handle, **facts)

    def with_targets(self, rule: Any) -> Self:
        """Return the table with what a rule makes of its targets."""
        return replace(self, steps=(*self.steps, ("targets", rule)))

    def applied(self, step: Any) -> Self:
        """Return the table that a fitted step of a preparation makes of this one."""
        return replace(self, steps=(*self.steps, ("applied", step)))

    def expanded(self, expansion: Any, width: int) -> Self:
        """Return the table of features that an expansion makes of the columns."""
        shape = (self.shape[0], width)
        return replace(self, shape=shape, steps=(*self.steps, ("expanded", expansion)))
