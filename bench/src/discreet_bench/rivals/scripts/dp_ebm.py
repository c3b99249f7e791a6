"""DP-EBM, interpret's private boosted additive model; see ``worker.py``.

All settings are the defaults; bounds and kinds of columns are given, as its documentation asks. The
budget is shared among columns, so the indicators of a list of categories (``groups``) are put back
together as one nominal column. Without ``groups`` every encoded column is continuous.
"""

import numpy as np
from interpret.privacy import DPExplainableBoostingClassifier

LIBRARIES = ("interpret-core", "scikit-learn", "numpy")


def settings(request, n, d):
    """Return the settings; the objective's alpha is not used, and there is always an intercept."""
    usual = DPExplainableBoostingClassifier()
    shown = ("max_bins", "max_rounds", "max_leaves", "learning_rate", "composition")
    return {name: getattr(usual, name) for name in shown} | {
        "nominal columns": len(request["groups"]),
        "privacy_bounds": "public bounds of the columns",
        "random_state": request["seed"],
    }


def columns(X, groups):
    """Return X with each group of indicators as one code, 0 for none, and the kinds of columns."""
    single = np.setdiff1d(np.arange(X.shape[1]), [j for a, b in groups for j in range(a, b)])
    codes = [np.where(X[:, a:b].any(axis=1), 1 + X[:, a:b].argmax(axis=1), 0) for a, b in groups]
    table = np.column_stack([X[:, single], *codes])
    return table, ["continuous"] * len(single) + ["nominal"] * len(groups), single


def fit(X, y, request, settings):
    """Fit the model; return it with the groups of columns and their bounds."""
    bounds = np.asarray(request["bounds"])
    groups = request["groups"]
    table, kinds, single = columns(np.clip(X, bounds[:, 0], bounds[:, 1]), groups)
    model = DPExplainableBoostingClassifier(
        epsilon=request["epsilon"],
        delta=request["delta"],
        privacy_bounds={j: tuple(bounds[column]) for j, column in enumerate(single)},
        feature_types=kinds,
        random_state=settings["random_state"],
    )
    return model.fit(table, y), groups


def probabilities(model, X):
    """Return probabilities and the codes of their columns."""
    fitted, groups = model
    return fitted.predict_proba(columns(X, groups)[0]), fitted.classes_


def claim(request, model):
    """State the claim of its documentation, and which relation its noise is for.

    Each column's counts, and each column's sums of gradients in every round, have Gaussian noise. A
    row changes one count by 1 and one sum by at most the learning rate.
    """
    fitted, _ = model
    width = len(fitted.feature_types_in_)
    return {
        "epsilon": request["epsilon"],
        "delta": request["delta"],
        "relation": "add_remove",
        "words": (
            f"claims ε = {request['epsilon']:g}, δ = {request['delta']:.3g}; its documentation "
            "names no relation, its noise is for one row more or less, and the number of rows and "
            "the categories that occur are used as they are"
        ),
        "mechanisms": [
            (fitted.noise_scale_binning_, 1.0, width),
            (fitted.noise_scale_boosting_ / fitted.learning_rate, 1.0, width * fitted.max_rounds),
        ],
    }
