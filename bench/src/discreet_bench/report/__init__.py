"""The report: runs as one HTML page with interactive charts. See `report`."""

from discreet_bench.report.page import report

__all__ = ["report"]
