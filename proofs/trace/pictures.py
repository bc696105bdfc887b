"""Prints a story as text, and as a Mermaid sequence diagram."""

from __future__ import annotations

from collections.abc import Iterator

from proofs.trace.messages import (
    HAPPENS_TO_MESSAGES,
    SETS_OUT,
    MessageFate,
    MessageMove,
    message_text,
)
from proofs.trace.story import Story, StoryEvent

SENTENCES = {
    MessageFate.SENT: "{sender} sends #{number} {message}{to}",
    MessageFate.DELIVERED: "{receiver} handles #{number}",
    MessageFate.DELIVERED_LATE: "{receiver} handles late #{number}",
    MessageFate.ANSWERED: "{sender} answers #{number} {message}",
    MessageFate.RECEIVED: "{receiver} hears #{number}",
    MessageFate.LOST: "#{number} is lost",
    MessageFate.DELAYED: "#{number} will still arrive",
}

INDENT = " " * 7


def sentence(move: MessageMove) -> str:
    """Return a move of a message as a sentence."""
    message = move.message
    return SENTENCES[move.kind].format(
        sender=message.sender,
        receiver=message.receiver,
        number=message.number,
        message=message_text(message.value),
        to=f" to {message.receiver}" if message.receiver else "",
    )


def moves_between(event: StoryEvent) -> list[MessageMove]:
    """Return the moves of messages that are on their way before or after the step, or are lost in
    it."""
    return [move for move in event.moves if not move.is_within]


def describe_event(event: StoryEvent) -> Iterator[str]:
    """Yield an event's sentences: the one of its rule, unless its messages tell the event."""
    if not event.is_told_by_messages:
        yield f"{', '.join(event.lanes)}: {event.doc}" if event.lanes else event.doc
    yield from map(sentence, moves_between(event))


def text(story: Story, *, with_changes: bool = True) -> str:
    """Return the story as a numbered paragraph for each step, followed by the step's changes."""
    header = story.header
    lines = [f"{header.scope}, {header.variant}"]
    lines += [
        f"patched in {function}: {before}  =>  {after}"
        for function, before, after in header.patches
    ]
    for event in story.events:
        if event.number - 1 == header.loop:
            lines.append("for ever:")
        first, *others = describe_event(event)
        lines.append(f"{event.number:4}.  {first}")
        lines += [f"{INDENT}{other}" for other in others]
        if with_changes:
            lines += [f"{INDENT}  {c.actor}  {c.place}: {c.what}" for c in event.changes]
    if header.differs:
        lines.append(f"{header.system} differs there; what stands above is the model's:")
        for place, expected, observed in header.differs:
            lines += [f"{INDENT}{place}", f"{INDENT}  the model  {expected}"]
            lines.append(f"{INDENT}  observed   {observed}")
    if header.loop == len(story.events):
        lines.append("and nothing happens any more")
    lines += [breach.sentence for breach in story.breaches]
    return "\n".join(lines) + "\n"


# Mermaid


def lane_id(name: str) -> str:
    """Return `producer 0` as an identifier."""
    return name.replace(" ", "")


def mermaid_move(move: MessageMove) -> str:
    """Return one line for a move: an arrow where a message sets out, a note where it ends."""
    message = move.message
    sender, receiver = lane_id(message.sender), lane_id(message.receiver or message.sender)
    if move.kind in SETS_OUT:
        arrow = "-)" if move.kind is MessageFate.SENT else "--)"
        content = message_text(message.value).replace(";", ",")
        return f"{sender}{arrow}{receiver}: #35;{message.number} {content}"
    if move.kind in HAPPENS_TO_MESSAGES:
        over = ",".join(dict.fromkeys((sender, receiver)))
        return f"Note over {over}: {sentence(move).replace('#', '#35;')}"
    happens = sentence(move).removeprefix(f"{message.receiver} ").replace("#", "#35;")
    return f"Note over {receiver}: {happens}"


def mermaid(story: Story) -> str:
    """Return the story as a Mermaid sequence diagram."""
    lines = ["sequenceDiagram"]
    lines += [f"    participant {lane_id(lane)} as {lane}" for lane in story.lanes]
    for event in story.events:
        moves = [mermaid_move(move) for move in event.moves]
        if event.lanes and not event.is_told_by_messages:
            over = ",".join(map(lane_id, dict.fromkeys((event.lanes[0], event.lanes[-1]))))
            moves.insert(0, f"Note over {over}: {event.doc.replace(';', ',')}")
        lines += [f"    {line}" for line in moves]
    return "\n".join(lines) + "\n"
