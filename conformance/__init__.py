"""Conformance judges systems: it generates traces, and compares each system with the model."""

from conformance.judging.python_text import prefer_python_text

prefer_python_text()
