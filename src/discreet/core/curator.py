"""The curator: the only code that answers about rows, and it charges before it reads.

`Curator.ask` is the gate. It checks a question (nothing is spent on a bad one), charges the filter,
reads the rows, adds noise and returns the noisy answer, in this order. A few other doors exist for
what a question cannot express: a second measurement of the same sum, a secret sample, a whole
descent, and computations with a proof of their own. Exact values stay in local variables and in
attributes that start with an underscore; they never appear in an answer, an error or a log line.

Proofs: docs/proofs/curator.md, and the page of each mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final, Protocol, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.budget import Relation
from discreet.accounting.subsampling import SampledGaussian
from discreet.core.account import Account, AccountPart, Mechanism
from discreet.core.bits import permutation, poisson_index, weighted_index
from discreet.core.mechanisms import AdditiveMechanism, Gaussian
from discreet.core.noise import Noise
from discreet.core.questions import Answer, Gradient, NoisySum, Public, Question
from discreet.errors import PrivacyError
from discreet.rows import Rows
from discreet.rows.rows import AskedRows
from discreet.rows.sums import Sum
from discreet.validate import FloatArray, integer, number, positive

Result = TypeVar("Result")

Asked = tuple[Question[Any, Any], Mechanism]
"""A question and the mechanism that is to answer it."""


class Descending(Protocol):
    """A descent by noisy steps that the curator runs inside: `discreet.exact.Descent`."""

    @property
    def uses(self) -> int:
        """Number of uses of the mechanism that are charged."""

    def check(self, rows: Rows, mechanism: Mechanism, relation: Relation, n_rows: int) -> None:
        """Raise if the proof does not cover the descent; nothing is spent."""

    def run(self, rows: Rows, mechanism: Mechanism, noise: Noise) -> FloatArray:
        """Take the steps, with noise; returns the last or mean weights."""


class Curator(AccountPart):
    """Answers private questions about rows within a budget.

    Parameters
    ----------
    rows : Rows
        The protected rows, made with their privacy unit.
    account : Account
        The budget of the fit, for the same unit.
    noise : Noise
        Source of the noise.
    share : Fraction
        Share of the account that this curator may spend.
    n_rows : int, optional
        Public size of the whole table, if these are a sample of it.

    Attributes
    ----------
    n_rows : int
        Public size of the whole table: its number of rows, or of units that share them. That of a
        file is 0 until it was read.
    n_features, n_parameters : int
        Number of columns without the constant of an intercept, and number of weights.
    """

    def __init__(
        self,
        rows: AskedRows,
        account: Account,
        noise: Noise,
        share: Fraction = Fraction(1),
        n_rows: int | None = None,
    ) -> None:
        if rows.unit != account.unit:
            raise PrivacyError(
                f"The rows were made with the privacy unit {rows.unit!r}, but the account promises "
                f"{account.unit!r}. Make the rows with their units: nothing was read."
            )
        super().__init__(account, share)
        self._rows = rows
        self._noise = noise
        self._public = Public(
            relation=self.relation,
            n_rows=int(rows.public_size if n_rows is None else n_rows),
            n_features=int(rows.n_features),
            n_parameters=int(rows.n_parameters),
            row_norm=rows.row_norm,
            gaps=bool(getattr(rows, "gaps", False)),
        )
        self.n_rows = self._public.n_rows
        self.n_features: Final = self._public.n_features
        self.n_parameters: Final = self._public.n_parameters
        self._measured: tuple[NoisySum, Sum, Gradient] | None = None

    # ---- public facts

    @property
    def row_norm(self) -> float:
        """Public norm that longer rows are scaled down to in moments."""
        if self._public.row_norm is None:
            raise ValueError("sums of rows need rows with a public bound on their norm.")
        return self._public.row_norm

    @property
    def _table(self) -> Rows:  # for doors that need more than answers
        if self._public.gaps:
            raise ValueError("this needs rows without missing entries.")
        return cast(Rows, self._rows)

    # ---- the gate

    def ask(self, question: Question[Any, Answer], mechanism: Mechanism) -> Answer:
        """Return a private answer to one question.

        Privacy
        -------
        As for `ask_all`.
        """
        answer: Answer = self.ask_all([(question, mechanism)])[0]
        return answer

    def ask_all(self, asked: Sequence[Asked]) -> list[Any]:
        """Return private answers to questions that are read for together, in order.

        Every question is checked, then all are charged for, then the rows are read once, and noise
        is added to one answer after the other.

        Privacy
        -------
        Each answer has the sensitivity that its question states, rounding errors included, and
        noise of its mechanism, which was charged before the read. Proof: docs/proofs/curator.md.
        """
        for question, mechanism in asked:
            question.check(self._public, mechanism)
        self._charge(*((mechanism, question.uses) for question, mechanism in asked))
        ready = [question.prepare(mechanism, self._noise) for question, mechanism in asked]
        exact = self._rows.answer(ready)
        if not self.n_rows:  # the size of a file is known once it was read
            self.n_rows = int(self._rows.public_size)
            self._public = self._public._replace(n_rows=self.n_rows)
        answers = []
        for question, (_, mechanism), value in zip(ready, asked, exact, strict=True):
            answer = question.release(value, mechanism, self._public, self._noise)
            if isinstance(question, Gradient):
                self._measured = (answer, value, question)
            answers.append(answer)
        return answers

    # ---- other doors

    def refine(self, gradient: NoisySum, *, mechanism: Gaussian) -> NoisySum:
        """Measure the same gradient again and average, weighted by precision.

        Only the newest gradient can be refined: its exact sum is kept inside, no row is read.

        Privacy
        -------
        An independent release of the same sum: cost that of ``mechanism``, on top of what was
        spent. The average is post-processing; it carries the precision of both.
        """
        if self._measured is None or self._measured[0] is not gradient:
            raise ValueError("Only the newest gradient of this curator can be refined.")
        _, exact, question = self._measured
        question.check(self._public, mechanism)
        self._charge((mechanism, 1))
        second = question.release(exact, mechanism, self._public, self._noise)
        merged = averaged(gradient, second)
        self._measured = (merged, exact, question)
        return merged

    def sampled_gradient(self, question: Gradient, mechanism: SampledGaussian) -> NoisySum:
        """Release a sum of gradients over a fresh Poisson sample of the units.

        The sample is drawn with the rate that is charged; a unit is drawn with all of its rows.

        Privacy
        -------
        Given who else is sampled, a unit that is sampled too moves the sum, rounding errors and
        grid included, by at most the number that ``mechanism.noise_multiplier`` is multiplied
        with; so each step is what ``mechanism`` accounts for. The sample and its size stay inside.
        Proof: docs/proofs/subsampling.md.
        """
        _check_sampling(mechanism, self.relation)
        noise = Gaussian(mechanism.noise_multiplier)
        # the accounting is for one unit that is in the sample, under either relation
        public = self._public._replace(relation=Relation.ADD_REMOVE)
        question.check(public, noise)
        rows = self._table
        rows.check_sampling()
        self._charge((mechanism, 1))
        if mechanism.rate < 1:
            rows = rows.take_units(poisson_index(rows.n_units, mechanism.rate, self._noise.bits))
        [exact] = rows.answer([question])
        return question.release(exact, noise, public, self._noise)

    def descend(self, descent: Descending, mechanism: Mechanism) -> FloatArray:
        """Take noisy steps of gradient descent; returns the last weights, or their mean.

        Privacy
        -------
        Under replace only, for single rows: see `discreet.exact.Descent`. Cost: ``mechanism``, once
        for a pass, or for each update by one row. Proof: docs/proofs/descents.md.
        """
        descent.check(self._table, mechanism, self.relation, self.n_rows)
        self._charge((mechanism, descent.uses))
        return descent.run(self._table, mechanism, self._noise)

    def release(
        self,
        compute: Callable[[Rows], FloatArray],
        *,
        size: int,
        sensitivity: float,
        proven_for: Relation,
        magnitude: float,
        mechanism: AdditiveMechanism,
    ) -> FloatArray:
        """Run ``compute(rows)`` inside and release its result with noise.

        For trusted methods only: the caller has proven that the result, rounding errors included,
        moves by at most ``sensitivity`` in the mechanism's norm between neighbours under
        ``proven_for``; that it is finite for every table; and that ``compute`` raises nothing
        whose text depends on the rows.

        Privacy
        -------
        Cost: that of ``mechanism``. A result that is not finite or has the wrong size is withheld,
        and what was charged stays spent.
        """
        sensitivity = positive("sensitivity", sensitivity)
        magnitude = positive("magnitude", magnitude)
        _check_proof(proven_for, self._table, self.relation)
        if not isinstance(mechanism, AdditiveMechanism):
            raise TypeError(f"a release needs an AdditiveMechanism; got {mechanism!r}.")
        self._charge((mechanism, 1))
        values = _checked(compute(self._table), size)
        return mechanism.release(
            values, sensitivity=sensitivity, magnitude=magnitude, noise=self._noise
        )[0]

    def run(
        self,
        compute: Callable[[Rows, Noise], Result],
        *,
        size: int,
        proven_for: Relation,
        mechanism: Mechanism,
    ) -> Result:
        """Run ``compute(rows, noise)`` inside, which adds its own noise, and release its result.

        The result is a vector of ``size`` numbers, or a tuple that starts with one and goes on
        with what else is released (bounds, noise scales). For trusted methods only: the caller has
        proven that all of the result has the privacy of ``mechanism`` under ``proven_for``, and
        that ``compute`` raises nothing whose text depends on the rows.

        Privacy
        -------
        As for `release`.
        """
        _check_proof(proven_for, self._table, self.relation)
        self._charge((mechanism, 1))
        result = compute(self._table, self._noise)
        _checked(result[0] if isinstance(result, tuple) else result, size)
        return result

    def reveal(self, compute: Callable[[Rows], FloatArray], *, size: int) -> FloatArray:
        """Run ``compute(rows)`` and return its result as it is: for baselines, not private.

        Privacy
        -------
        None. The account forfeits its promise before the rows are read: its guarantee says that
        the fit is not private, and a ledger refuses it.
        """
        self._account.forfeit()
        return _checked(compute(self._table), size)

    # ---- other views of the rows, on the same budget

    def sample(self, rate: float) -> Self:
        """Return a curator for a fresh Poisson sample of the rows, on the same budget.

        Privacy
        -------
        No amplification is claimed: whatever the sample, a row is in it at most once, so every
        answer has the sensitivity it has on all rows. The sample is drawn independently of the
        rows' values, so its randomness needs no protection; its size stays inside.
        """
        rate = number("rate", rate, above=0.0, most=1.0)
        return self._view(self._table.sample(rate, self.generator()))

    def on_sample(self, rows: AskedRows, n_rows: int) -> Self:
        """Return a curator for a sample that was drawn already, of ``n_rows`` expected rows.

        Privacy
        -------
        As for `sample`: ``rows`` has rows of the same table, each once at most, by a draw that does
        not depend on their values. ``n_rows`` is public.
        """
        return self._view(rows, integer("n_rows", n_rows, least=1, most=self.n_rows))

    def columns(
        self, index: NDArray[np.intp], *, factor: float = 1.0, matrix: FloatArray | None = None
    ) -> Self:
        """Return a curator for some columns of the rows, times ``factor``, on the same budget.

        Rows under a map may be multiplied by a ``matrix``, too. A constant feature is kept. All
        arguments may depend on public numbers and on earlier answers.

        Privacy
        -------
        Nothing is released and nothing spent. A row's new values are a function of that row and of
        numbers that are not private, so tables that differ in one row still do, and every answer
        has the sensitivity it has on any table. Proof: docs/proofs/shrunk_gd.md.
        """
        chosen = np.asarray(index, dtype=np.intp)
        rising = chosen.ndim == 1 and chosen.size > 0 and bool(np.all(np.diff(chosen) > 0))
        if not rising or chosen[0] < 0 or chosen[-1] >= self.n_parameters:
            raise ValueError("index must name at least one column, each once, in rising order.")
        return self._view(self._table.columns(chosen, positive("factor", factor), matrix))

    def with_rows(self, rows: AskedRows) -> Self:
        """Return a curator for rows that were made of the same units, on the same budget.

        Privacy
        -------
        Nothing is released and nothing spent. The caller makes a row, its target and its weight of
        one row of the table and of numbers that are not private, so tables that differ in one unit
        still do. Rows of another unit or public size are refused.
        """
        if (rows.unit, rows.public_size) != (self._rows.unit, self._rows.public_size):
            raise PrivacyError("Rows made of others must have their unit and public size.")
        return self._view(rows)

    def _view(self, rows: AskedRows, n_rows: int | None = None) -> Self:
        n_rows = self.n_rows if n_rows is None else n_rows
        view = type(self)(rows, self._account, self._noise, self._share, n_rows)
        view._filter = self._filter
        return view

    # ---- randomness that involves no row

    def generator(self) -> np.random.Generator:
        """Return a generator, seeded from the noise's bits, for what no privacy rests on."""
        return np.random.default_rng([int(word) for word in self._noise.bits.words(4)])

    def permutation(self) -> NDArray[np.int64]:
        """Draw a uniformly random order of the rows, independent of their values."""
        return permutation(self.n_rows, self._noise.bits)

    def draw_index(self, chances: FloatArray) -> int:
        """Draw a random index with probability proportional to ``chances``; reads no row."""
        return weighted_index(chances, self._noise.bits)


