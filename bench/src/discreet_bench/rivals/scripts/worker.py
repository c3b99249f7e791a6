"""Run by another library's Python: read requests, fit, write scores and answers.

Run: python -I worker.py SCRIPT REQUEST.json ...

Only numpy is needed beside the library. SCRIPT is a file with

- ``LIBRARIES``, the distributions whose versions are noted;
- ``settings(request, n, d)``, what will be set, as plain data;
- ``fit(X, y, request, settings)``, the fitted model, which is what is timed;
- ``probabilities(model, X)``, an array with a column for each of the returned codes;
- ``claim(request, model)``, what the library says of its privacy, and under ``mechanisms`` the
  Gaussian mechanisms that it used, if these are all: triples of noise multiplier, sampling rate and
  number of uses.
"""

import importlib.util
import json
import platform
import re
import sys
import time
import traceback
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def load(path):
    """Load the script as a module, under a name that is no library's."""
    spec = importlib.util.spec_from_file_location("rival_script", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def memory(name):
    """Return a mark of this process's memory in MiB."""
    return int(re.search(rf"^{name}:\s+(\d+) kB$", STATUS.read_text(), re.MULTILINE)[1]) / 1024


def start_of_memory():
    """Set the highest mark back to what is used now; None where there is no such mark."""
    try:
        RESET.write_text("5")
        return memory("VmRSS")
    except OSError:
        return None


def widened(probabilities, codes, n_classes):
    """Return a column per class; a class that the model has not seen gets zeros."""
    wide = np.zeros((len(probabilities), n_classes))
    wide[:, np.asarray(codes, dtype=int)] = probabilities
    return wide


def main(script, *paths):
    """Answer requests, one after the other."""
    rival = load(script)
    for path in paths:
        answer(rival, path)


def answer(rival, path):
    """Answer one request."""
    request = json.loads(Path(path).read_text(encoding="utf-8"))
    X, y, X_test = (np.load(request[name]) for name in ("X_train", "y_train", "X_test"))
    settings = rival.settings(request, *X.shape)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")  # each once, not at every step
        before, start = start_of_memory(), time.perf_counter()
        model = rival.fit(X, y, request, settings)
        seconds = time.perf_counter() - start
        peak = None if before is None else max(0.0, memory("VmHWM") - before)
    np.save(request["scores"], widened(*rival.probabilities(model, X_test), request["classes"]))
    said = sorted({f"{each.category.__name__}: {each.message}" for each in caught})
    found = {
        "seconds": seconds,
        "peak_mb": peak,
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in rival.LIBRARIES},
        "settings": settings | {"warnings": said},
        "claim": rival.claim(request, model),
    }
    Path(request["answer"]).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:
        traceback.print_exc()
        first = (str(error).splitlines() or [""])[0]
        print(f"{type(error).__name__}: {first}", file=sys.stderr)  # the line that is shown
        sys.exit(1)
