"""What adapters in Python share: the lines of `run --system client`, as calls of a client.

`serve(make)` reads a run a line and calls `make(settings, topic)`; of the client it calls what
`Client` names, in the order of the run, and writes what became of each record and transaction.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

GROUP, INPUT = "readers", "input"
"""The group, and the topic of its offsets (one partition, 0)."""

STARTS, BETWEEN_S = 5, 0.05
"""An application that cannot start its producer tries again."""

Told = Callable[[str], None]
"""Called once with `stored OFFSET` or `failed ERROR`."""


class Client(Protocol):
    """A producer; the methods of transactions are called if it has a `transactional.id`."""

    def send(self, partition: int, value: bytes, told: Told) -> None:
        """Hand a record over, and say later what became of it."""

    def pause(self, seconds: float) -> None:
        """Let time pass."""

    def begin(self) -> Any:
        """Begin a transaction."""

    def send_offset(self, offset: int) -> Any:
        """Add the offset of INPUT's partition 0 for GROUP to the transaction."""

    def commit(self) -> Any:
        """Commit the transaction."""

    def abort(self) -> Any:
        """Abort the transaction."""

    def close(self) -> Any:
        """Wait for what is on its way, and end."""


def serve(make: Callable[[Mapping[str, str], str], Client]) -> None:
    """Run after run, until the input ends."""
    for line in sys.stdin:
        run, bootstrap, topic, configs, words = line.split()
        settings = dict(pair.split("=", 1) for pair in configs.split(","))
        try:
            client = start(make, settings | {"bootstrap.servers": bootstrap}, topic)
            try:
                play(client, run, words.split(","))
            finally:
                client.close()
        except Exception as error:
            say(run, "broken", name_of(error))
        say(run, "closed")


def start(
    make: Callable[[Mapping[str, str], str], Client], settings: Mapping[str, str], topic: str
) -> Client:
    """A client that has started; what the last of STARTS raises."""
    for _ in range(STARTS - 1):
        try:
            return make(settings, topic)
        except Exception:
            time.sleep(BETWEEN_S)
    return make(settings, topic)


def twice(call: Callable[..., Any], *arguments: Any) -> Any:
    """Call it, and again if it raises: what went wrong meanwhile may be told but once, by whatever
    runs then, and by some clients with no Exception."""
    try:
        return call(*arguments)
    except:  # noqa: E722
        return call(*arguments)


def play(client: Client, run: str, words: Sequence[str]) -> None:
    """What an application does: after an error in a transaction it aborts, and where that fails it
    ends."""
    error: Exception | None = None
    has_transactions = words[0].startswith("begin:")
    for word in words:
        name, _, value = word.partition(":")
        is_end = name in ("commit", "abort")
        try:
            if is_end and not end(client, run, name, value, error):
                return
            error = None if is_end else error
            if not is_end and error is None:
                act(client, run, name, value)
        except Exception as raised:
            error = raised if has_transactions else None


def act(client: Client, run: str, name: str, value: str) -> None:
    """One word that is no end."""
    if name.startswith("+"):
        client.pause(int(name[1:]) / 1000)
    elif name == "begin":
        client.begin()
    elif name == "offsets":
        client.send_offset(int(value))
    else:
        send(client, run, int(name), value)


def send(client: Client, run: str, partition: int, number: str) -> None:
    """One record; one that the client does not take has failed."""

    def told(what: str) -> None:
        say(run, str(partition), number, one_word(what))

    try:
        client.send(partition, number.encode(), told)
    except Exception as error:
        told(f"failed {type(error).__name__}")
        raise


def end(client: Client, run: str, name: str, number: str, error: Exception | None) -> bool:
    """Commit, or abort; False where neither succeeds."""
    try:
        if name == "commit" and error is None:
            client.commit()
            say(run, "transaction", number, "committed")
            return True
    except Exception as raised:
        error = raised
    try:
        client.abort()
        say(run, "transaction", number, "aborted")
        return True
    except Exception as raised:
        say(run, "transaction", number, "failed", name_of(error or raised))
        return False


def one_word(told: str) -> str:
    """`stored OFFSET`, or `failed ERROR` with the error as one word."""
    what, _, rest = told.partition(" ")
    return f"{what} {'_'.join(rest.split())}"


def name_of(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__} {error}".replace("\n", " ")


def say(*words: str) -> None:
    """Write one line."""
    print(*words, flush=True)
