"""A story as text, and as a Mermaid sequence diagram."""

from __future__ import annotations

from collections.abc import Iterator

from proofs.trace.story import MessageFate, Story, StoryEvent, StoryMessage

SENTENCES = {
    MessageFate.SENT: "{producer} sends #{number} {message} to {partition}",
    MessageFate.DELIVERED: "{partition} handles #{number}",
    MessageFate.DELIVERED_LATE: "{partition} handles late #{number}; its answer is lost",
    MessageFate.ANSWERED: "{partition} answers #{number} {message}",
    MessageFate.RECEIVED: "{producer} hears #{number}",
    MessageFate.LOST: "#{number} is lost",
    MessageFate.CUT: "#{number} will still arrive",
}

INDENT = " " * 7


def sentence(move: StoryMessage) -> str:
    """A move of a message as a sentence."""
    producer, partition = move.link
    return SENTENCES[move.kind].format(
        producer=f"producer {producer}",
        partition=f"partition {partition}",
        number=move.number,
        message=move.message,
    )


def told(event: StoryEvent) -> Iterator[str]:
    """An event's sentences: of its messages, else what its rule says of itself."""
    moved = any(move.kind not in (MessageFate.LOST, MessageFate.CUT) for move in event.moves)
    if not moved:
        yield f"{', '.join(event.lanes)}: {event.doc}" if event.lanes else event.doc
    yield from (sentence(move) for move in event.moves)


def text(story: Story, *, with_changes: bool = True) -> str:
    """The story, a numbered paragraph a step; below each what it changed."""
    header = story.header
    lines = [f"{header.scope}, {header.variant}"]
    lines += [
        f"patched in {function}: {before}  =>  {after}"
        for function, before, after in header.patches
    ]
    for event in story.events:
        if event.number - 1 == header.loop:
            lines.append("for ever:")
        first, *others = told(event)
        lines.append(f"{event.number:4}.  {first}")
        lines += [f"{INDENT}{other}" for other in others]
        if with_changes:
            lines += [f"{INDENT}  {c.actor}  {c.place}: {c.what}" for c in event.changes]
    if header.loop == len(story.events):
        lines.append("and nothing happens any more")
    return "\n".join(lines) + "\n"


# Mermaid


def lane_id(name: str) -> str:
    """`producer 0` as an identifier."""
    return name.replace(" ", "")


def mermaid_move(move: StoryMessage) -> str:
    """One line for a move. An arrow is drawn where a message sets out, a note where it ends."""
    producer, partition = f"producer{move.link[0]}", f"partition{move.link[1]}"
    message = move.message.replace(";", ",")
    lines = {
        MessageFate.SENT: f"{producer}-){partition}: #35;{move.number} {message}",
        MessageFate.ANSWERED: f"{partition}--){producer}: #35;{move.number} {message}",
        MessageFate.DELIVERED: f"Note over {partition}: handles #35;{move.number}",
        MessageFate.DELIVERED_LATE: f"Note over {partition}: handles late #35;{move.number}",
        MessageFate.RECEIVED: f"Note over {producer}: hears #35;{move.number}",
        MessageFate.LOST: f"Note over {producer},{partition}: #35;{move.number} is lost",
        MessageFate.CUT: f"Note over {producer},{partition}: #35;{move.number} will still arrive",
    }
    return lines[move.kind]


def mermaid(story: Story) -> str:
    """The story as a Mermaid sequence diagram."""
    lines = ["sequenceDiagram"]
    lines += [f"    participant {lane_id(lane)} as {lane}" for lane in story.lanes]
    for event in story.events:
        moves = [mermaid_move(move) for move in event.moves]
        if (
            all(move.kind in (MessageFate.LOST, MessageFate.CUT) for move in event.moves)
            and event.lanes
        ):
            over = ",".join(map(lane_id, dict.fromkeys((event.lanes[0], event.lanes[-1]))))
            moves.insert(0, f"Note over {over}: {event.doc.replace(';', ',')}")
        lines += [f"    {line}" for line in moves]
    return "\n".join(lines) + "\n"
