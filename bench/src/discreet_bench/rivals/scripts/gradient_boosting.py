"""scikit-learn's HistGradientBoostingClassifier, which is not private; see ``worker.py``.

The ceiling for models that are not linear, with the defaults of the library.
"""

from sklearn.ensemble import HistGradientBoostingClassifier

LIBRARIES = ("scikit-learn", "numpy")


def settings(request, n, d):
    """Return the settings; the objective's alpha is not used, and there is always an intercept."""
    return {"random_state": request["seed"]}


def fit(X, y, request, settings):
    """Fit the model."""
    return HistGradientBoostingClassifier(**settings).fit(X, y)


def probabilities(model, X):
    """Return probabilities and the codes of their columns."""
    return model.predict_proba(X), model.classes_


def claim(request, model):
    """Return an empty claim."""
    return {"epsilon": None, "delta": None, "relation": None, "words": "claims no privacy"}
