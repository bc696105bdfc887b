"""Clients that are driven by lines, each a script of its own; see `lines.py`."""
