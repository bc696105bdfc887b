"""`explain`: one trace as a story, and as a page with pictures."""

from __future__ import annotations

import argparse
from pathlib import Path

from conformance import pages
from proofs.run.files import write_whole
from proofs.say import say
from proofs.trace import pictures
from proofs.trace.format import read
from proofs.trace.html import page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All that `explain` takes."""
    parser.add_argument("trace", type=Path, help="a trace file, as run and explore write it")
    parser.add_argument("--html", type=Path, metavar="FILE", help="the page, in one offline file")


def execute(options: argparse.Namespace) -> int:
    """Tell the trace. Raises TraceError, ReplayError, UnknownScope, UnknownVariant."""
    story = pages.story_of(read(options.trace))
    say(pictures.text(story).rstrip())
    if options.html is not None:
        write_whole(options.html, page(story))
        say(f"page: {options.html}")
    return 0
