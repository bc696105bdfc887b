"""Error codes of the wire, and the named errors of the codec.

Three rules:

1. An error number of a message is an `ErrorCode`; bytes that cannot be decoded or encoded raise.
2. Every exception says where (a byte offset, or a field's path) and what to do.
3. Whether a client may retry is a column of the table below, and nowhere else.

Theory of operation: `DecodeError` is for received bytes, `EncodeError` for the caller's values.
Both are `ProtocolError`. The codec raises nothing else: a truncated or corrupted frame is one of
these errors, never an `IndexError`.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import ClassVar


class Retry(Enum):
    """What a client may do after an error: Java's exception classes, as one column.

    Source: `Errors` and `RetriableException`, `InvalidMetadataException` of the Java client.
    """

    NEVER = "never"
    RETRY = "retry"
    REFRESH_THEN_RETRY = "refresh metadata, then retry"


_R = Retry.RETRY
_RM = Retry.REFRESH_THEN_RETRY


class ErrorCode(IntEnum):
    """Kafka's error numbers (int16 on the wire), each with its retry class. Source: `Errors`."""

    retry: Retry

    def __new__(cls, number: int, retry: Retry = Retry.NEVER) -> ErrorCode:
        """Attach the retry class to the number."""
        member = int.__new__(cls, number)
        member._value_ = number
        member.retry = retry
        return member

    @classmethod
    def of(cls, number: int) -> ErrorCode:
        """The error with this number; an unknown one is UNKNOWN_SERVER_ERROR.

        `Errors.forCode`.
        """
        return _BY_NUMBER.get(number, cls.UNKNOWN_SERVER_ERROR)

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2, _R
    UNKNOWN_TOPIC_OR_PARTITION = 3, _RM
    LEADER_NOT_AVAILABLE = 5, _RM
    NOT_LEADER_OR_FOLLOWER = 6, _RM
    REQUEST_TIMED_OUT = 7, _R
    REPLICA_NOT_AVAILABLE = 9, _RM
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13, _RM
    COORDINATOR_LOAD_IN_PROGRESS = 14, _R
    COORDINATOR_NOT_AVAILABLE = 15, _R
    NOT_COORDINATOR = 16, _R
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19, _R
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, _R
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51, _R
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56, _RM
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70, _R
    INVALID_FETCH_SESSION_EPOCH = 71, _R
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74, _RM
    UNKNOWN_LEADER_EPOCH = 75, _R
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80, _RM
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, _RM
    ELECTION_NOT_NEEDED = 84, _RM
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88, _R
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INVALID_UPDATE_VERSION = 95
    UNKNOWN_TOPIC_ID = 100, _RM
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103, _RM
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106, _R
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    TRANSACTION_ABORTABLE = 120
    INVALID_REGULAR_EXPRESSION = 128

    @property
    def is_retriable(self) -> bool:
        """Whether a client retries by itself (`RetriableException`)."""
        return self.retry is not Retry.NEVER

    @property
    def refreshes_metadata(self) -> bool:
        """Whether a client asks for metadata before it retries (`InvalidMetadataException`)."""
        return self.retry is Retry.REFRESH_THEN_RETRY


_BY_NUMBER = {int(error): error for error in ErrorCode}


class ProtocolError(ValueError):
    """Any refusal of the codec; `advice` says what to do."""

    advice: ClassVar[str] = "check the peer's version and the bytes it sent"


