"""Other libraries beside ours, each in an environment of its own.

    from discreet_bench import rivals
    rivals.install(rivals.RIVALS["diffprivlib"])  # None, or why it could not be done
    rivals.fit("diffprivlib", X_train, y_train, X_test, epsilon=1.0, delta=0.0, ...)

They are used as their documentation tells a careful user, and nothing is tuned. What they claim of
privacy is written down in their words and not checked here.
"""

from discreet_bench.rivals.call import Answer, Claim, fit
from discreet_bench.rivals.catalogue import RIVALS, Rival
from discreet_bench.rivals.environments import folder, install, ready

__all__ = ["RIVALS", "Answer", "Claim", "Rival", "fit", "folder", "install", "ready"]
