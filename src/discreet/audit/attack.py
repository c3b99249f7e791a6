"""An attack: a mechanism on two neighbouring tables, and statistics of its output.

`run` draws outputs on both tables. A part of the runs, which is not used later, selects a statistic
and an event; that event is then counted on the remaining runs.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.conversions import epsilon_from_mu
from discreet.audit import statistics as stats
from discreet.audit.result import Audit, CurvePoint, Verdict, roc_curve
from discreet.validate import FloatArray, integer, number, positive

Statistic = Callable[[FloatArray], FloatArray]  # from (runs, numbers) to one score per run
Bet = tuple[Statistic, stats.Event]

MOST_LEARNING = 400_000  # runs per table that select a statistic and an event
MOST_TRAINING = 20_000  # runs per table that train the learned statistic
CHUNK = 50_000  # runs per table that are in memory at a time
CURVE_POINTS = 120  # thresholds of a ROC curve
LARGEST_NUMBER = 1e140  # in place of infinity, and twice that of a NaN; its square is finite
MOST_NUMBERS = 40  # outputs with more numbers get no product features


@dataclass(frozen=True)
class Attack:
    """A mechanism on two neighbouring tables, and the statistics that an attacker computes.

    Attributes
    ----------
    subject, pair
        Names of what is attacked and of the tables.
    epsilon, delta, relation
        The privacy guarantee that the mechanism states.
    draw
        ``draw(world, count)`` returns the outputs of ``count`` independent runs on table 0 or 1, of
        shape (count, numbers), in any order.
    statistics
        Named statistics that are fixed in advance, such as the projection on the changed row. If
        there are none, each number of the output is one.
    learn
        Add a statistic that is learned from the runs set apart for it.
    batched
        True if many runs take little more time than one.
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
        """Raise if (ε, δ) is not a privacy guarantee that could be refuted."""
        positive("epsilon", self.epsilon)
        number("delta", self.delta, least=0.0, below=1.0)


def most_telling(attacks: Iterable[Attack]) -> list[Attack]:
    """Return the first attack on each subject under each relation: the strongest come first."""
    chosen: dict[tuple[str, str], Attack] = {}
    for attack in attacks:
        chosen.setdefault((attack.subject, str(attack.relation)), attack)
    return list(chosen.values())


