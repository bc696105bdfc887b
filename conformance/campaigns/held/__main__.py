"""Our answers beside a real Kafka's, API by API, field by field: `python -m
conformance.campaigns.held`.

The cases are derived from the table of schemas. Kafka's answers are recorded: `--record` starts a
real broker and records them anew. Ours are those of a node in this process, or of a broker that
`--at` names.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from conformance.adapters.brokers.kafka.releases import NEWEST
from conformance.campaigns.held.api_table import lines_of
from conformance.campaigns.held.broker_answers import our_answers, record, served_answers
from conformance.campaigns.held.cases import api_keys
from conformance.campaigns.held.comparison import ApiComparison, compare, read_names
from conformance.campaigns.held.recording import OutdatedRecording, read_recording
from impl.addresses import Address, InvalidAddress, parse_address
from impl.protocol.schemas import ApiKey
from proofs.run import BAD_USE, EXIT_CODES
from proofs.say import note, say

RECORDED: Final = Path("tests/conformance/campaigns/held/recorded")


def parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    described = argparse.ArgumentParser(
        prog="python -m conformance.campaigns.held",
        description=(__doc__ or "").split("\n\n", maxsplit=1)[0],
    )
    described.add_argument(
        "--api",
        nargs="+",
        metavar="NAME",
        choices=[key.name for key in api_keys()],
        help="these APIs only, such as FETCH (all)",
    )
    described.add_argument(
        "--recording",
        type=Path,
        default=RECORDED,
        metavar="DIR",
        help="Kafka's answers (%(default)s)",
    )
    described.add_argument(
        "--record", action="store_true", help=f"ask a real Kafka {NEWEST} and write its answers"
    )
    described.add_argument("--at", metavar="HOST:PORT", help="ask this broker instead of our node")
    described.add_argument("--reasons", action="store_true", help="list the named differences, too")
    return described


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if each difference has a name, 1 if not, 2 for bad use."""
    options = parser().parse_args(arguments)
    apis = [ApiKey[name] for name in options.api] if options.api else api_keys()
    try:
        at = parse_address(options.at) if options.at else None
        if options.record:
            record(apis, options.recording)
        comparisons = [comparison_of(api_key, options.recording, at) for api_key in apis]
    except (InvalidAddress, OutdatedRecording) as error:
        note(str(error))
        return BAD_USE
    for line in lines_of(comparisons, with_named=options.reasons):
        say(line)
    return EXIT_CODES["holds" if all(each.holds for each in comparisons) else "violated"]


def comparison_of(api_key: ApiKey, recording: Path, at: Address | None = None) -> ApiComparison:
    """Compare an API's answers. Raises OutdatedRecording."""
    theirs = read_recording(recording, api_key)
    ours = our_answers(api_key) if at is None else served_answers(*at, api_key)
    return compare(api_key, ours, theirs, read_names())


if __name__ == "__main__":
    sys.exit(main())
