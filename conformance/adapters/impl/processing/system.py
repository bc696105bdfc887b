"""`impl` as a processing group: its nodes, its members, and how each event acts on them.

1. The output, the group, and the coordinator of each transactional id are on separate nodes. A
   coordinator leads two partitions of its log; the second is empty, and is loaded last.
2. An event of the model is an action of its application, with all requests that it sends, answered.
3. Time passes where the model says so. A transaction exceeds its time-out by 1 ms, and not before.
4. When a member crashes, the coordinators fail over, too. The new ones read their logs, unless
   markers are under way: those would be sent twice.

Theory of operation: each event of `model.processing.world` has a method with its name. `view` shows
the state after it. Methods do not check the model's guards: a trace has passed them already.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any, Final

from conformance.adapters.impl.processing.member import OUTPUT, Process, UnansweredCall, read_value
from conformance.adapters.impl.processing.membership import GROUP, ProcessingGroup
from conformance.adapters.impl.processing.shapes import INPUT
from conformance.adapters.impl.shared.nodes import Nodes
from conformance.adapters.impl.transactions.system import numbers, of_release
from conformance.judging.system import NotApplicable, View
from impl import ApiKey, ErrorCode, LogConfig, ProducerError, TransactionConfig, decode_batch
from impl.client.arguments import GroupMetadata
from impl.coordinator.config import CONFIGS
from impl.coordinator.group_config import GroupConfig, OffsetsConfig
from impl.coordinator.metadata import TransactionImage
from impl.coordinator.offsets_state import GroupOffsets
from impl.coordinator.placement import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, partition_for
from impl.coordinator.states import TransactionState
from impl.partition.consuming import committed_batches
from impl.partition.reading import read
from impl.partition.rules import RULES
from impl.protocol.control_records import ControlType, read_marker
from impl.protocol.fields import Isolation
from impl.protocol.record_batch import TRANSACTIONAL, RecordBatch, decode_batches
from model.releases import NEWEST

_S = TransactionState

LOGS_A_NODE: Final = 2
MAX_BYTES: Final = 2**20
FETCH_VERSION: Final = 8
COMMIT_VERSION: Final = 9
INIT_VERSION: Final = 5
TIMEOUT_MS: Final = 60_000

PROGRESS: Final[Mapping[TransactionState, str]] = {
    _S.ONGOING: "OPEN",
    _S.PREPARE_COMMIT: "COMMITS",
    _S.PREPARE_ABORT: "ABORTS",
}
FATES: Final[Mapping[str, str]] = {"OPEN": "PENDING", "COMMITS": "COMMITTED", "ABORTS": "ABORTED"}
KINDS: Final = {ControlType.COMMIT: "COMMITTED", ControlType.ABORT: "ABORTED"}

AT_ONCE: Final = ErrorCode.CONCURRENT_TRANSACTIONS
"""The error of InitProducerId while it aborts an open transaction."""


class AnswerMismatch(AssertionError):
    """A request was not answered as its step needs."""


class ImplProcessing:
    """Members, and the nodes that they talk to, in one configuration."""

    def __init__(self, k: Any) -> None:
        self._k = k
        variant, count = k.variant, k.bounds.members
        self._is_transactional = variant.processing.name == "TRANSACTION"
        self._is_of_member = variant.transactional_ids.name == "OF_MEMBER"
        self._names_member = variant.generation_check.name == "CHECKED"
        self._requires_stable = variant.offset_reads.name == "STABLE"
        self._ids = count if self._is_of_member else 1
        self._group_node, self._data_node = self._ids + 1, self._ids + 2
        refuse(variant.release)
        transactions = replace(
            of_release(CONFIGS, variant.release),
            num_partitions=self._ids * LOGS_A_NODE,
            abort_timed_out_interval_ms=1,
        )
        self._config = node_config(transactions, of_release(RULES, variant.release))
        self._is_v2 = transactions.bumps_epoch
        self.reset()

    def reset(self) -> None:
        """No process is up, and no record is processed."""
        members = self._k.bounds.members
        nodes = self._nodes = Nodes(self._config, self._data_node)
        nodes.create(TRANSACTION_STATE_TOPIC, [*range(1, self._ids + 1)] * LOGS_A_NODE)
        nodes.create(OFFSETS_TOPIC, [self._group_node] * LOGS_A_NODE)
        nodes.create(OUTPUT, [self._data_node])
        for name in dict.fromkeys(topic for topic, _ in INPUT):
            nodes.create(name, [self._data_node] * 2)
        for node_id in nodes.by_id:
            nodes.advance(node_id)
        self._membership = ProcessingGroup(nodes, self._group_node, members)
        self._processes: list[Process | None] = [None] * members
        self._identities = [GroupMetadata(GROUP)] * members
        self._phases = ["DOWN"] * members
        self._positions = [-1] * members
        self._owners = [-1] * self._ids

    # ---- nodes and coordinators

    def _id_of(self, member: int) -> int:
        return member if self._is_of_member else 0

    def _coordinator_of(self, member: int) -> int:
        """The node that coordinates the member's transactional id."""
        return self._id_of(member) + 1

    def _process(self, member: int) -> Process:
        process = self._processes[member]
        assert process is not None, "it is up"
        return process

    def _new_process(self, member: int) -> Process:
        name = transactional_id(self._id_of(member), self._ids)
        process = Process(
            self._nodes,
            name if self._is_transactional else None,
            is_v2=self._is_v2,
            member=member,
            leads_output=self._data_node,
        )
        self._processes[member] = process
        return process

    # ---- members

    def member_starts(self, member: int) -> None:
        """A member with an id of its own calls `initTransactions`."""
        self._membership.start(member)
        process = self._new_process(member)
        if self._is_transactional and self._is_of_member:
            process.initialize()
        self._phases[member] = "UP"

    def start_aborts(self, member: int) -> None:
        """InitProducerId of a process that starts."""
        self._ask_producer_id(member)

    def owner_fences(self, member: int, other: int) -> None:
        """InitProducerId of the member to which the input has been assigned."""
        self._ask_producer_id(member)

    def _ask_producer_id(self, member: int) -> None:
        body = {
            "transactional_id": transactional_id(self._id_of(member), self._ids),
            "transaction_timeout_ms": TIMEOUT_MS,
        }
        node_id = self._coordinator_of(member)
        answer = self._nodes.ask(node_id, ApiKey.INIT_PRODUCER_ID, INIT_VERSION, body)
        expect(answer["error_code"], AT_ONCE)

    def member_joins(self, member: int) -> None:
        """The group assigns the input to the member."""
        self._identities[member] = self._membership.join(member)
        self._phases[member], self._positions[member] = "ASSIGNED", -1

    def offset_is_fetched(self, member: int) -> None:
        """OffsetFetch; before it `initTransactions`, if the transactional id belongs to the input's
        owner."""
        if self._is_transactional and not self._is_of_member:
            self._new_process(member).initialize()
        offsets = self._fetch_offsets()
        if len(set(offsets)) != 1:
            raise AnswerMismatch(f"OffsetFetch says {offsets}")
        self._phases[member], self._positions[member] = "READY", max(offsets[0], 0)

    def _fetch_offsets(self) -> list[int]:
        """The answer of OffsetFetch for each row. Raises AnswerMismatch."""
        topics: dict[str, list[int]] = {}
        for name, index in INPUT:
            topics.setdefault(name, []).append(index)
        asked = [{"name": name, "partition_indexes": rows} for name, rows in topics.items()]
        body = {
            "groups": [{"group_id": GROUP, "topics": asked}],
            "require_stable": self._requires_stable,
        }
        answer = self._nodes.ask(self._group_node, ApiKey.OFFSET_FETCH, FETCH_VERSION, body)
        [group] = answer["groups"]
        rows = [row for topic in group["topics"] for row in topic["partitions"]]
        for row in (group, *rows):
            expect(row["error_code"], ErrorCode.NONE)
        return [row["committed_offset"] for row in rows]

    def record_is_produced(self, member: int) -> None:
        """Produce."""
        self._process(member).produce(self._positions[member])
        self._owners[self._id_of(member)] = member
        if self._phases[member] == "OFFSET_SENT":
            self._finish_record(member)
        else:
            self._phases[member] = "PRODUCED"

    def _finish_record(self, member: int) -> None:
        self._phases[member] = "READY"
        self._positions[member] += 1

    def offset_is_committed(self, member: int) -> None:
        """TxnOffsetCommit, or OffsetCommit. After an error the application aborts, and rejoins."""
        offset = self._positions[member] + 1
        if self._is_transactional:
            is_committed = self._commit_in_transaction(member, offset)
        else:
            is_committed = self._commit_plainly(member, offset)
        if not is_committed:
            self._phases[member], self._positions[member] = "UP", -1
        elif self._phases[member] == "PRODUCED" and not self._is_transactional:
            self._finish_record(member)
        else:
            self._phases[member] = "OFFSET_SENT"

    def _commit_in_transaction(self, member: int, offset: int) -> bool:
        identity = self._identities[member] if self._names_member else GroupMetadata(GROUP)
        process = self._process(member)
        try:
            process.commit_offset(offset, identity)
        except ProducerError:
            process.abort()
            return False
        return True

    def _commit_plainly(self, member: int, offset: int) -> bool:
        """Commit without a transaction. All rows have the same answer: the group's decision on the
        member."""
        _, generation_id, member_id, instance_id = self._identities[member]
        row = {"committed_offset": offset, "committed_metadata": str(member)}
        body = {
            "group_id": GROUP,
            "generation_id_or_member_epoch": generation_id,
            "member_id": member_id,
            "group_instance_id": instance_id,
            "topics": [
                {"name": name, "partitions": [{"partition_index": index, **row}]}
                for name, index in INPUT
            ],
        }
        answer = self._nodes.ask(self._group_node, ApiKey.OFFSET_COMMIT, COMMIT_VERSION, body)
        rows = [row for topic in answer["topics"] for row in topic["partitions"]]
        errors = {ErrorCode(row["error_code"]) for row in rows}
        if len(errors) != 1:
            raise AnswerMismatch(f"OffsetCommit says {sorted(error.name for error in errors)}")
        return errors == {ErrorCode.NONE}

    def transaction_is_committed(self, member: int) -> None:
        """EndTxn."""
        self._process(member).commit()
        self._finish_record(member)

    def member_is_told(self, member: int) -> None:
        """The member's next request tells it that its producer is fenced. While markers are under
        way, the answer only asks it to retry, without an end. If the member has no next request,
        its transactional id has another owner. Raises AnswerMismatch."""
        process, phase = self._processes[member], self._phases[member]
        if process is not None and phase in ASKS:
            is_busy = self._progress_of(self._id_of(member)) != "NONE"
            try:
                ASKS[phase](process, self._positions[member])
            except ProducerError:
                self._end_fenced(process, is_busy=is_busy)
            except UnansweredCall:
                expect_busy(is_busy)
            else:
                raise AnswerMismatch(f"member {member} is not fenced")
        self._stop(member)

    def _end_fenced(self, process: Process, *, is_busy: bool) -> None:
        """An application that may abort does so, and learns then that it is fenced. Raises
        AnswerMismatch."""
        if not process.is_dead:
            with suppress(ProducerError):
                try:
                    process.abort()
                except UnansweredCall:
                    expect_busy(is_busy)
                    return
        if not process.is_dead:
            raise AnswerMismatch("a fenced producer may go on")

    def member_crashes(self, member: int) -> None:
        """The process ends; see rule 4."""
        self._stop(member)
        self._nodes.elect(OFFSETS_TOPIC)
        if all(self._progress_of(number) in ("NONE", "OPEN") for number in range(self._ids)):
            self._nodes.elect(TRANSACTION_STATE_TOPIC)

    def _stop(self, member: int) -> None:
        self._membership.stop(member)
        self._processes[member] = None
        self._phases[member], self._positions[member] = "DOWN", -1

    # ---- transactions

    def transaction_times_out(self, member: int) -> None:
        """Time passes at the coordinator. Raises AnswerMismatch if it aborts too early."""
        node_id = self._coordinator_of(member)
        image = self._image_of(self._id_of(member))
        assert image is not None, "it is open"
        self._nodes.clocks_ms[node_id] = image.start_timestamp_ms + image.transaction_timeout_ms
        self._nodes.advance(node_id)
        if self._progress_of(self._id_of(member)) != "OPEN":
            raise AnswerMismatch("the transaction was aborted before its time-out")
        self._nodes.clocks_ms[node_id] += 1
        self._nodes.advance(node_id)

    def group_gets_marker(self, member: int) -> None:
        """All markers of the transaction arrive, the group's last."""
        source = self._coordinator_of(member)
        self._nodes.deliver_markers(source, (self._data_node, self._group_node))

    # ---- the observable state

    def view(self) -> View:
        """The state of nodes and members, shaped as WORLD."""
        members = tuple(zip(self._phases, self._positions, strict=True))
        offsets = self._group_offsets()
        return (
            members,
            self._membership.refusals(),
            self._fetched(require_stable=False),
            self._stable(),
            self._pending(offsets),
            self._output(),
            self._progress(),
            self._read_committed(),
        )

    def _image_of(self, number: int) -> TransactionImage | None:
        name = transactional_id(number, self._ids)
        rows = self._nodes.by_id[number + 1].coordinators.transactions.view().transactions
        return next((row.image for row in rows if row.transactional_id == name), None)

    def _progress_of(self, number: int) -> str:
        image = self._image_of(number)
        return "NONE" if image is None else PROGRESS.get(image.state, "NONE")

    def _progress(self) -> tuple[str, ...]:
        """The progress by member: whoever owns an id owns its open transaction."""
        found = ["NONE"] * self._k.bounds.members
        for number, owner in enumerate(self._owners):
            if self._is_transactional and owner >= 0:
                found[owner] = self._progress_of(number)
        return tuple(found)

    def _group_offsets(self) -> GroupOffsets:
        offsets = self._nodes.by_id[self._group_node].coordinators.offsets
        found = offsets.find(GROUP, may_be_empty=False)
        assert isinstance(found, GroupOffsets), "it is loaded"
        return found

    def _fetched(self, *, require_stable: bool) -> tuple[int | str, ...]:
        """The answer of OffsetFetch, row by row; 0 where no offset is committed yet."""
        offsets = self._nodes.by_id[self._group_node].coordinators.offsets
        rows = offsets.fetch(GROUP, INPUT, require_stable=require_stable).rows
        return tuple([row.error.name if row.error else max(row.offset, 0) for row in rows])

    def _stable(self) -> int | str | tuple[int | str, ...]:
        rows = self._fetched(require_stable=True)
        return rows[0] if len(set(rows)) == 1 else rows

    def _pending(self, offsets: GroupOffsets) -> View:
        """By member, the offset of each row that is pending in its transaction."""
        found: list[View] = [()] * self._k.bounds.members
        for waiting in offsets.pending.values():
            by_row = {(key.topic, key.partition): value for key, value in waiting.items()}
            for value in waiting.values():
                rows = (by_row.get(row) for row in INPUT)
                found[int(value.metadata)] = tuple(row.offset if row else -1 for row in rows)
        return tuple(found)

    def _output(self) -> View:
        """The records of the output, each with its decision: by a marker after it, or by the
        coordinator of its transaction."""
        decided: dict[int, str] = {}
        found = []
        progress = self._progress()
        for stored in reversed(self._nodes.leader(OUTPUT).batches):
            batch = decode_batch(stored.data)
            if batch.is_control:
                decided[batch.producer_id] = kind_of(batch)
                continue
            for record in reversed(batch.records):
                offset, member = read_value(record.value)
                fate = decided.get(batch.producer_id) or FATES.get(progress[member], "NONE")
                is_plain = not batch.attributes & TRANSACTIONAL
                found.append((offset, member, "COMMITTED" if is_plain else fate))
        return tuple(reversed(found))

    def _read_committed(self) -> View:
        log = self._nodes.leader(OUTPUT).log
        fetched = read(log, 0, MAX_BYTES, at_least_one=True, isolation=Isolation.READ_COMMITTED)
        aborted = [(told.producer_id, told.first_offset) for told in fetched.aborted_transactions]
        batches = committed_batches(decode_batches(fetched.records), aborted)
        return tuple([read_value(record.value) for batch in batches for record in batch.records])


