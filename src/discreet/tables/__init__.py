"""Tables: where data sets come from."""

from discreet.tables.synthetic import synthetic_low

__all__ = ["synthetic_low"]
