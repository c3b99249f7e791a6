"""A scikit-learn transformer that encodes tables of any library by a schema."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from discreet.errors import TableError
from discreet.tables.columns import quoted
from discreet.tables.encoding import Encoder, GrowingRows
from discreet.tables.matching import Request, naming
from discreet.tables.schema import Schema
from discreet.tables.sources import Source, source


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

        X is any source that ``schema.open`` takes. It may also have the target's column, which is
        not used.
        """
        self._encoder()
        names = self._checked(source(X)) or tuple(self.schema.used)
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        return self

    def transform(self, X: Any) -> Any:
        """Encode a table, of the kinds that `fit` takes, as ``schema.width`` columns."""
        encoder, found = self._encoder(), source(X)
        self._checked(found)
        rows = GrowingRows(self.schema.width, sparse=encoder.sparse, dtype=encoder.dtype)
        for piece in found.pieces(Request(self.schema, target=False), may_be_empty=True):
            with naming(piece.where):
                rows.append(encoder.encode(piece.columns))
        return rows.finish()

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

    def _checked(self, found: Source) -> tuple[Any, ...]:
        """Refuse a table that lacks a column, or has another than the schema's and the target.

        Returns the names of the columns; those of a text file are checked when it is read.
        """
        names, known, problems = found.names, set(self.schema.file_names), []
        if absent := [name for name in self.schema.used if names and name not in names]:
            problems.append(f"it has no column {quoted(absent)}")
        extra = [name for name in names if name not in known]
        if extra and self.schema.extra == "refuse":
            problems.append(f"the schema does not know its column {quoted(extra)}")
        if problems:
            raise TableError(
                f"the table does not match its schema: {'; '.join(problems)}. Rename the column, "
                'add it to the schema (kind = "ignored" if it is not used), or drop it; with '
                'extra = "ignore" the schema leaves out columns that it does not know.'
            )
        return names