def _check_sampling(mechanism: object, relation: Relation) -> None:
    """Refuse a mechanism that is not accounted for a Poisson sample under the relation."""
    if not isinstance(mechanism, SampledGaussian):
        got = type(mechanism).__name__
        raise TypeError(f"a sampled gradient needs a SampledGaussian mechanism; got {got}.")
    if mechanism.relation is not relation or mechanism.sampling != "poisson":
        raise PrivacyError(
            f"This question needs Poisson sampling accounted under {str(relation)!r}; got "
            f"{mechanism!r}. Nothing was spent."
        )


def _check_proof(proven_for: Relation, rows: Rows, relation: Relation) -> None:
    """Refuse a computation whose proof is for other units or another relation."""
    if rows.grouped:
        raise PrivacyError("The sensitivity was proven for single rows, but rows share units.")
    if Relation(proven_for) is not relation:
        raise PrivacyError(
            f"The sensitivity was proven for {str(proven_for)!r}, but this budget is for "
            f"{str(relation)!r}."
        )


def averaged(first: NoisySum, second: NoisySum) -> NoisySum:
    """Return the average of two Gaussian measurements of a sum, weighted by precision."""
    assert isinstance(first.mechanism, Gaussian)
    assert isinstance(second.mechanism, Gaussian)
    old = 1 / first.deviation**2
    new = 1 / second.deviation**2
    mu = math.hypot(1 / first.mechanism.noise_multiplier, 1 / second.mechanism.noise_multiplier)
    return NoisySum(
        values=(old * first.values + new * second.values) / (old + new),
        deviation=1 / math.sqrt(old + new),
        mechanism=Gaussian(1 / mu),
    )


def _checked(result: object, size: int) -> FloatArray:
    values = np.asarray(result, dtype=np.float64)
    if values.shape != (size,) or not np.isfinite(values).all():
        raise PrivacyError(
            f"The computation did not give {size} finite numbers; nothing was released."
        )
    return values
