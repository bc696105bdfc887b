"""Reports of a run, from its findings to pages, a data set, and scripts that need Python alone.

`pipeline` takes every run through: directory, waves of traces, findings, report.
"""
