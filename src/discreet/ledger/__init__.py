"""The ledger: one privacy budget per data set, across people, processes, weeks and crashes."""

from discreet.ledger.dataset import Dataset, check_dataset
from discreet.ledger.ledger import Ledger
from discreet.ledger.losses import Loss
from discreet.ledger.verify import Verification

__all__ = ["Dataset", "Ledger", "Loss", "Verification", "check_dataset"]