def run(
    attack: Attack,
    *,
    trials: int,
    confidence: float = 0.999,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    """Carry out an attack with ``trials`` runs, half of them on each table.

    With probability at least ``confidence`` the ``epsilon_bound`` of the result is not larger than
    the true ε, for any mechanism: the event is chosen on other runs than it is counted on.
    ``progress`` is called with (runs done, number of runs).
    """
    number("confidence", confidence, least=0.5, below=1.0)
    trials = integer("trials", trials, least=100, most=10**12)
    begun = time.perf_counter()
    alpha = 1 - confidence
    each = trials // 2
    first = min(MOST_LEARNING, max(25, int(stats.LEARNING_SHARE * each)))
    tested = each - first
    draw = _Draws(attack, 2 * each, progress)
    chosen = _choose(attack, (draw(0, first), draw(1, first)), tested, alpha)
    hits, above = _count(draw, chosen, tested)
    likely, other = map(int, hits[0])
    bound = float(stats.epsilon_bound(likely, other, tested, delta=attack.delta, alpha=alpha))
    mu = float(stats.mu_bound(int(hits[1, 0]), int(hits[1, 1]), tested, alpha=alpha))
    audit = Audit(
        subject=attack.subject,
        pair=attack.pair,
        statistic=chosen.name,
        epsilon=attack.epsilon,
        delta=attack.delta,
        relation=str(attack.relation),
        epsilon_bound=bound,
        mu_bound=mu,
        epsilon_if_gaussian=epsilon_of_gaussian(mu, attack.delta),
        confidence=confidence,
        trials=2 * each,
        sharpness=stats.sharpness(attack.epsilon, attack.delta, tested, alpha=alpha),
        trials_needed=None,
        seconds=time.perf_counter() - begun,
        event=CurvePoint(
            fpr=float(stats.upper_rate(other, tested, alpha / 2)),
            tpr=float(stats.lower_rate(likely, tested, alpha / 2)),
        ),
        curve=_curve(above, tested, chosen.bets[0][1]),
    )
    if audit.verdict is Verdict.TOO_WEAK:
        needed = _needed(attack, alpha, (likely, other, tested), bound)
        audit = replace(audit, trials_needed=needed)
    return audit


class _Draws:
    """Outputs of an attack's runs as finite numbers, with the number of runs so far."""

    def __init__(
        self, attack: Attack, total: int, progress: Callable[[int, int], None] | None
    ) -> None:
        self._attack = attack
        self._total = total
        self._progress = progress
        self._done = 0

    def __call__(self, world: int, count: int) -> FloatArray:
        """Return the outputs of ``count`` runs on one table, one row per run."""
        outputs = np.asarray(self._attack.draw(world, count), dtype=np.float64)
        if outputs.ndim == 0 or outputs.shape[0] != count:
            raise ValueError(
                f"{count} runs of {self._attack.subject} returned an array of shape "
                f"{outputs.shape}; it must have one row per run, {count} in all."
            )
        self._done += count
        if self._progress is not None:
            self._progress(self._done, self._total)
        return np.nan_to_num(
            outputs.reshape(count, -1),
            nan=2 * LARGEST_NUMBER,
            posinf=LARGEST_NUMBER,
            neginf=-LARGEST_NUMBER,
        )


class _Choice(NamedTuple):
    """Statistics and events for ε and for μ, the first one's name, and thresholds of its curve."""

    name: str
    bets: tuple[Bet, Bet]
    thresholds: FloatArray


def _count(
    draw: _Draws, chosen: _Choice, tested: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the events in ``tested`` runs on each table, and the scores above each threshold.

    The first result has one row per event: its count in the world where it is likely, and in the
    other. The second has one row per world, for the statistic of the first event.
    """
    hits = np.zeros((2, 2), dtype=np.int64)
    above = np.zeros((2, chosen.thresholds.size), dtype=np.int64)
    for start in range(0, tested, CHUNK):
        count = min(CHUNK, tested - start)
        worlds = (draw(0, count), draw(1, count))
        for k, (statistic, event) in enumerate(chosen.bets):
            scores = (statistic(worlds[0]), statistic(worlds[1]))
            hits[k] += event.counts(scores)
            if k == 0:
                for world, values in enumerate(scores):
                    ranks = np.searchsorted(np.sort(values), chosen.thresholds, side="right")
                    above[world] += values.size - ranks
    return hits, above


def epsilon_of_gaussian(mu: float, delta: float) -> float:
    """Return the ε of μ-GDP at δ, infinite for δ = 0 and μ > 0."""
    if delta:
        return epsilon_from_mu(mu, delta)
    return math.inf if mu else 0.0


def _choose(
    attack: Attack, learning: tuple[FloatArray, FloatArray], tested: int, alpha: float
) -> _Choice:
    """Choose statistics and events for ε and for μ, and thresholds, on runs not used later."""
    candidates = dict(attack.statistics) or {
        f"number {k + 1} of the output": _component(k) for k in range(learning[0].shape[1])
    }
    choosing = learning
    if attack.learn:
        # A learned statistic is judged on other runs than it was trained on.
        half = min(len(learning[0]) // 2, MOST_TRAINING)
        candidates["a learned score of the output"] = learn(learning[0][:half], learning[1][:half])
        choosing = (learning[0][half:], learning[1][half:])
    scores = {
        name: (statistic(choosing[0]), statistic(choosing[1]))
        for name, statistic in candidates.items()
    }

    def bet(delta: float | None) -> tuple[str, stats.Event]:
        chosen = {
            name: stats.choose_event(pair, tested, alpha=alpha, delta=delta)
            for name, pair in scores.items()
        }
        name = max(chosen, key=lambda name: chosen[name][1])
        return name, chosen[name][0]

    name, event = bet(attack.delta)
    other, other_event = bet(None)
    thresholds = stats.near_both_ends(np.concatenate(scores[name]), CURVE_POINTS)
    bets = ((candidates[name], event), (candidates[other], other_event))
    return _Choice(name, bets, thresholds)


def _component(k: int) -> Statistic:
    """Return the statistic that is the output's number at index ``k``."""
    return lambda outputs: outputs[:, k]


def learn(first: FloatArray, second: FloatArray) -> Statistic:
    """Train a score of outputs that is larger for those that resemble ``second`` (of table 1).

    A logistic regression on each number of the output, its absolute value and pairwise products,
    after centring by the median and scaling by the interquartile range.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    both = np.concatenate([first, second])
    middle = np.median(both, axis=0)
    low, high = np.quantile(both, [0.25, 0.75], axis=0)
    with np.errstate(over="ignore"):
        deviation = np.clip(np.std(both, axis=0), 1e-300, 1e300)
    scale = np.where(high > low, high - low, deviation)

    def features(outputs: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            scaled: FloatArray = np.clip((outputs - middle) / scale, -20.0, 20.0)
        if scaled.shape[1] > MOST_NUMBERS:
            return scaled
        upper = np.triu_indices(scaled.shape[1])
        products = (scaled[:, :, None] * scaled[:, None, :])[:, upper[0], upper[1]]
        return np.hstack([scaled, np.abs(scaled), products])

    labels = np.repeat([0, 1], [len(first), len(second)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # an approximate score is good enough
        model = LogisticRegression(C=1.0, max_iter=200).fit(features(both), labels)
    return lambda outputs: np.asarray(model.decision_function(features(outputs)))


def _needed(attack: Attack, alpha: float, seen: tuple[int, int, int], bound: float) -> int | None:
    """Return the number of trials with which this attack would be strong enough, or None."""
    sharp = stats.trials_for(attack.epsilon, attack.delta, alpha=alpha, factor=stats.SHARP)
    if sharp is None:
        return None
    least = stats.SEEN * attack.epsilon
    if bound < least:
        sees = stats.trials_to_see(*seen, delta=attack.delta, alpha=alpha, least=least)
        if sees is None and seen[2] >= sharp:
            return None  # with this many runs the attack would have shown what it can show
        sharp = max(sharp, sees or 0)
    return math.ceil(max(2 * sharp / (1 - stats.LEARNING_SHARE), 100))


def _curve(above: NDArray[np.int64], tested: int, event: stats.Event) -> tuple[CurvePoint, ...]:
    """Return the ROC curve; outputs like those of the event's likely world are positive."""
    rates = above / tested if event.above else 1 - above / tested
    pairs = zip(rates[1 - event.likely], rates[event.likely], strict=True)
    return roc_curve((float(fpr), float(tpr)) for fpr, tpr in pairs)
