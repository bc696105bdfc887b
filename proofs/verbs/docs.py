"""`docs`: a page for each guarantee and non-guarantee, with its evidence.

Gathering evidence takes long, and writing pages does not. Evidence is therefore kept in a separate
folder, after each exploration, so that a stopped run continues where it was.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterable
from pathlib import Path

import model
from proofs.cache import cache_folder
from proofs.pages.evidence import Evidence, dumps, read_evidence
from proofs.pages.gather import count_missing, gather_evidence
from proofs.pages.writing import GENERATED, pages
from proofs.run import HOLDS, BadUse
from proofs.run.files import write_json, write_whole
from proofs.run.progress import CountDisplay
from proofs.say import say
from proofs.trace.format import dumps as trace_text

PAGES = Path("build/guarantees")


class MissingEvidence(ValueError):
    """Pages cannot be written from the kept evidence; the message names the command that gathers
    more."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument(
        "--out", type=Path, default=PAGES, metavar="DIR", help="pages (default: %(default)s)"
    )
    parser.add_argument(
        "--evidence",
        type=Path,
        metavar="DIR",
        help="keep evidence there (default: in the cache folder, for each text of the model)",
    )
    parser.add_argument(
        "--fresh", action="store_true", help="gather all evidence again, not only what is missing"
    )
    parser.add_argument(
        "--kept", action="store_true", help="write pages from kept evidence, and gather none"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="the names of the files written")


def execute(arguments: argparse.Namespace) -> int:
    """Gather the evidence that is missing, and write all pages. Raises BadEvidence, BadUse."""
    if arguments.kept and arguments.fresh:
        raise BadUse("--kept gathers nothing, --fresh gathers all: leave one of them out")
    kept: Path = arguments.evidence or cache_folder() / "evidence" / model_digest()
    before = Evidence() if arguments.fresh else read_evidence(kept)
    missing = count_missing(before)
    if arguments.kept and missing:
        raise MissingEvidence(
            f"of this text of the model {missing} pieces of evidence are not in {kept}: type"
            " `make evidence-docs`, which gathers them in minutes, once"
        )
    with CountDisplay("pieces of evidence", missing) as display:
        evidence = gather_evidence(
            before,
            lambda done, _total, what: display(done, what),
            lambda known: keep(kept, known),
        )
    files = write_pages(evidence, arguments.out)
    say(f"{len(files)} pages in {arguments.out}")
    write_json(arguments.json, {"schema_version": 1, "files": sorted(files)})
    return HOLDS


def model_digest() -> str:
    """Return a digest of the model's text, on which all evidence depends."""
    files = sorted(Path(model.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def write_pages(evidence: Evidence, folder: Path) -> list[str]:
    """Write all pages, and the traces that they show, and return the pages' names. Generated files
    that no page needs any more are removed."""
    files = pages(evidence)
    for name, content in files.items():
        write_whole(folder / name, content)
    write_traces(evidence, folder)
    for path in left_over(folder, evidence, files):
        path.unlink()
    return list(files)


def write_traces(evidence: Evidence, folder: Path) -> None:
    """Write the traces as files that other systems can play."""
    for name, trace in evidence.traces.items():
        write_whole(folder / "traces" / f"{name}.jsonl", trace_text(trace))


def keep(folder: Path, evidence: Evidence) -> None:
    """Save evidence: traces first, so that saved evidence never lacks one."""
    write_traces(evidence, folder)
    write_whole(folder / "evidence.json", dumps(evidence))


def left_over(folder: Path, evidence: Evidence, files: Iterable[str]) -> list[Path]:
    """Return traces that no page shows, and generated pages that are no longer written."""
    traces = sorted((folder / "traces").glob("*.jsonl"))
    generated = (p for p in sorted(folder.rglob("*.md")) if GENERATED in p.read_text("utf-8"))
    return [
        *(path for path in traces if path.stem not in evidence.traces),
        *(path for path in generated if path.relative_to(folder).as_posix() not in files),
    ]
