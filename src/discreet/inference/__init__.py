"""Inference from released numbers: what a fit measures for it, covariances, tables, intervals."""

from discreet.inference.covariance import Covariance
from discreet.inference.measure import Evidence, Inference
from discreet.inference.summary import Summary

__all__ = ["Covariance", "Evidence", "Inference", "Summary"]