ASKS: Final[Mapping[str, Any]] = {
    "READY": lambda process, offset: process.produce(offset),
    "PRODUCED": lambda process, offset: process.commit_offset(offset + 1, GroupMetadata(GROUP)),
    "OFFSET_SENT": lambda process, offset: process.commit(),
}
"""The next request of a process that does not know that it is fenced, by its phase."""


def refuse(release: str) -> None:
    """Raises NotApplicable for a release whose rules `impl` does not have."""
    oldest = min(RULES, key=numbers)
    if numbers(release) < numbers(oldest):
        raise NotApplicable(
            f"impl has the rules of releases from {oldest} on; write {NEWEST}/RULE=VALUE for an"
            f" application as of {release}"
        )


def expect_busy(is_busy: bool) -> None:
    """Raises AnswerMismatch if a call should have ended."""
    if not is_busy:
        raise AnswerMismatch("a fenced producer asks without an end")


def expect(code: int, error: ErrorCode) -> None:
    """Raises AnswerMismatch if the answer has another error."""
    if code != error:
        raise AnswerMismatch(f"{ErrorCode.of(code).name} instead of {error.name}")


def kind_of(batch: RecordBatch) -> str:
    """The decision in a marker."""
    marker = read_marker(batch.records[0])
    return "NONE" if marker is None else KINDS[ControlType(marker.control_type)]


@cache
def transactional_id(number: int, ids: int) -> str:
    """A transactional id for this number, chosen so that it is placed in the partition of this
    number."""
    names = (f"x{number}-{i}" for i in range(1_000))
    return next(name for name in names if partition_for(name, ids * LOGS_A_NODE) == number)


def node_config(transactions: TransactionConfig, rules: Any) -> dict[str, Any]:
    """The settings of all nodes."""
    return {
        "log": LogConfig(rules=rules),
        "transactions": transactions,
        "offsets": OffsetsConfig(num_partitions=LOGS_A_NODE),
        "groups": GroupConfig(initial_rebalance_delay_ms=0),
    }
