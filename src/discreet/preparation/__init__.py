"""Private preparation of rows on the budget of the model: bounds, centring, scaling, whitening.

Each step is defined beside its fitted form: `steps` has those that choose among public candidates,
`magnitude` the one that counts binary exponents, `whitening` those that use noisy moments, and
`pipeline` runs them in a fit and in prediction.
"""

from discreet.preparation.balance import Balance
from discreet.preparation.features import FeatureMap, Fourier, Splines
from discreet.preparation.magnitude import Largest, Magnitude
from discreet.preparation.pipeline import check_steps
from discreet.preparation.steps import (
    FITTED_STEPS,
    STEPS,
    Bounds,
    FittedBounds,
    FittedStep,
    Radius,
    RowNorms,
    Spread,
    Step,
    from_dict,
    to_dict,
)
from discreet.preparation.whitening import WIDEST, Centre, Scale, Whiten

__all__ = [
    "FITTED_STEPS",
    "STEPS",
    "WIDEST",
    "Balance",
    "Bounds",
    "Centre",
    "FeatureMap",
    "FittedBounds",
    "FittedStep",
    "Fourier",
    "Largest",
    "Magnitude",
    "Radius",
    "RowNorms",
    "Scale",
    "Splines",
    "Spread",
    "Step",
    "Whiten",
    "check_steps",
    "from_dict",
    "to_dict",
]
