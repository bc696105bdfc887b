"""`python -m conformance.campaigns.directories`: log directories of real brokers, served by ours.

For each scenario and release a real broker makes a directory, and is asked about it after another
start. Our broker serves a copy and is asked the same. The exit code is 0 if all is right, 1 if not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path

from conformance.adapters.brokers.kafka.errors import KafkaError
from conformance.campaigns.directories.kafka_directory import KafkaDirectory, make
from conformance.campaigns.directories.recorded import record
from conformance.campaigns.directories.scenarios import Scenario, read_scenarios
from conformance.campaigns.directories.verdict import DirectoryVerdict, judge
from proofs.run import BAD_USE
from proofs.run.files import write_json
from proofs.say import note, say


def parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    described = argparse.ArgumentParser(
        prog="python -m conformance.campaigns.directories",
        description=(__doc__ or "").split("\n\n", maxsplit=1)[0],
    )
    described.add_argument(
        "--scenario", default="*", metavar="PATTERN", help="which of scenarios.toml (*)"
    )
    described.add_argument("--release", default="*", metavar="PATTERN", help="which of these (*)")
    described.add_argument(
        "--record",
        type=Path,
        metavar="DIR",
        help="pack what is right there, for tests",
    )
    described.add_argument("--keep", type=Path, metavar="DIR", help="keep all directories there")
    described.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts")
    return described


def chosen(options: argparse.Namespace) -> list[tuple[Scenario, str]]:
    """The scenarios and releases that the options select."""
    return [
        (scenario, release)
        for scenario in read_scenarios().values()
        for release in scenario.releases
        if fnmatchcase(scenario.name, options.scenario) and fnmatchcase(release, options.release)
    ]


def verdicts(made: KafkaDirectory, folder: Path) -> Iterator[DirectoryVerdict]:
    """A verdict on each log directory. Raises as `judge`."""
    scenario, release = made.scenario, made.release
    for path in made.folders:
        copy, expected = folder / f"ours-{path.name}", scenario.refusal(release, path.name)
        yield judge(
            scenario.name,
            release,
            made.answers,
            path,
            copy,
            expected=expected,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if everything is right, 1 if not, 2 for bad use."""
    options = parser().parse_args(arguments)
    pairs = chosen(options)
    if not pairs:
        note(f"no scenario {options.scenario} of a release {options.release}")
        return BAD_USE
    found: list[DirectoryVerdict] = []
    failed = False
    with tempfile.TemporaryDirectory(prefix="kafka-eos-directories-") as name:
        for scenario, release in pairs:
            folder = (options.keep or Path(name)) / f"{scenario.name}-{release}"
            try:
                found += _run(scenario, release, folder, options.record)
            except (KafkaError, TimeoutError) as error:
                failed = True
                note(f"{scenario.name} {release}: {error}")
    write_json(options.json, [asdict(row) for row in found])
    return 0 if all(row.is_right for row in found) and not failed else 1


def _run(
    scenario: Scenario, release: str, folder: Path, kept: Path | None
) -> list[DirectoryVerdict]:
    """Make a directory, judge it, and pack it in `kept` if it is right. Raises as `make`."""
    made = make(scenario, release, folder)
    rows = list(verdicts(made, folder))
    for line in (line for row in rows for line in row.lines()):
        say(line)
    if kept is not None and all(row.is_right for row in rows):
        kept.mkdir(parents=True, exist_ok=True)
        record(made, kept)
    return rows


if __name__ == "__main__":
    sys.exit(main())
