"""Checks how a copy of a producer reacts to answers that no scope has.

1. In each state in which the producer sends something, a copy gets one error of the table. The
   state alone determines which error.
2. The table follows Kafka's client: a row for each error, a column for each API. Sources:
   `TransactionManager`'s handlers of 4.3.1, `Sender.completeBatch`.
3. Half of the copies of V1 have a cluster that gives no new epochs (before KIP-360). If Kafka's
   client would abort with a new epoch, it fails there.
   `TransactionManager.abortableErrorIfPossible`.
4. After a request that failed its transaction, batches that were queued before are still sent to
   the partitions that are in the transaction. AddPartitionsToTxnHandler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple
from zlib import crc32

from conformance.adapters.impl.transactions.messages import NONE, SOURCE, Body
from conformance.judging.system import View
from impl import ApiKey, ErrorCode, SendRequest


class AnswerOutcome(Enum):
    """The consequence of an answer."""

    RETRY = "R"
    ABORT = "A"
    DIE = "F"
    SUCCEED = "S"
    UNHEARD = "-"
    """No broker answers so, or Kafka's client does not expect the error."""


class Refused(NamedTuple):
    """`api` is that of the request of a client, -1 for none. `before` and `after` are its states
    before and after it receives the error; `then` is the API of its next request, -1 for none. The
    cluster gives new epochs only if it `bumps`."""

    api: int
    error: ErrorCode
    before: str
    after: str
    then: int
    bumps: bool = True


BUMPED_FOR: Final = (ErrorCode.UNKNOWN_PRODUCER_ID,)
"""The errors of coordinators after which an abort gets a new epoch, if the cluster gives one."""
NOTHING_SENT: Final = Refused(NONE, ErrorCode.NONE, "", "", NONE)

APIS: Final = (
    ApiKey.PRODUCE,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
)
ROWS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.TRANSACTION_ABORTABLE: "AAAAAA",
    ErrorCode.UNKNOWN_PRODUCER_ID: "RFAAFA",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "A-A---",
    ErrorCode.OPERATION_NOT_ATTEMPTED: "--A---",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "---AA-",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "S-----",
    ErrorCode.INVALID_TXN_STATE: "AFFFFF",
    ErrorCode.INVALID_PRODUCER_EPOCH: "AFFFFF",
    ErrorCode.PRODUCER_FENCED: "FFFFFF",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "RRRRRR",
    ErrorCode.FENCED_INSTANCE_ID: "----A-",
    ErrorCode.UNKNOWN_MEMBER_ID: "----A-",
    ErrorCode.ILLEGAL_GENERATION: "----A-",
}
"""In the row of UNKNOWN_PRODUCER_ID, the answer to Produce has no log start offset."""

OUTCOMES: Final[Mapping[ApiKey, Mapping[ErrorCode, AnswerOutcome]]] = {
    api_key: {
        error: AnswerOutcome(row[column])
        for error, row in ROWS.items()
        if row[column] != AnswerOutcome.UNHEARD.value
    }
    for column, api_key in enumerate(APIS)
}


def error_for(api: int, state: View) -> ErrorCode:
    """The error that answers the request of a client in this state."""
    errors = tuple(OUTCOMES[ApiKey(api)])
    return errors[crc32(repr(state).encode()) % len(errors)]


def bumps_for(state: View) -> bool:
    """Whether the cluster of a client in this state gives new epochs."""
    return bool(crc32(repr(state).encode()) >> 16 & 1)


def refusal(request: SendRequest, error: ErrorCode) -> Body:
    """The answer with the error, for each partition of the request. If several partitions are
    added, the first has another error, which fails the transaction without hiding this one."""
    asked = request.body
    if request.api_key == ApiKey.PRODUCE:
        row = {"error_code": error, "base_offset": -1, "log_append_time_ms": -1}
        return {
            "topics": [
                {
                    "name": topic["name"],
                    "partitions": [
                        {**row, "index": part["index"], "log_start_offset": -1}
                        for part in topic["partitions"]
                    ],
                }
                for topic in asked["topics"]
            ]
        }
    if request.api_key == ApiKey.ADD_PARTITIONS_TO_TXN:
        added = [
            {"name": topic["name"], "results_by_partition": added_rows(topic["partitions"], error)}
            for topic in asked["v3_and_below_topics"]
        ]
        return {"results_by_topic_v3_and_below": added}
    if request.api_key == ApiKey.TXN_OFFSET_COMMIT:
        topic, partition = SOURCE
        committed = [{"partition_index": partition, "error_code": error}]
        return {"topics": [{"name": topic, "partitions": committed}]}
    return {"error_code": error, "producer_id": NONE, "producer_epoch": NONE}


def added_rows(partitions: Sequence[int], error: ErrorCode) -> list[Body]:
    """The rows of AddPartitionsToTxn: the last partition has the error."""
    others = [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * (len(partitions) - 1)
    return [
        {"partition_index": index, "partition_error_code": code}
        for index, code in zip(partitions, [*others, error], strict=True)
    ]


def expected_after(refused: Refused, state: View) -> tuple[str, int | None]:
    """(the client's state, the API of its next request, or None for any). `state` is the state
    before."""
    api, error, before, _, _, bumps = refused
    how = OUTCOMES[ApiKey(api)][error]
    if not bumps and error in BUMPED_FOR and api != ApiKey.PRODUCE:
        how = AnswerOutcome.DIE
    if how is AnswerOutcome.DIE:
        return "FATAL_ERROR", NONE
    if how is AnswerOutcome.RETRY:
        return before, api if api in (ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN) else None
    if how is AnswerOutcome.SUCCEED:
        return before, None
    if before == "ABORTING":
        is_final = api == ApiKey.END_TXN and error is ErrorCode.TRANSACTION_ABORTABLE
        return ("FATAL_ERROR", NONE) if is_final else (before, None)
    if api == ApiKey.PRODUCE:
        return "ABORTABLE_ERROR", None
    sent = any(m == "IN" and (write == "SENT" or earlier) for m, write, earlier, _ in state[4])
    return "ABORTABLE_ERROR", ApiKey.PRODUCE if sent else NONE
