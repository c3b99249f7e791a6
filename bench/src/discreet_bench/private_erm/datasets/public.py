"""Public data sets by name: those of ``discreet datasets``, and mnist-zero (0 against the rest)."""

from benchopt import BaseDataset

from discreet_bench.data import public


class Dataset(BaseDataset):
    """A public data set, encoded by its public schema, and perhaps cut."""

    name = "public"
    parameters = {  # noqa: RUF012
        "data": ["adult"],
        "rows": [None],
        "columns": [None],
        "unit": [False],
    }
    requirements = []  # noqa: RUF012

    def get_data(self):
        """The table for the objective."""
        return {"table": public(self.data, self.rows, self.columns, self.unit)}
