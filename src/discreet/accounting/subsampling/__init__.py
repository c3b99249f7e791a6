"""Gaussian steps on random samples of the rows: amplification by sampling, and composition.

A row that is in the sample of a step only sometimes is protected better. How much better is
computed here for many steps together, as an upper bound on the truth: exactly (up to a grid,
rounded to the safe side) from the worst pair of outputs, or by Rényi divergences.
Proof: docs/proofs/subsampling.md.
"""

from discreet.accounting.subsampling.dominating_pairs import Sampling
from discreet.accounting.subsampling.sampled_gaussian import Method, SampledGaussian

__all__ = ["Method", "SampledGaussian", "Sampling"]
