"""Inference from released numbers: what a fit measures for it, covariances, tables, intervals."""

from discreet.inference.covariance import Covariance, Intervals, score_intervals
from discreet.inference.evidence import Evidence
from discreet.inference.measure import Inference
from discreet.inference.summary import Block, Coefficients, JointTest, Summary, Term

__all__ = ["Block", "Coefficients", "Covariance", "Evidence", "Inference", "Intervals", "Summary"]
__all__ += ["JointTest", "Term", "score_intervals"]
