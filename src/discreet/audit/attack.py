"""An attack: a mechanism on two neighbouring tables, and ways to look at its output.

`run` draws outputs in both worlds. A part of them, never used again, teaches the attacker: which
statistic to look at and which event to bet on. On the rest that one event is counted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.conversions import epsilon_from_mu
from discreet.audit.learned import learn
from discreet.audit.result import SEEN, SHARP, Audit, CurvePoint, Verdict
from discreet.audit.statistics import (
    Event,
    choose_event,
    epsilon_bound,
    lower_rate,
    mu_bound,
    near_both_ends,
    sharpness,
    trials_for,
    trials_to_see,
    upper_rate,
)

__all__ = ["Attack", "Statistic", "most_telling", "run"]

FloatArray = NDArray[np.float64]
Statistic = Callable[[FloatArray], FloatArray]
"""From outputs of shape (runs, numbers) to one score a run."""

LEARNING_SHARE = 0.2
MOST_LEARNING = 400_000
MOST_TAUGHT = 20_000  # runs in each world that the learned statistic is taught with
CHUNK = 50_000
CURVE_POINTS = 120

FAR = 1e140
"""What stands for an output that is infinite, and twice that for one that is no number at all: an
attacker sees those, too. Squares of it and sums of them are still numbers."""


@dataclass(frozen=True)
class Attack:
    """A mechanism on two neighbouring tables, and how an attacker looks at what it puts out.

    Attributes
    ----------
    subject, pair
        What is attacked, and on which tables: names for people.
    epsilon, delta, relation
        What the mechanism promises.
    draw
        ``draw(world, count)``: outputs of ``count`` independent runs on table 0 or 1, of shape
        (count, numbers). Runs may come in any order; none may be repeated.
    statistics
        Named statistics that were fixed beforehand, such as the projection on the changed row.
        Without any, each number of the output is one.
    learn
        Whether the attacker also learns a statistic from the runs set apart for it.
    batched
        Whether many runs cost little more than one.
    """

    subject: str
    pair: str
    epsilon: float
    delta: float
    relation: str
    draw: Callable[[int, int], FloatArray]
    statistics: Mapping[str, Statistic] = field(default_factory=dict)
    learn: bool = True
    batched: bool = False

    def __post_init__(self) -> None:
        """Refuse a promise that is none."""
        if not (math.isfinite(self.epsilon) and self.epsilon > 0 and 0 <= self.delta < 1):
            raise ValueError(
                f"An audit needs a promise to refute: epsilon > 0 and 0 <= delta < 1; got "
                f"epsilon={self.epsilon!r}, delta={self.delta!r}."
            )


def most_telling(found: Iterable[Attack]) -> list[Attack]:
    """The first attack on each subject under each relation: the one that shows most comes first."""
    chosen: dict[tuple[str, str], Attack] = {}
    for attack in found:
        chosen.setdefault((attack.subject, str(attack.relation)), attack)
    return list(chosen.values())


def run(
    attack: Attack,
    *,
    trials: int,
    confidence: float = 0.999,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Carry out an attack.

    Parameters
    ----------
    attack : Attack
        What to attack.
    trials : int
        Runs in all, half of them in each world.
    confidence : float
        Of the certified bound.
    progress : callable, optional
        Called with (runs done, runs in all).

    Returns
    -------
    Audit
        With probability at least ``confidence`` its ``epsilon_bound`` is no larger than the true
        ε, whatever the mechanism is: the event was chosen on other runs than it is counted on.
    """
    if not 0.5 <= confidence < 1:
        raise ValueError(f"confidence must be in [0.5, 1); got {confidence!r}.")
    if trials < 100:
        raise ValueError(f"trials must be at least 100; got {trials!r}.")
    begun, alpha = time.perf_counter(), 1 - confidence
    each = trials // 2
    first = min(MOST_LEARNING, max(25, int(LEARNING_SHARE * each)))
    tested = each - first
    done = 0

    def draw(world: int, count: int) -> FloatArray:
        nonlocal done
        outputs = np.asarray(attack.draw(world, count), dtype=np.float64)
        if outputs.ndim == 0 or outputs.shape[0] != count:
            raise ValueError(
                f"{count} runs of {attack.subject} gave an array of shape {outputs.shape}; it must "
                f"have one row a run, {count} of them."
            )
        outputs = np.nan_to_num(outputs.reshape(count, -1), nan=2 * FAR, posinf=FAR, neginf=-FAR)
        done += count
        if progress is not None:
            progress(done, 2 * each)
        return outputs

    learning = _collect(draw, first)
    plan = _plan(attack, learning, tested, alpha)
    del learning
    likely = np.zeros(2, dtype=np.int64)  # for the ε and for the μ
    other = np.zeros(2, dtype=np.int64)
    above = np.zeros((2, plan.thresholds.size), dtype=np.int64)
    for start in range(0, tested, CHUNK):
        count = min(CHUNK, tested - start)
        worlds = (draw(0, count), draw(1, count))
        for k, (statistic, event) in enumerate(plan.bets):
            scores = (statistic(worlds[0]), statistic(worlds[1]))
            hits = event.counts(scores)
            likely[k] += hits[0]
            other[k] += hits[1]
            if k == 0:
                for world in (0, 1):
                    above[world] += scores[world].size - np.searchsorted(
                        np.sort(scores[world]), plan.thresholds, side="right"
                    )
    bound = float(epsilon_bound(likely[0], other[0], tested, delta=attack.delta, alpha=alpha))
    mu = float(mu_bound(likely[1], other[1], tested, alpha=alpha))
    sharp = sharpness(attack.epsilon, attack.delta, tested, alpha=alpha)
    found = Audit(
        subject=attack.subject,
        pair=attack.pair,
        statistic=plan.name,
        epsilon=attack.epsilon,
        delta=attack.delta,
        relation=str(attack.relation),
        epsilon_bound=bound,
        mu_bound=mu,
        epsilon_if_gaussian=epsilon_from_mu(mu, attack.delta)
        if attack.delta
        else math.inf
        if mu
        else 0.0,
        confidence=confidence,
        trials=2 * each,
        sharpness=sharp,
        trials_needed=None,
        seconds=time.perf_counter() - begun,
        event=CurvePoint(
            fpr=float(upper_rate(other[0], tested, alpha / 2)),
            tpr=float(lower_rate(likely[0], tested, alpha / 2)),
        ),
        curve=_curve(above, tested, plan.bets[0][1]),
    )
    if found.verdict is not Verdict.TOO_WEAK:
        return found
    seen = (int(likely[0]), int(other[0]), tested)
    return replace(found, trials_needed=_needed(attack, alpha, seen, bound))


