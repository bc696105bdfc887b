"""The judge: systems under test, generated traces, and whether they agree with the model."""

from conformance.judging.python_text import prefer_python_text

prefer_python_text()
