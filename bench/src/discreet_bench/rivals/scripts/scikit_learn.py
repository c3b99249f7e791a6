"""scikit-learn's LogisticRegression, which is not private; see ``worker.py``.

The penalty is the objective's: C = 1 / (n alpha). Without one, C stays at its default.
"""

from sklearn.linear_model import LogisticRegression

LIBRARIES = ("scikit-learn", "numpy")
ITERATIONS = 1000


def settings(request, n, d):
    """Return the settings; more iterations than by default, which are too few for many tables."""
    alpha = request["alpha"]
    return {
        "C": 1 / (n * alpha) if alpha > 0 else LogisticRegression().C,
        "fit_intercept": request["intercept"],
        "max_iter": ITERATIONS,
    }


def fit(X, y, request, settings):
    """Fit the model."""
    return LogisticRegression(**settings).fit(X, y)


def probabilities(model, X):
    """Return probabilities and the codes of their columns."""
    return model.predict_proba(X), model.classes_


def claim(request, model):
    """Return an empty claim."""
    return {"epsilon": None, "delta": None, "relation": None, "words": "claims no privacy"}
