"""Predictions for rows that are elsewhere, made where they are: no promise is about them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.engines.table import BlockTable


def refuse_sites(X: Any) -> None:
    """Refuse the tables of several sites, whose rows nobody has in one place."""
    if isinstance(X, BlockTable) and X.place == "sites":
        raise TypeError(
            "Rows of sites stay where they are. Save the model and give it to the sites: each "
            "predicts and evaluates its own rows."
        )


def predicted(X: Any, method: Any) -> Any:
    """Return what ``method`` predicts for the rows of a lazy table, as a lazy array."""
    refuse_sites(X)
    if isinstance(X, BlockTable) or library(X) == "pyspark":
        raise TypeError(
            "Predictions for a Spark dataframe are made where its rows are: encode batches with "
            "schema.transformer() and call the model in frame.mapInArrow(…)."
        )
    return _by_dask(X, method)


def _by_dask(X: Any, method: Any) -> Any:
    """Return what ``method`` predicts for an array or frame: a Dask array, computed by need."""
    import dask.array as da
    from dask.delayed import delayed

    from discreet.engines.dask import is_frame, whole_of

    frame = is_frame(X)
    parts = list(np.ravel(whole_of(X).to_delayed()))
    sizes = (np.nan,) * len(parts) if frame else X.chunks[0]
    like = method(X._meta_nonempty if frame else np.zeros((1, X.shape[1])))[:0]
    run = delayed(_predict, pure=False)
    model = delayed(method, pure=False, traverse=False)
    return da.concatenate(
        [
            da.from_delayed(run(model, part, like), (size, *like.shape[1:]), dtype=like.dtype)
            for part, size in zip(parts, sizes, strict=True)
        ]
    )


def _predict(method: Any, part: Any, empty: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(method(part)) if len(part) else empty


def library(X: Any) -> str:
    """Return the package that the type of a table is from."""
    return type(X).__module__.partition(".")[0].replace("dask_expr", "dask")
