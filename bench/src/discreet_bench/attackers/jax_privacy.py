"""Lower bounds by jax_privacy: a threshold from one half of the scores, counts on the other.

Run by the tool's own Python: python -I jax_privacy.py CASE.npz …
"""

import json
import sys
from importlib.metadata import version

import numpy as np
from jax_privacy.auditing import CanaryScoreAuditor, Split

print(json.dumps(version("jax-privacy")))
for path in sys.argv[1:]:
    case = np.load(path)
    auditor = CanaryScoreAuditor(case["likely_scores"], case["other_scores"])
    bound = auditor.epsilon_clopper_pearson(
        float(case["alpha"]), float(case["delta"]), one_sided=False,
        threshold_strategy=Split(seed=0),
    )  # fmt: skip
    print(json.dumps({"bound": float(bound), "refuted": bool(bound > case["epsilon"])}), flush=True)
