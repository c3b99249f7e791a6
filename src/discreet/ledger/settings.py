"""Settings of a data set, and the rule by which entries of another relation or unit count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discreet.accounting.budget import Relation
from discreet.errors import PrivacyError
from discreet.ledger.losses import Limits


@dataclass(frozen=True)
class Settings:
    """Settings that a data set was created with; they never change.

    ``unit`` is what neighbouring data sets differ in under ``relation``. ``rows_per_unit`` bounds
    the rows of a unit, if the creator stated a bound. In a ``divided`` data set each unit lies in
    one block, as the creator stated.
    """

    limits: Limits | None
    relation: Relation
    unit: str
    rows_per_unit: int | None
    divided: bool

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for the event that creates the data set."""
        return {
            "limit": None if self.limits is None else self.limits.to_dict(),
            "relation": str(self.relation),
            "unit": self.unit,
            "rows_per_unit": self.rows_per_unit,
            "divided": self.divided,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Settings:
        """Read what `to_dict` wrote."""
        return cls(
            None if data["limit"] is None else Limits.from_dict(data["limit"]),
            Relation(data["relation"]),
            data["unit"],
            data["rows_per_unit"],
            data["divided"],
        )

    def group(self, relation: Relation, unit: str) -> int:
        """Return the number of steps of an entry's relation in one of the data set's.

        Privacy
        -------
        A fit with groups protects whatever its ids name: the data set's unit, by the caller's word.
        One unit of at most k rows, added or removed, is k rows added or removed; one unit replaced
        is one removed and one added. A row-level promise for replaced rows says nothing about
        another number of rows, and none for added rows: both are refused.
        """
        steps = 1
        if unit == "person" and self.unit != "row":
            unit = self.unit  # the groups of a fit are the data set's units
        if unit != self.unit:
            if unit != "row" or self.rows_per_unit is None:
                raise PrivacyError(
                    f"The limit of this data set is for one {self.unit}, and this release protects "
                    f"one {unit}. If every {self.unit} has at most k rows, create the data set "
                    "with rows_per_unit=k: then row-level releases count for k rows."
                )
            steps = self.rows_per_unit
        if relation is not self.relation or unit != self.unit:
            if relation is not Relation.ADD_REMOVE:
                raise PrivacyError(
                    f"The limit of this data set is under {str(self.relation)!r} for one "
                    f"{self.unit}; a release under {str(relation)!r} for one {unit} does not "
                    "bound that. Fit with relation='add_remove'."
                )
            steps *= self.relation.rows_changed
        return steps
