"""The table of clients and features, for a terminal and as a page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from conformance.campaigns.client_table.brokers import OURS
from conformance.campaigns.client_table.cell import FAILS, WORKS
from conformance.campaigns.client_table.clients import CLIENTS
from conformance.campaigns.client_table.features import FEATURES
from conformance.judging.reports.document import Document, Heading, Table

INTRODUCTION: Final = (
    "Each client comes from its own registry and runs the same program at real Kafka and at this"
    " project's broker; a feature works if the program says what it must, and the broker's logs do:"
    " codecs, producer ids, markers, committed offsets. `kafka-eos client-table --keep"
    " evidence/client_table.json` runs it again, and `make docs` writes this page."
)
LACKS: Final = "has it not"
NOT_RUN: Final = "not run"

Row = Mapping[str, Any]


def verdict_of(ours: Row, kafka: Row | None) -> str:
    """`holds` if each feature that works on Kafka works on ours, or the client lacks the
    feature."""
    results = [row["result"] for row in (ours, kafka) if row is not None]
    if NOT_RUN in results:
        return "undecided"
    if LACKS in results or ours["result"] == WORKS:
        return "holds"
    return "holds" if kafka is not None and kafka["result"] == FAILS else "violated"


def pairs_of(rows: Sequence[Row]) -> dict[tuple[str, str], dict[str, Row]]:
    """The rows of each client and feature: ours, and Kafka's."""
    pairs: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        side = "ours" if row["broker"] == OURS else "kafka"
        pairs.setdefault((row["client"], row["feature"]), {})[side] = row
    return pairs


def verdicts_of(rows: Sequence[Row]) -> Iterator[str]:
    """The verdict of each client and feature that ran at ours."""
    for pair in pairs_of(rows).values():
        if "ours" in pair:
            yield verdict_of(pair["ours"], pair.get("kafka"))


def client_table_page(rows: Sequence[Row]) -> Document:
    """The table, the differences, and the features that clients lack."""
    pairs = pairs_of(rows)
    clients = sorted(dict.fromkeys(row["client"] for row in rows), key=_place)
    features = [one.name for one in FEATURES if any(row["feature"] == one.name for row in rows)]
    page = Document("Clients and features").say(INTRODUCTION)
    table = [
        (feature, *(_word(pairs.get((client, feature), {})) for client in clients))
        for feature in features
    ]
    page.add(Table(("feature", *clients), table))
    page.say(
        "**works**: at both brokers. Where the brokers differ, the cell names them. What fails at"
        f" both is the client's own limit. {LACKS}: the client does not offer it."
    )
    failed = [row for row in rows if row["result"] in (FAILS, NOT_RUN)]
    if failed:
        shown = [(r["client"], r["feature"], r["version"], r["result"], r["error"]) for r in failed]
        page.add(Heading("What does not work"))
        page.add(Table(("client", "feature", "at", "result", "error"), shown))
    missing = {(r["client"], r["feature"]): r["error"] for r in rows if r["result"] == LACKS}
    if missing:
        page.add(Heading("What clients do not have"))
        page.add(Table(("client", "feature", "why"), [(*k, why) for k, why in missing.items()]))
    dates = sorted({row["date"] for row in rows})
    when = " to ".join(dict.fromkeys((dates[0], dates[-1])))
    versions = ", ".join(dict.fromkeys(row["version"] for row in rows))
    return page.say(f"Brokers: {versions}. Run: {when}.")


def _place(client: str) -> int:
    """The place of a column, in the order of `CLIENTS`."""
    return [one.product for one in CLIENTS].index(client.partition(" ")[0])


def _word(pair: Mapping[str, Row]) -> str:
    """The text of a cell."""
    results = {row["result"] for row in pair.values()}
    if not results:
        return ""
    if len(results) == 1:
        [result] = results
        return f"**{result}**" if result == WORKS else result
    return ", ".join(f"{row['result']} ({row['version']})" for row in pair.values())


def kept_page(file: Path) -> Document:
    """The page of results that were kept."""
    return client_table_page(json.loads(file.read_text(encoding="utf-8"))["cells"])
