"""Data sets that are made on the spot: Synthetic-L and -H, a sphere, large stand-ins."""

from benchopt import BaseDataset

from discreet_bench.data import generated


class Dataset(BaseDataset):
    """A generated data set, of its usual size unless another is asked for."""

    name = "generated"
    parameters = {  # noqa: RUF012
        "data": ["synthetic-l"],
        "rows": [None],
        "features": [None],
        "seed": [0],
    }
    requirements = []  # noqa: RUF012
    test_parameters = {"rows": [500], "features": [5]}  # noqa: RUF012

    def get_data(self):
        """The table for the objective."""
        return {"table": generated(self.data, self.rows, self.features, self.seed)}
