"""DP-EBM, interpret's private boosted additive model; see ``worker.py``.

All settings are the defaults; bounds and kinds of columns are given, as its documentation asks.
Columns are those of the encoded table: a list of k values is k columns of 0 and 1 here, where it
could be one column there. The budget is shared among columns, so that costs it some accuracy.
"""

import numpy as np
from interpret.privacy import DPExplainableBoostingClassifier

LIBRARIES = ("interpret-core", "scikit-learn", "numpy")


def settings(request, n, d):
    """Return the settings; the objective's alpha is not used, and there is always an intercept."""
    usual = DPExplainableBoostingClassifier()
    shown = ("max_bins", "max_rounds", "max_leaves", "learning_rate", "composition")
    return {name: getattr(usual, name) for name in shown} | {
        "feature_types": "all continuous",
        "privacy_bounds": "public bounds of the columns",
        "random_state": request["seed"],
    }


def fit(X, y, request, settings):
    """Fit the model."""
    bounds = np.asarray(request["bounds"])
    model = DPExplainableBoostingClassifier(
        epsilon=request["epsilon"],
        delta=request["delta"],
        privacy_bounds=bounds,
        feature_types=["continuous"] * X.shape[1],
        random_state=settings["random_state"],
    )
    return model.fit(np.clip(X, bounds[:, 0], bounds[:, 1]), y)


def probabilities(model, X):
    """Return probabilities and the codes of their columns."""
    return model.predict_proba(X), model.classes_


def claim(request, model):
    """State the claim of its documentation, and which relation its noise is for."""
    return {
        "epsilon": request["epsilon"],
        "delta": request["delta"],
        "relation": "add_remove",
        "words": (
            f"claims ε = {request['epsilon']:g}, δ = {request['delta']:.3g}; its documentation "
            "names no relation, its noise is for one row more or less, and the number of rows is "
            "used as it is"
        ),
    }
