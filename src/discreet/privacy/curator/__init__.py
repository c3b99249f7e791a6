"""The curator: the only code that sees rows, and it charges before it looks."""

from discreet.privacy.curator.columns import Columns
from discreet.privacy.curator.descents import Descents
from discreet.privacy.curator.gradients import Gradients, NoisyGradient
from discreet.privacy.curator.joint import JointMoments
from discreet.privacy.curator.protocols import Rows, Sum
from discreet.privacy.curator.releases import Releases
from discreet.privacy.curator.selections import Selections

__all__ = ["Curator", "NoisyGradient", "Rows", "Sum"]


class Curator(Gradients, Selections, Descents, JointMoments, Columns, Releases):
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
