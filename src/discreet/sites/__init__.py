"""Sites: one private model over several tables that may not be pooled.

`Federation` is what an estimator is fitted to; a `Site` holds a table, its own ledger and its own
privacy filter, and answers messages. Three trust models say where noise is added and who could see
more than noisy sums: docs/sites.md, with the proof in docs/proofs/sites.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet.sites.federation import Channel as Channel
    from discreet.sites.federation import Federation as Federation
    from discreet.sites.federation import Local as Local
    from discreet.sites.federation import Traffic as Traffic
    from discreet.sites.report import trust_section as trust_section
    from discreet.sites.site import Policy as Policy
    from discreet.sites.site import Site as Site
    from discreet.sites.terms import SiteError as SiteError
    from discreet.sites.terms import Terms as Terms
    from discreet.sites.terms import TrustModel as TrustModel

_MODULES = {
    name: module
    for module, names in {
        "federation": "Channel Federation Local Traffic",
        "report": "trust_section",
        "site": "Policy Site",
        "terms": "SiteError Terms TrustModel",
    }.items()
    for name in names.split()
}
"""Module of each public name; it is imported at first use, so that a forwarder starts at once."""

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"discreet.sites.{_MODULES[name]}"), name)
