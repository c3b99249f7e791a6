"""Audits of the planted bugs and of their repaired twins.

    python -m bench.studies.audit_zoo [WORD …] [--wrong]

prints for each bug the promised ε and δ, the certified lower bound on ε (99.9 % confidence),
trials, seconds and the verdict, and the same for the twin. With words, only bugs whose names have
one of them; with ``--wrong``, an explanation of each. The exit code is 1 if a bug was not refuted
or a twin was. ``--markdown`` prints the table of docs/audit.md.
"""

from __future__ import annotations

import argparse
import sys
import textwrap

from discreet.audit import Verdict, run
from tests.audit.zoo import ZOO

HEAD = (
    f"{'bug':48} {'ε':>5} {'δ':>7} {'trials':>9} | {'ε ≥':>5} {'s':>5} verdict    "
    f"| repaired: {'ε ≥':>5} {'s':>5} verdict"
)
MARKDOWN_HEAD = """\
| planted bug | promised ε | δ | trials | certified ε ≥ | repaired twin: ε ≥ |
|---|---:|---:|---:|---:|---:|"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Audits of the planted bugs.")
    parser.add_argument("words", nargs="*", help="only bugs whose names have one of these words")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--wrong", action="store_true", help="explain each bug")
    arguments = parser.parse_args()
    words = [word.lower() for word in arguments.words]
    bugs = [bug for bug in ZOO if not words or any(word in bug.name.lower() for word in words)]
    print(MARKDOWN_HEAD if arguments.markdown else HEAD)
    refuted = kept = 0
    for bug in bugs:
        broken = run(bug.broken(), trials=bug.trials)
        sound = run(bug.sound(), trials=bug.trials)
        refuted += broken.verdict is Verdict.REFUTED
        kept += sound.verdict is not Verdict.REFUTED
        if arguments.markdown:
            weak = " (too weak)" if sound.verdict is Verdict.TOO_WEAK else ""
            print(
                f"| {bug.name} | {broken.epsilon:.3g} | {broken.delta:.2g} | {broken.trials:,d} | "
                f"{broken.epsilon_bound:.2f} | {sound.epsilon_bound:.2f}{weak} |",
                flush=True,
            )
            continue
        print(
            f"{bug.name:48} {broken.epsilon:5.3g} {broken.delta:7.2g} {broken.trials:9,d} | "
            f"{broken.epsilon_bound:5.2f} {broken.seconds:5.2f} {broken.verdict:10} | "
            f"          {sound.epsilon_bound:5.2f} {sound.seconds:5.2f} {sound.verdict}",
            flush=True,
        )
        if arguments.wrong:
            print(textwrap.indent(textwrap.fill(bug.wrong, 96), "    "))
    print(f"{refuted} of {len(bugs)} bugs refuted; {kept} of {len(bugs)} repaired twins not.")
    return int(refuted < len(bugs) or kept < len(bugs))


if __name__ == "__main__":
    sys.exit(main())
