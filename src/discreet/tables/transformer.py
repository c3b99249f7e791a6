"""A scikit-learn transformer that encodes tables of any library by a schema."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from discreet.errors import TableError
from discreet.tables.cells import arrow
from discreet.tables.columns import quoted, repeated
from discreet.tables.encoding import Encoder
from discreet.tables.schema import Schema

__all__ = ["TableTransformer"]


class TableTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encoder of tables by a schema: every column becomes numbers in [0, 1] by a public rule.

    Parameters
    ----------
    schema : Schema
        Content of each column.
    sparse : bool or "auto"
        Return a CSR array; "auto": if it is smaller (``schema.is_wide``).
    dtype : {"float64", "float32"}
        The type of the numbers.

    Attributes
    ----------
    feature_names_in_ : ndarray of str
        Names of the columns it was fitted with.
    n_features_in_ : int
        Their number.

    Notes
    -----
    *Privacy.* Nothing is learned from the rows: `fit` looks at the names of the columns and at no
    cell, and each row is encoded by itself, so no budget is spent. A row has norm at most
    ``schema.max_norm``, once no column is unbounded.

    Examples
    --------
    >>> from discreet.tables.columns import Categorical, Numeric
    >>> from discreet.tables.schema import Schema
    >>> schema = Schema({"age": Numeric(0, 100), "sex": Categorical(["F", "M"], unseen="refuse")})
    >>> schema.transformer(sparse=False).fit_transform({"age": [25, 50], "sex": ["F", "M"]})
    array([[0.25, 1.  , 0.  ],
           [0.5 , 0.  , 1.  ]])
    """

    def __init__(self, schema: Schema, sparse: bool | str = "auto", dtype: str = "float64") -> None:
        self.schema = schema
        self.sparse = sparse
        self.dtype = dtype

    def fit(self, X: Any, y: Any = None) -> TableTransformer:
        """Check that the table has the schema's columns; no cell is read.

        Parameters
        ----------
        X : table
            A pandas or polars DataFrame, a pyarrow Table or RecordBatch, or a dict of arrays. It
            may also have the target's column, which is not used.
        y : ignored
        """
        self._encoder()
        columns = _columns(X)
        self._check_names(columns)
        self.feature_names_in_ = np.array(list(columns), dtype=object)
        self.n_features_in_ = len(columns)
        return self

    def transform(self, X: Any) -> Any:
        """Encode a table.

        Parameters
        ----------
        X : table
            As in `fit`.

        Returns
        -------
        ndarray or csr_array of shape (rows, schema.width)
        """
        encoder = self._encoder()
        columns = _columns(X)
        self._check_names(columns)
        return encoder.encode({name: as_arrow(columns[name], name) for name in self.schema.used})

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the encoded columns."""
        return np.array(self.schema.feature_names, dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True  # nothing is learned

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = tags.input_tags.two_d_array = False
        for accepted in ("string", "categorical", "allow_nan"):
            setattr(tags.input_tags, accepted, True)
        return tags

    def _encoder(self) -> Encoder:
        """Check the settings; nothing has been read yet."""
        if not isinstance(self.schema, Schema):
            raise ValueError(f"schema must be a Schema; got {type(self.schema).__name__}.")
        return Encoder(self.schema, self.sparse, self.dtype)

    def _check_names(self, columns: dict[Any, Any]) -> None:
        """Refuse a table that lacks a column, or has another than the schema's and the target."""
        known, problems = set(self.schema.file_names), []
        if absent := [name for name in self.schema.used if name not in columns]:
            problems.append(f"it has no column {quoted(absent)}")
        if extra := [name for name in columns if name not in known]:
            problems.append(f"the schema does not know its column {quoted(extra)}")
        if problems:
            raise TableError(
                f"the table does not match its schema: {'; '.join(problems)}. Rename the column, "
                'add it to the schema (kind = "ignored" if it is not used), or drop it.'
            )


def _columns(X: Any) -> dict[Any, Any]:
    """Return the columns of a table by name; no cell is read."""
    pa = arrow()
    if hasattr(X, "collect"):
        raise TableError("a lazy table has no rows yet; call its collect() first.")
    is_frame = hasattr(X, "columns") and hasattr(X, "dtypes")
    if not is_frame and hasattr(X, "__arrow_c_stream__") and not isinstance(X, pa.ChunkedArray):
        X = pa.table(X)
    if isinstance(X, Mapping):
        names = list(X)
    elif isinstance(X, (pa.Table, pa.RecordBatch)):
        names = X.schema.names
    elif is_frame:
        names = list(X.columns)
    else:
        raise TableError(
            f"a {type(X).__name__} has no names of columns; give a pandas or polars DataFrame, a "
            "pyarrow Table, or a dict of arrays."
        )
    if twice := repeated(names):
        raise TableError(f"the table has more than one column {quoted(twice)}; rename them.")
    return {name: X[name] for name in names}


def as_arrow(values: Any, name: str) -> Any:
    """Convert a column of any library to an Arrow array; no error quotes a cell."""
    pa = arrow()
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    is_list = hasattr(values, "__len__") and not isinstance(values, (str, bytes, Mapping))
    if not is_list or getattr(values, "ndim", 1) != 1:
        raise TableError(f"column {name!r}: must be a list or a one-dimensional array of cells.")
    try:
        if hasattr(values, "to_arrow"):
            return values.to_arrow()
        return pa.array(values, from_pandas=True)
    except Exception:  # of whatever library; its text may quote a cell
        texts = [_text(value) for value in values]
    if any(text is NotImplemented for text in texts):
        raise TableError(
            f"column {name!r}: a cell is neither a text nor a number; convert the column to either."
        )
    return pa.array(texts, type=pa.string())


def _text(value: Any) -> Any:
    """Return the text of a cell in a column of mixed types, as Arrow would write it."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (str, Integral, datetime.date)):
        return str(value)
    if not isinstance(value, (Real, decimal.Decimal)):
        return NotImplemented
    number = float(value)
    if np.isnan(number):
        return None
    return str(int(number)) if number.is_integer() else repr(number)
