"""What a run promises, and whether it may be called private."""

from __future__ import annotations

import math
from typing import Any

from discreet.accounting.recompute import check, insist, recomputed_epsilon
from discreet.errors import PrivacyError
from discreet.tuning import TunedGuarantee
from discreet_bench.problem import Problem, Result

__all__ = ["OVERSPENT", "promise"]

OVERSPENT = "spent too much: "
"""How the problem of a run begins that claims privacy and may not."""


def promise(result: Result, problem: Problem) -> dict[str, Any]:
    """What was spent, checked, and what kind of run it is, as columns of `runs`.

    Only a guarantee that is recomputed here makes a run private.

    Raises
    ------
    PrivacyError
        If the run claims privacy and has no guarantee, one for other neighbours, or one that
        allows more than the problem does.
    """
    guarantee = result.guarantee
    found: dict[str, Any] = {
        "variant": result.variant,
        "epsilon_spent": result.epsilon_spent,
        "delta_spent": math.nan,
        "epsilon_recomputed": math.nan,
        "guarantee": result.claim,
    }
    if guarantee is None:
        if result.variant == "private" and not result.problem:
            raise PrivacyError("the run claims privacy without a guarantee to recompute.")
        return found
    found |= {
        "epsilon_spent": guarantee.epsilon,
        "delta_spent": guarantee.delta,
        "guarantee": str(guarantee) if problem.repeat == 0 else "",
    }
    if not (guarantee.private and guarantee.secure):
        return found | {"variant": "not private"}
    if str(guarantee.relation) != problem.relation:
        raise PrivacyError(
            f"the guarantee is for {str(guarantee.relation)!r}; the objective asks for "
            f"{problem.relation!r}."
        )
    if result.published and guarantee.epsilon > problem.epsilon * (1 + 1e-9):
        spent = recomputed_epsilon(guarantee)
        return found | {"variant": "as released", "epsilon_recomputed": spent}
    if isinstance(guarantee, TunedGuarantee):
        recomputed = guarantee.recompute()
        insist((guarantee.epsilon, guarantee.delta), recomputed, problem.epsilon, problem.delta)
    else:
        recomputed = check(guarantee, problem.epsilon, problem.delta)
    return found | {"variant": "private", "epsilon_recomputed": recomputed}
