"""A story as one page that needs nothing else: no network, no other file.

The page's text and style are `page.html`; this module fills in the story as JSON, and as text for
readers without scripts.
"""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

from proofs.lift.source import Model
from proofs.trace.format import Trace
from proofs.trace.pictures import text, told
from proofs.trace.replay import model_of, replay
from proofs.trace.story import Story, StoryEvent, StoryMessage, tell

TEMPLATE = Path(__file__).with_name("page.html")


def move_json(move: StoryMessage) -> dict[str, Any]:
    """A message's move as the page draws it; `from` and `to` are lanes."""
    producer, partition = f"producer {move.link[0]}", f"partition {move.link[1]}"
    ends = (partition, producer) if move.is_answer else (producer, partition)
    return {
        "kind": move.kind.name,
        "number": move.number,
        "from": ends[0],
        "to": ends[1],
        "message": move.message,
        "error": move.value.get("error", ""),
        "answer": move.is_answer,
    }


def event_json(event: StoryEvent) -> dict[str, Any]:
    """One step as the page shows it."""
    return {
        "number": event.number,
        "rule": event.label,
        "lanes": list(event.lanes),
        "told": list(told(event)),
        "moves": [move_json(move) for move in event.moves],
        "changes": [[c.actor, c.place, c.what] for c in event.changes],
    }


def stored_json(offset: int, stored: dict[str, Any]) -> dict[str, Any]:
    """What stands in a log: a batch, or, in a world of single records, what is at one offset."""
    if "batch" in stored:
        return {"base_offset": stored["base_offset"], **stored["batch"]}
    return {"base_offset": offset, "record_count": 1, **stored}


def logs(world: Any) -> list[dict[str, Any]]:
    """The logs in one world: each batch with its offsets, and the high watermark."""
    return [
        {
            "partition": f"partition {key}",
            "high_watermark": leader.get("high_watermark", len(leader["log"])),
            "batches": [stored_json(i, stored) for i, stored in enumerate(leader["log"])],
        }
        for key, leader in world.get("leaders", {}).items()
    ]


def page(story: Story, title: str = "") -> str:
    """The page."""
    header = story.header
    named = title or f"{header.scope}, {len(story.events)} steps"
    data = {
        "title": named,
        "scope": header.scope,
        "variant": header.variant,
        "seed": header.seed,
        "system": header.system,
        "patches": [list(patch) for patch in header.patches],
        "lanes": list(story.lanes),
        "events": [event_json(event) for event in story.events],
        "logs": [logs(world) for world in story.worlds],
    }
    # "</" would end the script, whatever stands around it.
    written = json.dumps(data, ensure_ascii=False).replace("</", "<\\/")
    parts = {"TITLE": html.escape(named), "TEXT": html.escape(text(story)), "DATA": written}
    template = TEMPLATE.read_text(encoding="utf-8")
    return re.sub("@([A-Z]+)@", lambda mark: parts[mark[1]], template)


def page_of(trace: Trace, title: str = "", model: Model | None = None) -> str:
    """The page of a trace, which is replayed first. Raises as `replay`."""
    model = model_of(trace.header) if model is None else model
    return page(tell(model, trace.header, trace.steps, replay(trace, model)), title)
