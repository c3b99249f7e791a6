"""Lower bounds by privacy-estimates, from the confusion matrix of a threshold on the scores.

Run by the tool's own Python: python -I privacy_estimates.py CASE.npz …

Its Bayesian method ("joint-beta") integrates numerically and fails on sharp posteriors, that is
with many trials, so the method here is its Clopper-Pearson interval ("beta").
"""

import json
import sys
from importlib.metadata import version

import numpy as np
from privacy_estimates import AttackResults, compute_eps_lo

print(json.dumps(version("privacy-estimates")))
for path in sys.argv[1:]:
    case = np.load(path)
    hits, alarms = (
        int(np.count_nonzero(case[name] > case["threshold"]))
        for name in ("likely_scores", "other_scores")
    )
    runs = case["likely_scores"].size
    found = AttackResults(FN=runs - hits, FP=alarms, TN=runs - alarms, TP=hits)
    bound = compute_eps_lo(found, float(case["delta"]), float(case["alpha"]), method="beta")
    print(json.dumps({"bound": float(bound), "refuted": bool(bound > case["epsilon"])}), flush=True)
