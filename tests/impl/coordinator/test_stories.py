"""Stories of a coordinator: plain text in, golden text out.

A story is a file of blocks: a command, `----`, and what the coordinator then wants done or says.
Nothing happens by itself: `log` answers the oldest append, `marker` the leader of a partition.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from impl.coordinator.config import TransactionConfig
from impl.coordinator.effects import AppendRecords, Effect, SendAnswer
from impl.coordinator.log_records import decode_value
from impl.coordinator.metadata import TopicPartition
from impl.coordinator.states import TransactionState
from impl.protocol.errors import ErrorCode
from impl.protocol.record_batch import ProducerIdAndEpoch
from tests.impl.coordinator.world import World

STORIES = sorted(Path(__file__).with_name("stories").glob("*.txt"))


def parse(story: str) -> list[tuple[str, str]]:
    """Commands and what they print."""
    blocks = [block.strip() for block in story.split("\n\n") if block.strip()]
    pairs = [block.partition("\n----") for block in blocks if not block.startswith("#")]
    return [(command, printed.strip()) for command, _, printed in pairs]


def name_of(who: ProducerIdAndEpoch) -> str:
    return f"{who.producer_id}/{who.producer_epoch}"


class Teller:
    """Carries out commands on a coordinator of which nothing is done unasked."""

    def __init__(self) -> None:
        self.world = World()
        self.world.holds_appends = self.world.holds_markers = True

    def tell(self, command: str) -> str:
        """What the command makes the coordinator want or say, one line each."""
        verb, *words = command.split()
        tale: Callable[..., Iterable[Effect]] = getattr(self, f"do_{verb}")
        lines = [line for effect in tale(*words) for line in self.show(effect)]
        return "\n".join(lines) or "nothing"

    def show(self, effect: Effect) -> Iterable[str]:
        """An effect in words; appends and markers are kept for later commands."""
        if isinstance(effect, SendAnswer):
            has_id = effect.producer.producer_id >= 0
            who = f" {name_of(effect.producer)}" if has_id else ""
            yield f"answer {effect.request}: {effect.error.name}{who}"
        elif isinstance(effect, AppendRecords):
            self.world.held_appends.append(effect)
            for name, (_, value) in zip(effect.transactional_ids, effect.records, strict=True):
                if value is None:
                    yield f"append {name}: tombstone"
                    continue
                image = decode_value(value)
                places = " ".join(f"{t}-{p}" for t, p in sorted(image.partitions))
                state = f"{image.state.title} {name_of(image.identity)}"
                yield f"append {name}: {state} {places}".rstrip()
        else:
            self.world.held_markers.append(effect)
            what = "COMMIT" if effect.commit else "ABORT"
            for topic, partition in sorted(effect.partitions):
                epoch = effect.coordinator_epoch
                yield f"marker {topic}-{partition}: {what} {name_of(effect.producer)} by {epoch}"

    # ---- commands

    def do_level(self, level: str) -> list[Effect]:
        self.world.config = TransactionConfig(transaction_version=int(level))
        self.world.start()
        return []

    def do_init(self, name: str, who: str = "") -> list[Effect]:
        expected = self.who(who) if who else None
        now_ms = self.world.now_ms
        return self.world.core.init_producer_id("init", name, 60_000, expected, now_ms)

    def do_add(self, name: str, who: str, *places: str) -> list[Effect]:
        version = 2 if places[-1] == "v2" else 0
        wanted = [self.place(place) for place in places if place != "v2"]
        return self.world.core.add_partitions(
            "add", name, self.who(who), wanted, version, self.world.now_ms
        )

    def do_end(self, name: str, who: str, outcome: str, version: str = "v1") -> list[Effect]:
        return self.world.core.end_txn(
            "end",
            name,
            self.who(who),
            outcome == "commit",
            2 if version == "v2" else 0,
            self.world.now_ms,
        )

    def do_log(self, error: str = "NONE") -> list[Effect]:
        """The oldest append is carried out, or fails and nothing is written."""
        return self._append(error, is_written=error == "NONE")

    def do_lie(self, error: str) -> list[Effect]:
        """The record is in the log, but its writer hears an error."""
        return self._append(error, is_written=True)

    def _append(self, error: str, *, is_written: bool) -> list[Effect]:
        append = self.world.held_appends.pop(0)
        if is_written:
            self.world.log.setdefault(append.partition, []).extend(append.records)
        return self.world.core.on_appended(append.token, ErrorCode[error], self.world.now_ms)

    def do_marker(self, place: str, error: str = "NONE") -> list[Effect]:
        errors = {self.place(place): ErrorCode[error]}
        sent = next(s for s in reversed(self.world.held_markers) if s.partitions >= errors.keys())
        return self.world.core.on_markers_written(sent, errors)

    def do_wait(self, ms: str) -> list[Effect]:
        self.world.now_ms += int(ms)
        core = self.world.core
        return core.abort_timed_out(self.world.now_ms) + core.remove_expired(self.world.now_ms)

    def do_retry(self) -> list[Effect]:
        return self.world.core.retry()

    def do_failover(self) -> list[Effect]:
        """The next coordinator loads what the log has; what was under way is forgotten."""
        world = self.world
        world.coordinator_epoch += 1
        world.held_appends, world.held_markers = [], []
        effects: list[Effect] = []
        for partition in range(world.config.num_partitions):
            world.core.elect(partition, world.coordinator_epoch)
            records = world.log.get(partition, [])
            effects += world.core.load(partition, world.coordinator_epoch, records, world.now_ms)
        return effects

    def do_epoch(self, name: str, epoch: str) -> list[Effect]:
        """So many InitProducerIds later; the log has the last one."""
        self.world.load(replace(self.world.view(name).image, producer_epoch=int(epoch)), name)
        return []

    def who(self, text: str) -> ProducerIdAndEpoch:
        producer_id, epoch = text.split("/")
        return ProducerIdAndEpoch(int(producer_id), int(epoch))

    def place(self, text: str) -> TopicPartition:
        topic, partition = text.rsplit("-", 1)
        return TopicPartition(topic, int(partition))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_a_story(path: Path) -> None:
    teller = Teller()
    for command, wanted in parse(path.read_text()):
        assert (command, teller.tell(command)) == (command, wanted)
    for view in teller.world.core.view().transactions:
        assert view.image.state is not TransactionState.DEAD


def test_there_are_stories_and_a_changed_word_is_found() -> None:
    assert len(STORIES) >= 6
    command, wanted = parse(STORIES[0].read_text())[0]
    assert Teller().tell(command) == wanted
    assert Teller().tell(command.replace("T", "U")) != wanted
