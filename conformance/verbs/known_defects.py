"""`known-defects`: checks that the last release with each known defect has it, and the next has
not.

Both releases come from their registries, and play one story each. The same command continues with
the first release that was not played. `--keep FILE` replaces older results of the same defects;
`make docs` writes a page of them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from conformance.campaigns.known_defects.defects import KnownDefect, known_defects, missing_defects
from conformance.campaigns.known_defects.evidence import Observation, observe, right_answer
from conformance.campaigns.known_defects.report import Row, lines_of, page_of, row_of
from proofs.run import EXIT_CODES, one_of, worst
from proofs.run.directory import RunDirectory
from proofs.run.files import code_digest, write_json, write_whole
from proofs.run.journal import Journal
from proofs.say import note, say

SCHEMA_VERSION: Final = 1
OUT: Final = Path("out/known-defects")
PAGE: Final = "known_defects"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `known-defects`."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="defects (default: all)")
    parser.add_argument("--list", action="store_true", help="name the defects, play none")
    parser.add_argument(
        "--swap", action="store_true", help="exchange the two releases: a control, which must fail"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="keep the results, for `make docs`"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="the results as JSON")
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help=f"default: {OUT}")


def execute(options: argparse.Namespace) -> int:
    """Play the remaining releases; 0 if each defect is where it is expected, 1 if one is not, 3 if
    a release could not be played. Raises BadUse, OtherRun, Stopped."""
    there_are = {defect.name: defect for defect in known_defects()}
    names = [one_of("defect", name, tuple(there_are)) for name in options.names]
    defects = [there_are[name] for name in names] or list(there_are.values())
    if options.list:
        for defect in defects:
            releases = f"{defect.has_it}, not {defect.fixed}"
            say(f"{defect.name:<44} {defect.issue:<24} {defect.product} {releases}")
        return 0
    with RunDirectory(options.out, {"swap": options.swap}, code_digest()) as directory:
        rows = [judge(defect, options.swap, directory.journal) for defect in defects]
        verdict = worst(row["verdict"] for row in rows)
        report = {"schema_version": SCHEMA_VERSION, "defects": rows, "verdict": verdict}
        directory.write(report, {}, options.json)
    page = page_of(rows, missing_defects())
    write_whole(options.out / f"{PAGE}.md", page.markdown())
    write_whole(options.out / f"{PAGE}.html", page.html())
    if options.keep is not None:
        write_json(options.keep, {"schema_version": SCHEMA_VERSION, "defects": kept(options, rows)})
    for line in lines_of(rows):
        say(line)
    say(f"verdict: {verdict}")
    return EXIT_CODES[verdict]


def kept(options: argparse.Namespace, rows: Sequence[Row]) -> list[Row]:
    """The rows of the file --keep, replaced by these for the same defects, in the order of the
    table."""
    file: Path = options.keep
    before = json.loads(file.read_text(encoding="utf-8"))["defects"] if file.exists() else []
    by_name = {row["name"]: row for row in (*before, *rows)}
    return [by_name[one.name] for one in known_defects() if one.name in by_name]


def judge(defect: KnownDefect, is_swapped: bool, journal: Journal) -> Row:
    """Play both releases; the row of the report."""
    first, second = reversed(defect.releases) if is_swapped else defect.releases
    had, has_not = (look_at(defect, release, journal) for release in (first, second))
    date = datetime.now(UTC).date().isoformat()
    return row_of(defect, right_answer(defect), had, has_not, date)


def look_at(defect: KnownDefect, release: str, journal: Journal) -> Observation:
    """The answer of a release; a release that could not be played is played again the next time."""
    unit = f"{defect.name} {release}"
    if unit in journal:
        return Observation(**journal[unit])
    note(f"known-defects: {defect.name}: {defect.product} {release}")
    found = observe(defect, release)
    if not found.problem:
        journal.add(unit, found._asdict())
    return found
