"""The report: runs as one page to read, with curves to play with. See `report`."""

from discreet_bench.report.page import report

__all__ = ["report"]
