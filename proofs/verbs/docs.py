"""`pages`: a page for each guarantee and for each thing that is not guaranteed, with what shows
it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from proofs.pages.evidence import Evidence, dumps, kept_in
from proofs.pages.gather import gathered
from proofs.pages.writing import GENERATED, pages
from proofs.say import say
from proofs.trace.format import dumps as trace_text
from proofs.verbs import HOLDS
from proofs.verbs.output import pretty, write_whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb's options."""
    parser.add_argument(
        "--out", type=Path, default=Path("docs/guarantees"), metavar="DIR", help="where pages are"
    )
    parser.add_argument(
        "--fresh", action="store_true", help="look at all again, not only at what DIR lacks"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="the names of the files written")


def execute(arguments: argparse.Namespace) -> int:
    """Gather what is to be seen, unless it is there, and write. Raises BadEvidence."""
    folder: Path = arguments.out
    before = Evidence() if arguments.fresh else kept_in(folder)
    evidence = gathered(before, say, lambda known: keep(folder, known))
    files = pages(evidence)
    for name, content in files.items():
        write_whole(folder / name, content)
    for stale in left_over(folder, evidence, files):
        stale.unlink()
    say(f"{len(files)} pages in {folder}")
    if arguments.json:
        write_whole(arguments.json, pretty({"schema_version": 1, "files": sorted(files)}))
    return HOLDS


def keep(folder: Path, evidence: Evidence) -> None:
    """Write what is known: traces first, so that none is missed."""
    for name, trace in evidence.traces.items():
        write_whole(folder / "traces" / f"{name}.jsonl", trace_text(trace))
    write_whole(folder / "evidence.json", dumps(evidence))


def left_over(folder: Path, evidence: Evidence, files: Mapping[str, str]) -> list[Path]:
    """Traces that nothing tells, and pages of ours that are no longer written."""
    traces = sorted((folder / "traces").glob("*.jsonl"))
    pages = (path for path in sorted(folder.rglob("*.md")) if GENERATED in path.read_text("utf-8"))
    return [
        *(path for path in traces if path.stem not in evidence.traces),
        *(path for path in pages if path.relative_to(folder).as_posix() not in files),
    ]
