"""Code as a user with type hints writes it: checked by mypy --strict (see pyproject.toml)."""

from discreet import Ledger
from discreet.core import Account, Budget, Relation


def test_relations_are_given_by_name_and_read_as_relations() -> None:
    budget = Budget(3.0, 1e-6, "add_remove")
    relation: Relation = budget.relation
    assert relation is Relation.ADD_REMOVE
    assert Budget(3.0, 1e-6, Relation.ADD_REMOVE) == budget
    assert hash(Budget(3, 1e-6, "add_remove")) == hash(budget)


def test_a_limit_is_a_budget() -> None:
    spent = Ledger().create("rows", limit=Budget(3.0, 1e-6, "add_remove"))
    total: float = Account(Budget(0.5, 1e-7, "add_remove"), spent).open("gdp").spent_share
    assert total == 0.0
    assert spent.entries == 1
