"""The curator: the only code that sees rows, and it charges before it looks."""

from discreet.core.curator.columns import Columns
from discreet.core.curator.descents import Descents
from discreet.core.curator.gradients import Gradients, NoisyGradient
from discreet.core.curator.protocols import Rows, Sum
from discreet.core.curator.releases import Releases
from discreet.core.curator.selections import Selections
from discreet.core.curator.xy_moments import XYMoments

__all__ = ["Curator", "NoisyGradient", "Rows", "Sum"]


class Curator(Gradients, Selections, Descents, XYMoments, Columns, Releases):
    """Answers private questions about rows within a budget.

    Parameters
    ----------
    rows : Rows
        The protected rows.
    account : Account
        The fit's budget.
    noise : Noise
        Where noise comes from.
    share : Fraction
        The part of the account that this curator may spend.
    """