class DecodeError(ProtocolError):
    """Bytes that are not a Kafka message; `offset` is the byte where reading stopped."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(f"{problem} at byte {offset}; {self.advice}")
        self.problem = problem
        self.offset = offset


class TruncatedFrame(DecodeError):
    """The bytes end inside a field."""

    advice = "pass the whole frame, without its 4-byte size; else close the connection"


class TrailingBytes(DecodeError):
    """The message is complete but bytes follow."""

    advice = "pass one frame at a time and the version that the request named"


class InvalidLength(DecodeError):
    """A length or count below -1."""

    advice = "close the connection: the peer and this codec disagree on the schema"


class NullNotAllowed(DecodeError):
    """Null where the schema of this version has none."""

    advice = "close the connection, or speak a version in which the field is nullable"


class InvalidVarint(DecodeError):
    """A variable-length integer longer than its type."""

    advice = "close the connection: the peer and this codec disagree on the schema"


class InvalidText(DecodeError):
    """A string that is not UTF-8."""

    advice = "close the connection: Kafka strings are UTF-8"


class InvalidTags(DecodeError):
    """Tagged fields out of order, twice, or of another size than announced."""

    advice = "close the connection: tags ascend and each fills its size"


class FrameTooLarge(DecodeError):
    """A frame beyond `MAX_FRAME_BYTES`, or of negative size."""

    advice = "close the connection: the peer does not speak Kafka, or its batches are too large"


class UnknownApi(DecodeError):
    """An api key that the table of schemas does not have."""

    advice = "ask ApiVersions first and use what both sides list"

    def __init__(self, api_key: int, offset: int = 0) -> None:
        super().__init__(f"api key {api_key} is not in the table", offset)
        self.api_key = api_key


class UnsupportedVersion(DecodeError):
    """A version of a known API outside its range.

    `correlation_id` is the request's, for the answer to ApiVersions; -1 if it was not read.
    """

    advice = "ask ApiVersions first and use what both sides list"

    def __init__(
        self, api_key: int, api_version: int, supported: str, correlation_id: int = -1
    ) -> None:
        super().__init__(f"api key {api_key} has versions {supported}, not {api_version}", 2)
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id


class TruncatedBatch(DecodeError):
    """The bytes end inside a record batch."""

    advice = "read more bytes; a fetch may end inside a batch, a produce request may not"


class UnsupportedMagic(DecodeError):
    """A record batch of another format than v2."""

    advice = "let the client write magic 2 (Kafka 0.11 or later)"


class CrcMismatch(DecodeError):
    """The CRC-32C of a batch or a snapshot is not the one it carries."""

    advice = "the bytes were corrupted: fetch or send them again"


class InvalidBatch(DecodeError):
    """A record batch whose header contradicts itself."""

    advice = "drop the batch; no correct client writes it"


class InvalidRecord(DecodeError):
    """A record whose sizes do not fit its batch."""

    advice = "drop the batch; no correct client writes it"


class UnsupportedCompression(DecodeError):
    """An unsupported compression codec."""

    advice = "compress with gzip, snappy, lz4 or zstd, or send compression.type=none"


class CompressionNotInstalled(UnsupportedCompression):
    """A compression codec whose library is not installed."""

    advice = "pip install 'kafka-eos[compression]', or send compression.type=none"


class InvalidCompression(InvalidRecord):
    """A block of records that its codec cannot read."""

    advice = "drop the batch; no correct client writes it"


class DecompressedTooLarge(InvalidRecord):
    """A block of records beyond `MAX_DECOMPRESSED_BYTES`."""

    advice = "send smaller batches"


class CorruptSnapshot(DecodeError):
    """A producer snapshot that cannot be loaded. `ProducerStateManager.readSnapshot`."""

    advice = "delete this snapshot and use the next older one"


class UnknownRecordVersion(DecodeError):
    """A key or value of an internal topic in an unsupported version."""

    advice = "skip a key of a newer version; a value of one was written by a newer broker"


class EncodeError(ProtocolError):
    """A value that cannot be written; `path` names the field."""

    advice = "correct the value"

    def __init__(self, problem: str, path: str) -> None:
        super().__init__(f"{path}: {problem}; {self.advice}")
        self.problem = problem
        self.path = path


class MissingField(EncodeError):
    """A field without a default is absent."""

    advice = "give it a value: this version of the message writes it"


class InvalidField(EncodeError):
    """A field's value does not fit its type."""

    advice = "see the table of schemas for the type in this version"


class UnwritableBatch(EncodeError):
    """A batch that Kafka's writer refuses. `MemoryRecordsBuilder`, `DefaultRecordBatch`."""

    advice = "set producer id, epoch and sequence together; transactional needs a producer id"
