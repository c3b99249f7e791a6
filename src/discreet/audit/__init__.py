"""Attacks on promises: what can be told of one row from what was released.

`audit` attacks anything; `audit_one_run` uses one fit with many canaries; `check_all` looks for
what statistics cannot see. What an audit can and cannot say: docs/audit.md.
"""

from discreet.audit.api import audit
from discreet.audit.attack import Attack, run
from discreet.audit.cases import attacks, subjects
from discreet.audit.checks import Finding, check_all
from discreet.audit.one_run import audit_one_run
from discreet.audit.result import Audit, Verdict

__all__ = [
    "Attack",
    "Audit",
    "Finding",
    "Verdict",
    "attacks",
    "audit",
    "audit_one_run",
    "check_all",
    "run",
    "subjects",
]
