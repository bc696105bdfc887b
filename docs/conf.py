"""Sphinx's configuration of the site; `make docs` builds it."""

project = "kafka-eos"
author = "the kafka-eos authors"
extensions = ["myst_parser"]
myst_heading_anchors = 3
exclude_patterns = ["extra"]
suppress_warnings = ["misc.highlighting_failure"]
html_theme = "furo"
html_title = "kafka-eos"
html_show_copyright = False
html_show_sourcelink = False
