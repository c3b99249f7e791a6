"""Lower bounds by DP-Auditorium's hockey-stick tester, which learns its own score of the outputs.

Run by the tool's own Python: python -I dp_auditorium.py FOLDER CASE.npz …

FOLDER holds the package's source. Its testers are imported without the package's ``__init__``,
which imports optimisers of tables that are not used here. The tester accepts or rejects one (ε, δ).
Values of ε are tested in increasing order up to the first that is not rejected: a wrong rejection
anywhere needs one at the first true value, so the error probability of one test is that of all.
"""

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType

import numpy as np

SHARES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
"""Tested values of ε, in units of the promised one."""

folder = Path(sys.argv[1])
package = ModuleType("dp_auditorium")
package.__path__ = [str(folder / "dp_auditorium")]
sys.modules["dp_auditorium"] = package

from dp_auditorium.configs import privacy_property, property_tester_config  # noqa: E402
from dp_auditorium.testers import hockey_stick_tester  # noqa: E402


def rejected(case, epsilon):
    """Tell whether the tester rejects (ε, δ) at the promised δ."""
    delta = float(case["delta"])
    config = property_tester_config.HockeyStickPropertyTesterConfig(
        training_config=property_tester_config.TrainingConfig(
            training_epochs=4, batch_size=1000, optimizer_learning_rate=1e-2
        ),
        approximate_dp=privacy_property.ApproximateDp(epsilon, delta),
    )
    model = hockey_stick_tester.make_default_hs_base_model()
    tester = hockey_stick_tester.HockeyStickPropertyTester(config, model)
    with redirect_stdout(sys.stderr):  # it prints its progress
        bound = tester.estimate_lower_bound(case["likely"], case["other"], float(case["alpha"]))
    return tester.reject_property(bound)


print(json.dumps((folder / "VERSION").read_text(encoding="utf-8").split()[-1].strip("'\"")))
for path in sys.argv[2:]:
    case = np.load(path)
    promised, highest = float(case["epsilon"]), 0.0
    for share in SHARES:
        if not rejected(case, share * promised):
            break
        highest = share * promised
    print(json.dumps({"bound": highest, "refuted": highest >= promised}), flush=True)
