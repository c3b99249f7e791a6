"""The benchmark: experiments by name, their runs, and what is made of them.

The runs are made by benchopt from ``benchmarks/private_erm`` (one file a method); this room holds
what those files share, and everything after the running.
"""
