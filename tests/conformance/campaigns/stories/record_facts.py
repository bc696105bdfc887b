"""Record what the brokers answered:
`python tests/conformance/campaigns/stories/record_facts.py DIR...`

Each DIR is what `kafka-eos experiments --kafka RELEASE --level N --out DIR` wrote. What is recorded
lets the suite, and whoever writes down a release's rules, look at real answers without a broker.
"""

import json
import sys
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "recorded"


def observed(report: dict[str, Any]) -> dict[str, dict[str, str]]:
    """What was observed, by experiment and name. Raises SystemExit for a name that comes twice."""
    facts: dict[str, dict[str, str]] = {}
    for fact in report["facts"]:
        rows = facts.setdefault(fact["experiment"], {})
        if fact["name"] in rows:
            sys.exit(f"{fact['experiment']}: two facts are called {fact['name']!r}")
        rows[fact["name"]] = fact["observed"]
    return facts


def record(out: Path) -> Path:
    """Write the release's file; experiments that are in it already are replaced.

    Raises SystemExit for a run in which an experiment failed.
    """
    report = json.loads((out / "report.json").read_text())
    if report["failed"]:
        sys.exit(f"{out}: not whole: {report['failed']}")
    RECORDED.mkdir(exist_ok=True)
    file = RECORDED / f"{report['release']}-level-{report['level']}.json"
    before = json.loads(file.read_text())["facts"] if file.exists() else {}
    whole = {
        "release": report["release"],
        "level": report["level"],
        "facts": before | observed(report),
    }
    file.write_text(json.dumps(whole, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    return file


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(record(Path(argument)))
