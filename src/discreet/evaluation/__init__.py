"""Evaluation of fitted models on private rows: `evaluate`, and scorers for scikit-learn.

import discreet

found = discreet.evaluate(model, X, y, epsilon=0.1)
print(found)
"""

from discreet.evaluation.model import evaluate, evaluate_table
from discreet.evaluation.report import Evaluation
from discreet.evaluation.scorer import PrivateScorer, private_scorer

__all__ = ["Evaluation", "PrivateScorer", "evaluate", "evaluate_table", "private_scorer"]
