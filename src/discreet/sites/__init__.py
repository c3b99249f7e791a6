"""Sites: one private model over several tables that may not be pooled.

`Federation` is what an estimator is fitted to; a `Site` holds a table, its own ledger and its own
privacy filter, and answers messages. Three trust models say where noise is added and who could see
more than noisy sums: docs/sites.md, with the proof in docs/proofs/sites.md.
"""

from discreet.sites.federation import Channel, Federation, Local, Traffic
from discreet.sites.report import trust_section
from discreet.sites.site import Policy, Site
from discreet.sites.terms import SiteError, Terms, TrustModel

__all__ = [
    "Channel",
    "Federation",
    "Local",
    "Policy",
    "Site",
    "SiteError",
    "Terms",
    "Traffic",
    "TrustModel",
    "trust_section",
]
