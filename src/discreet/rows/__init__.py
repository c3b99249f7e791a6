"""Tables of rows, and clipped sums over them with proven error bounds.

:func:`as_rows` wraps a table; :class:`Rows` answers questions about it. A table (``table.py``,
``sparse.py``) yields rows in pieces, as compiled loops take them; sums are functions of a table, an
affine map and targets, each with its contract (``sums.py``, ``moments.py``); every rounding
constant and error bound is in ``bounds.py``. :func:`partitioned_rows` asks the same of partitions
that live elsewhere.
"""

from discreet.rows.affine import AffineMap
from discreet.rows.bounds import (
    BLOCK_ROWS,
    EXPONENTS,
    OCTAVES,
    UNIT_ROUNDOFF,
    certificate_allowance,
    descent_error,
)
from discreet.rows.descents import GridNoise, Path
from discreet.rows.moments import Counts, cell_counts
from discreet.rows.partitions import Block, Engine, PartitionedRows, partitioned_rows
from discreet.rows.rows import Checked, Rows, as_rows, check_targets
from discreet.rows.sparse import SparseTable
from discreet.rows.sums import Sum
from discreet.rows.table import DenseTable, one_thread
from discreet.rows.units import RowWeights, Unit, Units, scaled_weights

__all__ = [
    "BLOCK_ROWS",
    "EXPONENTS",
    "OCTAVES",
    "UNIT_ROUNDOFF",
    "AffineMap",
    "Block",
    "Checked",
    "Counts",
    "DenseTable",
    "Engine",
    "GridNoise",
    "PartitionedRows",
    "Path",
    "RowWeights",
    "Rows",
    "SparseTable",
    "Sum",
    "Unit",
    "Units",
    "as_rows",
    "cell_counts",
    "certificate_allowance",
    "check_targets",
    "descent_error",
    "one_thread",
    "partitioned_rows",
    "scaled_weights",
]