@dataclass(frozen=True)
class _Plan:
    """What to look at: a statistic and an event for the ε, and one for the μ."""

    name: str
    bets: tuple[tuple[Statistic, Event], tuple[Statistic, Event]]
    thresholds: FloatArray


def _collect(draw: Callable[[int, int], FloatArray], count: int) -> tuple[FloatArray, FloatArray]:
    return draw(0, count), draw(1, count)


def _plan(
    attack: Attack, learning: tuple[FloatArray, FloatArray], tested: int, alpha: float
) -> _Plan:
    """Choose statistics and events on runs that are not used again."""
    statistics = dict(attack.statistics)
    if not statistics:
        for k in range(learning[0].shape[1]):
            statistics[f"number {k + 1} of the output"] = _coordinate(k)
    choosing = learning
    if attack.learn:
        # a statistic is judged on other runs than it was learned from
        half = min(len(learning[0]) // 2, MOST_TAUGHT)
        statistics["a learned score of the output"] = learn(learning[0][:half], learning[1][:half])
        choosing = (learning[0][half:], learning[1][half:])
    best: list[tuple[float, str, Statistic, Event]] = []
    for delta in (attack.delta, None):
        found = []
        for name, statistic in statistics.items():
            scores = (statistic(choosing[0]), statistic(choosing[1]))
            event, promise = choose_event(scores, tested, alpha=alpha, delta=delta)
            found.append((promise, name, statistic, event))
        best.append(max(found, key=lambda item: item[0]))
    _, name, statistic, _ = best[0]
    both = np.concatenate([statistic(choosing[0]), statistic(choosing[1])])
    thresholds = near_both_ends(both, CURVE_POINTS)
    return _Plan(name, ((best[0][2], best[0][3]), (best[1][2], best[1][3])), thresholds)


def _coordinate(k: int) -> Statistic:
    return lambda outputs: outputs[:, k]


def _needed(attack: Attack, alpha: float, seen: tuple[int, int, int], bound: float) -> int | None:
    """Trials in all that would make an audit tell; those of a sharp enough one that saw the row."""
    sharp = trials_for(attack.epsilon, attack.delta, alpha=alpha, factor=SHARP)
    if sharp is None:
        return None
    least = SEEN * attack.epsilon
    if bound < least:
        sees = trials_to_see(*seen, delta=attack.delta, alpha=alpha, least=least)
        if sees is None and seen[2] >= sharp:
            return None  # so many runs would have shown what there is to see
        sharp = max(sharp, sees or 0)
    return math.ceil(max(2 * sharp / (1 - LEARNING_SHARE), 100))


def _curve(above: NDArray[np.int64], tested: int, event: Event) -> tuple[CurvePoint, ...]:
    """Rates of all thresholds; "accused" is whoever looks like the world the event is for."""
    rates = above / tested if event.above else 1 - above / tested
    points = {
        (float(fpr), float(tpr))
        for tpr, fpr in zip(rates[event.likely], rates[1 - event.likely], strict=True)
    }
    return tuple(CurvePoint(*point) for point in sorted(points | {(0.0, 0.0), (1.0, 1.0)}))
