"""Audits: attacks on privacy guarantees, which give certified lower bounds on the true ε.

`audit` attacks an estimator, a solver or a function by many runs on neighbouring tables;
`audit_one_run` attacks one fit with many canaries. docs/audit.md: what an audit can show.
"""

from discreet.audit.attack import Attack, most_telling, run
from discreet.audit.cases import attacks, audit, subjects
from discreet.audit.one_run import OneRunAudit, audit_one_run
from discreet.audit.result import Audit, CurvePoint, Verdict

__all__ = [
    "Attack",
    "Audit",
    "CurvePoint",
    "OneRunAudit",
    "Verdict",
    "attacks",
    "audit",
    "audit_one_run",
    "most_telling",
    "run",
    "subjects",
]
