"""Lower bounds on ε that audits certify for the library's solvers.

    python -m bench.studies.audit_table solvers [NAME …]   every solver, calibration and relation
    python -m bench.studies.audit_table power [NAME …]     gd, outpert, objpert, amp and agd

print Markdown tables: the promised ε, the lower bound certified at 99.9 % confidence, trials,
seconds and the verdict. ``solvers`` is at ε = 1, δ = 10⁻³, with 40,000 or 100,000 trials, or a
million where many are run at once, on the strongest pair of tables. ``power`` is at ε = 1,
δ = 10⁻⁵, with as many trials as a sharp bound needs. ``--trials`` sets the most that are run. The
exit code is 1 if a guarantee was refuted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from discreet.audit import Audit, Verdict, attacks, most_telling, run, subjects
from discreet.audit.result import HEADINGS, NUMERIC, row

TRIALS = 100_000  # the first row of each solver
ENOUGH = 40_000  # enough to refute twice the promised ε
BATCHED_TRIALS = 1_000_000
PIPELINE_TRIALS = 4_000  # whole fits are slow: these show gross errors only
POWER = (  # solver, relation, trials
    ("gd", "add_remove", 10_000_000),
    ("gd", "replace_one", 10_000_000),
    ("outpert", "add_remove", 10_000_000),
    ("outpert", "replace_one", 10_000_000),
    ("objpert", "add_remove", 4_000_000),
    ("objpert", "replace_one", 4_000_000),
    ("amp", "add_remove", 4_000_000),
    ("amp", "replace_one", 4_000_000),
    ("agd", "add_remove", 2_000_000),
)


def show(audits: Iterable[Audit]) -> bool:
    """Print rows as they come; return True if nothing was refuted."""
    print("| " + " | ".join(HEADINGS) + " |")
    print("|" + "|".join("---:" if k in NUMERIC else "---" for k in range(len(HEADINGS))) + "|")
    kept = True
    for audit in audits:
        print("| " + " | ".join(row(audit)) + " |", flush=True)
        kept &= audit.verdict is not Verdict.REFUTED
    return kept


def every_solver(names: list[str], jobs: int, most: int) -> Iterable[Audit]:
    for subject in names or subjects():
        found = most_telling(attacks(subject, epsilon=1.0, delta=1e-3, jobs=jobs))
        for k, attack in enumerate(found):
            if subject == "auto" or subject.startswith("pipeline"):
                trials = ENOUGH if k == 0 and subject == "auto" else PIPELINE_TRIALS
            elif attack.batched:
                trials = BATCHED_TRIALS
            else:
                trials = TRIALS if k == 0 else ENOUGH
            yield run(attack, trials=min(trials, most))


def power(names: list[str], jobs: int, most: int) -> Iterable[Audit]:
    for subject, relation, trials in POWER:
        if not names or subject in names:
            found = attacks(subject, epsilon=1.0, delta=1e-5, relation=relation, jobs=jobs)
            yield run(found[0], trials=min(trials, most))


def main() -> int:
    parser = argparse.ArgumentParser(description="Lower bounds on ε for the library's solvers.")
    parser.add_argument("table", choices=["solvers", "power"])
    parser.add_argument("names", nargs="*", help="only these solvers")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--trials", type=int, default=10**9, help="trials per line at most")
    given = parser.parse_args()
    audits = power if given.table == "power" else every_solver
    return int(not show(audits(given.names, given.jobs, given.trials)))


if __name__ == "__main__":
    sys.exit(main())
