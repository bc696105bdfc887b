"""Prints a story as one self-contained page: it needs no network and no other file.

The page's text and style are `page.html`; this module fills in the story as JSON, and as text for
readers without scripts.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from proofs.lift.source import Model
from proofs.trace.format import Trace
from proofs.trace.messages import MessageMove, flat
from proofs.trace.pictures import describe_event, text
from proofs.trace.project import project
from proofs.trace.replay import model_of, replay
from proofs.trace.story import PartitionLog, Story, StoryEvent, tell

TEMPLATE = Path(__file__).with_name("page.html")


def move_json(move: MessageMove) -> dict[str, Any]:
    """Return a message's move as the page draws it; `from` and `to` are lanes."""
    message = move.message
    return {
        "kind": move.kind.name,
        "number": message.number,
        "from": message.sender,
        "to": message.receiver,
        "label": message_label(message.value),
        "refused": error_of(message.value) not in ("", "NONE"),
        "answer": message.answers is not None or bool(error_of(message.value)),
    }


def error_of(value: Any) -> str:
    """Return the name of the error code that a message has or is; "" if there is none."""
    error = value if isinstance(value, Enum) else getattr(value, "error", None)
    return error.name if isinstance(error, Enum) else ""


def message_label(value: Any) -> str:
    """Return what distinguishes a message from others: an answer's error code or offset, a
    request's name, a batch's epoch and sequences, whether a marker commits."""
    error, fields = error_of(value), {} if isinstance(value, Enum) else dict(flat(project(value)))
    if error:
        stored = error == "NONE" and fields.get("base_offset", -1) >= 0
        return f"at offset {fields['base_offset']}" if stored else error
    if "base_sequence" in fields and fields.get("api", "PRODUCE") == "PRODUCE":
        first, count = fields["base_sequence"], fields.get("record_count", 1)
        last = f"..{first + count - 1}" if count > 1 else ""
        return f"epoch {fields['producer_epoch']} sequence {first}{last}"
    name = fields.get("api", type(value).__name__)
    ends = "committed" in fields and name in ("END_TXN", "Marker")
    return f"{name} {'COMMIT' if fields['committed'] else 'ABORT'}" if ends else str(name)


def event_json(event: StoryEvent) -> dict[str, Any]:
    """Return one step as the page shows it."""
    return {
        "number": event.number,
        "rule": event.label,
        "lanes": list(event.lanes),
        "sentences": list(describe_event(event)),
        "moves": [move_json(move) for move in event.moves],
        "changes": [[c.actor, c.place, c.what] for c in event.changes],
    }


def stored_lines(offset: int, stored: Mapping[str, Any]) -> Iterator[str]:
    """Yield an entry of a log, one fact a line: a batch, or what is at one offset."""
    kind = stored.get("kind", "DATA")
    yield f"offset {offset}" if kind == "DATA" else f"offset {offset} {kind}"
    yield f"producer {stored['producer_id']} epoch {stored['producer_epoch']}"
    if kind != "DATA":
        return
    sequence = stored["base_sequence"] if "base_sequence" in stored else stored["sequence"]
    yield f"sequence {sequence}"
    if "first_record" in stored:
        first, count = stored["first_record"], stored["record_count"]
        yield f"records {first}..{first + count - 1}" if count > 1 else f"record {first}"
    else:
        yield f"transaction {stored['transaction']} record {stored['number']}"


def stored_json(index: int, stored: Mapping[str, Any], fate: str) -> dict[str, Any]:
    """Return the entry at one place of a log."""
    offset = stored.get("base_offset", index)
    lines = [*stored_lines(offset, stored.get("batch", stored)), *([fate] if fate else [])]
    return {"offset": offset, "fate": fate, "lines": lines}


FATES = {"COMMIT": "committed", "ABORT": "aborted"}


def fate_of(entries: Sequence[Mapping[str, Any]], index: int) -> str:
    """Return what the first marker after a transaction's record decides for it; open without a
    marker; "" for other entries."""
    stored = entries[index]
    if stored.get("kind") != "DATA":
        return ""
    later = (e for e in entries[index + 1 :] if e["producer_id"] == stored["producer_id"])
    return next((FATES[e["kind"]] for e in later if e["kind"] in FATES), "open")


def log_json(log: PartitionLog) -> dict[str, Any]:
    """Return a log: its entries, and how far readers may read."""
    entries = log.entries
    batches = [stored_json(i, stored, fate_of(entries, i)) for i, stored in enumerate(entries)]
    return {"partition": log.partition, "marks": [list(m) for m in log.marks], "batches": batches}


def once(scope: str) -> str:
    """Return a scope's name with each budget once; the last one counts."""
    name, *budgets = scope.split("/")
    last = {budget.partition("=")[0]: budget for budget in budgets}
    return "/".join((name, *last.values()))


def page(story: Story, title: str = "") -> str:
    """Return the page of a story."""
    header = story.header
    named = title or f"{once(header.scope)}, {len(story.events)} steps"
    data = {
        "title": named,
        "scope": once(header.scope),
        "variant": header.variant,
        "seed": header.seed,
        "system": header.system,
        "patches": [list(patch) for patch in header.patches],
        "breaches": [breach._asdict() for breach in story.breaches],
        "notes": [],
        "differs": [list(row) for row in header.differs],
        "lanes": list(story.lanes),
        "events": [event_json(event) for event in story.events],
        "logs": [[log_json(log) for log in logs] for logs in story.logs],
    }
    return filled_page(data, text(story))


def filled_page(data: Mapping[str, Any], as_text: str) -> str:
    """Return the page of any run made of steps, messages and logs, as `page.html` draws them."""
    # "</" would end the script, whatever surrounds it.
    written = json.dumps(data, ensure_ascii=False).replace("</", "<\\/")
    named = html.escape(data["title"])
    parts = {"TITLE": named, "TEXT": html.escape(as_text), "DATA": written}
    template = TEMPLATE.read_text(encoding="utf-8")
    return re.sub("@([A-Z]+)@", lambda mark: parts[mark[1]], template)


def page_of(trace: Trace, title: str = "", model: Model | None = None) -> str:
    """Return the page of a trace, which is replayed first. Raises as `replay`."""
    model = model_of(trace.header) if model is None else model
    return page(tell(model, trace.header, trace.steps, replay(trace, model)), title)
