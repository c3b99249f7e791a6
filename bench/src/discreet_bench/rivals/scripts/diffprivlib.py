"""diffprivlib's LogisticRegression, as its documentation recommends; see ``worker.py``.

All rows are divided by the public bound on their norm, so that data_norm is 1: for longer rows its
noise is too small. C and everything else stay at the defaults. Several classes are one against the
rest, with a share of ε each.
"""

from diffprivlib.models import LogisticRegression

LIBRARIES = ("diffprivlib", "scikit-learn", "numpy")


def settings(request, n, d):
    """Return the settings; the objective's alpha is not used."""
    return {
        "data_norm": 1.0,
        "rows divided by": request["max_norm"],
        "C": LogisticRegression().C,
        "fit_intercept": request["intercept"],
        "random_state": request["seed"],
    }


def fit(X, y, request, settings):
    """Fit the model; return it with the divisor of rows."""
    model = LogisticRegression(
        epsilon=request["epsilon"],
        data_norm=settings["data_norm"],
        fit_intercept=settings["fit_intercept"],
        random_state=settings["random_state"],
    )
    divisor = settings["rows divided by"]
    return model.fit(X / divisor, y), divisor


def probabilities(model, X):
    """Return probabilities and the codes of their columns."""
    fitted, divisor = model
    return fitted.predict_proba(X / divisor), fitted.classes_


def claim(request, model):
    """State the claim of its documentation, and what is known of it."""
    words = (
        f"claims ε = {request['epsilon']:g}, δ = 0 for one replaced row, after Chaudhuri et al. "
        "2011; classes are taken from the data"
    )
    if request["intercept"]:
        words += "; refuted by our audit on small tables with an intercept"
    return {
        "epsilon": request["epsilon"],
        "delta": 0.0,
        "relation": "replace_one",
        "words": words,
    }
