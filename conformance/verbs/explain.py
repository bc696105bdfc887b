"""`explain`: shows one trace as a story, and as a page with pictures."""

from __future__ import annotations

import argparse
from pathlib import Path

from conformance.adapters.clients.recorded_run import is_client_trace, judge_file
from conformance.adapters.clients.trace_page import client_page
from conformance.judging.reports import pages
from conformance.judging.reports.script import script_of
from proofs.run import BadUse
from proofs.run.files import write_whole
from proofs.say import say
from proofs.trace import pictures
from proofs.trace.format import read
from proofs.trace.html import page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `explain`."""
    parser.add_argument("trace", type=Path, help="a trace file, as run and explore write it")
    parser.add_argument("--html", type=Path, metavar="FILE", help="the page, in one offline file")
    parser.add_argument(
        "--script",
        type=Path,
        metavar="FILE",
        help="the requests as a Python script that needs nothing else, where the trace has them",
    )


def execute(options: argparse.Namespace) -> int:
    """Print the trace as a story. Raises TraceError, ReplayError, UnknownScope, UnknownVariant, and
    BadClientTrace for a file that is no run of a client."""
    if is_client_trace(options.trace):
        return explain_client(options)
    trace = read(options.trace)
    if options.script is not None and not trace.header.exchanges:
        raise BadUse(f"{options.trace} has no requests: it was not found at a broker")
    story = pages.story_of(trace)
    say(pictures.text(story).rstrip())
    if options.html is not None:
        write_whole(options.html, page(story))
        say(f"page: {options.html}")
    if options.script is not None:
        title = "; ".join(pages.differing(trace.header))
        name, variant = options.script.name, trace.header.variant
        write_whole(options.script, script_of(trace.header.exchanges, title, name, variant))
        say(f"script: {options.script}")
    return 0


def explain_client(options: argparse.Namespace) -> int:
    """Print a client's run. Raises BadClientTrace, BadUse."""
    if options.script is not None:
        raise BadUse(f"{options.trace} is a client's run: a client decides itself what it sends")
    judged = judge_file(options.trace)
    for line in judged.lines:
        say(line)
    if options.html is not None:
        write_whole(options.html, client_page(judged.trace, judged.finding, judged.lines))
        say(f"page: {options.html}")
    return 0
