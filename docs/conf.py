"""Sphinx's configuration of the site; `make docs` builds it."""

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from proofs.run.progress import CountDisplay

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


def setup(app: Sphinx) -> None:
    """Show how many pages are read and written, of how many, and the time left."""
    app.connect("env-before-read-docs", count_pages)


def count_pages(app: Sphinx, env: BuildEnvironment, names: list[str]) -> None:
    """Each page is read once, and written once; some are written that nobody wrote."""
    total = 2 * len(names)
    display = CountDisplay("pages read and written", total)
    done = 0

    def count(*_: object) -> None:
        nonlocal done
        done = min(done + 1, total)
        display(done)

    app.connect("source-read", count)
    app.connect("html-page-context", count)
