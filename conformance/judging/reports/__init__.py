"""Reports of a run: its findings as data, pages, a dataset, and scripts that need only Python.

`pipeline` takes every run from its directory through waves of traces and findings to the report.
"""
