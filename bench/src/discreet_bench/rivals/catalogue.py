"""The other libraries: what they need, and which problems they can be given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["RIVALS", "Rival"]

_SCRIPTS = Path(__file__).parent / "scripts"


@dataclass(frozen=True)
class Rival:
    """Another library, and what it can do.

    Attributes
    ----------
    name
        As the benchmark calls it.
    packages
        What pip installs, with ranges of versions.
    imports
        Modules that must be importable then.
    script
        The file that calls the library; `scripts.worker` runs it with the library's Python.
    relations
        The neighbouring relations that its claim covers.
    why
        Where the relation is from, for the reason of a skip.
    losses
        The losses it can minimise.
    max_classes
        The most classes it can tell apart; None for any number.
    needs_delta
        Whether its claim needs δ > 0.
    private
        Whether it claims any privacy.
    """

    name: str
    packages: tuple[str, ...]
    imports: tuple[str, ...]
    script: Path
    relations: tuple[str, ...] = ("add_remove", "replace_one")
    why: str = ""
    losses: tuple[str, ...] = ("logistic",)
    max_classes: int | None = None
    needs_delta: bool = False
    private: bool = True

    def refusal(self, problem: Mapping[str, Any]) -> str | None:
        """Why a problem cannot be given to this library, or None if it can.

        Parameters
        ----------
        problem : mapping
            ``loss``, ``relation``, ``delta`` and ``n_classes``.
        """
        if problem["loss"] not in self.losses:
            return f"{self.name} has the {' and '.join(self.losses)} loss only"
        classes = problem["n_classes"]
        if classes < 2 or (self.max_classes is not None and classes > self.max_classes):
            return f"{self.name} takes {self.max_classes or '2 or more'} classes, not {classes}"
        if problem["relation"] not in self.relations:
            return f"{self.name} claims {' and '.join(self.relations)} only: {self.why}"
        if self.needs_delta and not problem["delta"] > 0:
            return f"{self.name} needs delta > 0"
        return None


RIVALS: dict[str, Rival] = {
    rival.name: rival
    for rival in (
        Rival(
            "diffprivlib",
            # from scikit-learn 1.8 on, its models cannot be made
            ("diffprivlib>=0.6", "scikit-learn>=1.4,<1.8"),
            ("diffprivlib.models",),
            _SCRIPTS / "diffprivlib.py",
            relations=("replace_one",),
            why="the proof that it cites changes one row and keeps their number",
        ),
        Rival(
            "opacus",
            ("opacus>=1.4", "torch>=2.2,<2.14", "numpy>=1.26"),
            ("opacus", "torch", "numpy"),
            _SCRIPTS / "opacus.py",
            relations=("add_remove",),
            why="its accountants are for Poisson samples, with one row more or less",
            needs_delta=True,
        ),
        Rival(
            "dp-ebm",
            ("interpret-core>=0.6",),
            ("interpret.privacy",),
            _SCRIPTS / "dp_ebm.py",
            relations=("add_remove",),
            why="its documentation names none, and its noise covers the sums of one row only",
            max_classes=2,
            needs_delta=True,
        ),
        Rival(
            "scikit-learn",
            ("scikit-learn>=1.4",),
            ("sklearn.linear_model",),
            _SCRIPTS / "scikit_learn.py",
            private=False,
        ),
    )
}
"""The other libraries by name."""
