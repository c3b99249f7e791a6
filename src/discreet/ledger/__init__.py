"""The ledger: one privacy budget per data set, across people, processes, weeks and crashes."""

from discreet.ledger.catalogue import Ledger
from discreet.ledger.costs import PrivacyCost
from discreet.ledger.dataset import Dataset, check_dataset
from discreet.ledger.verification import Verification

__all__ = ["Dataset", "Ledger", "PrivacyCost", "Verification", "check_dataset"]
