"""Rows with invented answers, which record what had been charged when they were asked."""

import numpy as np

from discreet.core import Account, Curator
from discreet.core.bits import SeededBits
from discreet.core.noise import Noise
from discreet.rows import Sum


class SpyRows:
    """Answers by class of question: a vector, or a function of the question and the error."""

    unit = "row"
    grouped = False

    def __init__(self, answers, *, n_rows, n_parameters=3, row_norm=None, error=0.0):
        self.answers = answers
        self.n_rows = self.public_size = self.n_units = n_rows
        self.n_features = self.n_parameters = n_parameters
        self.row_norm = row_norm
        self.error = error
        self.curator = None
        self.asked = []
        self.charges_when_read = []

    def answer(self, questions):
        charged = sum(times for _, times in self.curator._filter.uses)
        for question in questions:
            self.asked.append(question)
            self.charges_when_read.append(charged)
        return [self._exact(question) for question in questions]

    def _exact(self, question):
        answer = self.answers[type(question)]
        if callable(answer):
            answer = answer(question)
        return Sum(np.array(answer), self.error) if isinstance(answer, list) else answer

    def sample(self, rate, generator):
        return self


def spied(rows, budget, *, measure=None, seed=0):
    """Return a curator for the rows, which know it; it is open if there is a measure."""
    rows.curator = Curator(rows, Account(budget), Noise(SeededBits(seed)))
    if measure is not None:
        rows.curator.open(measure)
    return rows.curator
