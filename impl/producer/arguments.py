"""What a call of the application may be given, and how it is told that it was given something else.

1. A bad argument is refused before anything has changed, and before anything is waited for.
2. What only the cluster can know is not judged here: it answers.

Theory of operation: each function raises `InvalidArgumentError`, whose message says which argument,
what it may be, and what it is. `size_upper_bound_bytes` in `batch` meets each record first; it asks
`bad_record` what was wrong only when something was.
Those of transactions are in `txn_arguments`. Source: `ProducerRecord`, `Topic.validate`.
"""

from __future__ import annotations

from typing import Final

from impl.producer.errors import InvalidArgumentError
from impl.settings import INT_MAX, LONG_MAX

MAX_TOPIC_BYTES: Final = 249
"""The longest name of a topic. `Topic.MAX_NAME_LENGTH`."""

_TOPIC: Final = f"must be a string of 1 to {MAX_TOPIC_BYTES} bytes in UTF-8"

BYTES: Final = (bytes, bytearray)
"""What keys and values may be."""


def check_topic(topic: object) -> None:
    """Whether a request can name such a topic. Raises `InvalidArgumentError`."""
    if not isinstance(topic, str):
        raise InvalidArgumentError("topic", _TOPIC, topic)
    try:
        size = len(topic.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= MAX_TOPIC_BYTES:
        raise InvalidArgumentError("topic", _TOPIC, topic)


def check_partition(partition: object) -> None:
    """Whether a request can name such a partition. Raises `InvalidArgumentError`."""
    check_integer("partition", partition, 0, INT_MAX)


def check_timestamp_ms(timestamp_ms: object) -> None:
    """Whether a record can have this timestamp. Raises `InvalidArgumentError`."""
    check_integer("timestamp_ms", timestamp_ms, 0, LONG_MAX)


def check_key_and_value(key: object, value: object) -> None:
    """Whether a record can have these. Raises `InvalidArgumentError`."""
    for name, content in (("key", key), ("value", value)):
        if content is not None and not isinstance(content, BYTES):
            raise InvalidArgumentError(name, "must be bytes or None: serialize it", content)


def bad_record(key: object, value: object, headers: object) -> InvalidArgumentError:
    """What is wrong with a record that has no size."""
    try:
        check_key_and_value(key, value)
    except InvalidArgumentError as error:
        return error
    return InvalidArgumentError("headers", "must be a sequence of (str, bytes or None)", headers)


def check_integer(name: str, value: object, least: int, greatest: int) -> None:
    """Whether the argument of this name is such a number. Raises `InvalidArgumentError`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= greatest:
        raise InvalidArgumentError(name, f"must be an integer from {least} to {greatest}", value)
