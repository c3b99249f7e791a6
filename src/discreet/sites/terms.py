"""Terms of a fit over sites: who takes part, what is promised, and which trust model it is under.

Terms are plain public data that every site gets and checks before it charges its ledger. The trust
model says where noise is added and who could see more than it: docs/proofs/sites.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from discreet.core import Budget
from discreet.errors import EngineError
from discreet.rows import Unit
from discreet.validate import choice, integer


class SiteError(EngineError):
    """A site refused, failed or was lost; every ledger shows at least what its site released."""


@dataclass(frozen=True)
class TrustModel:
    """Who sees what in a fit over sites.

    Attributes
    ----------
    name : str
        Name by which `Federation` and a site choose it.
    exact : bool
        True if sites send exact sums, to which the coordinator adds noise.
    masked : bool
        True if sites mask what they send, so that the coordinator learns the sum of all alone.
    statement : str
        Condition of the guarantee: who is trusted, and with what.
    """

    name: str
    exact: bool
    masked: bool
    statement: str


TRUST_MODELS = {
    model.name: model
    for model in (
        TrustModel(
            "aggregator",
            exact=True,
            masked=False,
            statement="trusted aggregator: {sites} sites sent exact sums over their rows to the "
            "coordinator, which sees them and is trusted with them, and which added all noise",
        ),
        TrustModel(
            "secure",
            exact=False,
            masked=True,
            statement="secure aggregation: each of {sites} sites added its share of the noise and "
            "masked its sum; the guarantee holds against the coordinator together with up to "
            "{colluding} of the sites, if the others follow the protocol; sums of rounded "
            "Gaussians add less than 2^-1,000,000 to δ",
        ),
        TrustModel(
            "local",
            exact=False,
            masked=False,
            statement="no trust: each of {sites} sites added all of the noise to its own sums "
            "before it sent them; the guarantee holds against everybody else",
        ),
    )
}
"""Trust models by name."""

PER_SITE = {
    "row": "the unit is one row at one site",
    "person": (
        "the unit is one person at one site: sites do not compare ids, so a person with rows at s "
        "sites moves every sum by up to s times as much, and has s times the stated μ"
    ),
}
"""Condition on the unit, by unit."""


def trust_model(name: str) -> TrustModel:
    """Return the trust model of a name."""
    return TRUST_MODELS[choice("trust", name, TRUST_MODELS)]


@dataclass(frozen=True)
class Terms:
    """Public terms of one fit.

    Attributes
    ----------
    session : str
        Random name of the fit; no two have the same.
    trust : str
        Name of the trust model.
    colluding : int
        Number of sites that may share all they know with the coordinator.
    sites : tuple of str
        Names of the sites, in order.
    sizes : tuple of int
        Number of units of each.
    unit : {"row", "person"}
        Privacy unit at a site.
    epsilon, delta, relation
        Budget of the fit.
    """

    session: str
    trust: str
    colluding: int
    sites: tuple[str, ...]
    sizes: tuple[int, ...]
    unit: Unit
    epsilon: float
    delta: float
    relation: str

    def __post_init__(self) -> None:
        check_parties(self.sites, self.colluding)
        trust_model(self.trust)
        choice("unit", self.unit, ("row", "person"))
        if len(self.sizes) != len(self.sites):
            raise ValueError("terms must have one size for each site.")
        for size in self.sizes:
            integer("size", size, most=2**40)

    @property
    def model(self) -> TrustModel:
        """The trust model."""
        return trust_model(self.trust)

    @property
    def budget(self) -> Budget:
        """The budget of the fit."""
        return Budget(self.epsilon, self.delta, self.relation)

    @property
    def size(self) -> int:
        """Number of units of all sites together."""
        return sum(self.sizes)

    @property
    def sharing(self) -> int:
        """Number of sites whose noise together is that of the mechanism: K − t, or 1."""
        return len(self.sites) - self.colluding if self.model.masked else 1

    @property
    def statement(self) -> str:
        """The trust model in words."""
        return self.model.statement.format(sites=len(self.sites), colluding=self.colluding)


def check_parties(sites: Sequence[str], colluding: int) -> None:
    """Refuse a list of sites, or a number of colluding ones, that no proof covers."""
    if len(sites) < 2 or len(sites) > 1000:
        raise ValueError(f"a federation has from 2 to 1,000 sites; got {len(sites)}.")
    if len(set(sites)) < len(sites):
        raise ValueError("two sites have the same name; give each a name of its own.")
    remedy = "At least one site must be honest."
    integer("colluding", colluding, least=0, most=len(sites) - 1, remedy=remedy)
