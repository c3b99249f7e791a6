"""The ledger: one privacy budget per data set, across people, processes, weeks and crashes."""

from discreet.ledger.dataset import Dataset, check_dataset
from discreet.ledger.ledger import Ledger, Verification
from discreet.ledger.losses import Loss

__all__ = ["Dataset", "Ledger", "Loss", "Verification", "check_dataset"]
