"""The benchmark: experiments by name, their runs, and tables, figures and a page of the results.

benchopt makes the runs (`benchmark`, `runner`); `solvers` has the methods, `datasets` the data
sets, `runs` the columns of the results.
"""
