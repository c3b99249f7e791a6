"""Private preparation of rows on the budget of the model: bounds, centring, scaling, whitening.

Each step is defined beside its fitted form: `steps` has those by norms and noisy moments of rows,
`bounds` the one that chooses bounds of columns, `magnitude` those that count binary exponents, and
`pipeline` runs them in a fit and in prediction.
"""

from discreet.preparation.balance import Balance
from discreet.preparation.bounds import Bounds, FittedBounds
from discreet.preparation.features import FeatureMap, Fourier, Splines
from discreet.preparation.magnitude import Largest, Magnitude
from discreet.preparation.pipeline import check_steps
from discreet.preparation.steps import (
    FITTED_STEPS,
    STEPS,
    WIDEST,
    Centre,
    FittedStep,
    Radius,
    RowNorms,
    Scale,
    Spread,
    Step,
    Whiten,
    from_dict,
    share_for,
    to_dict,
)
from discreet.preparation.windows import FittedWindows, Windows

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
    "FittedWindows",
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
    "Windows",
    "check_steps",
    "from_dict",
    "share_for",
    "to_dict",
]
