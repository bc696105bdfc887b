"""The settings of a producer: their ranges, and how they constrain each other.

1. A field of `ProducerConfig` has Kafka's name with underscores, a default and a range.
   `IDEMPOTENCE_REQUIREMENTS` lists what idempotence requires of other settings.
2. A requirement that is not met is an error if the user set enable_idempotence, and else switches
   idempotence off. Too many requests in flight are always an error (4.0).
3. `ProducerConfig.notes` lists what was adjusted; nothing is logged here.

Theory of operation: `ProducerConfig.of` takes only the settings that the user gave, because that
decides between error and adjustment. It checks each value, then idempotence
(`ProducerConfig.postProcessAndValidateIdempotenceConfigs`), then the delivery timeout
(`KafkaProducer.configureDeliveryTimeout`), and returns a frozen value. Release 4.3.1.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from typing import Any, Final, TypedDict

from impl.client.arguments import MAX_TEXT_BYTES
from impl.client.errors import UnknownSettingError
from impl.producer.errors import ConfigError
from impl.protocol.compression import Compression
from impl.settings import INT_MAX, LONG_MAX

MAX_IN_FLIGHT_WITH_IDEMPOTENCE = 5
"""As many batches as a leader remembers for one producer id and partition. KAFKA-5494."""

_ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting's default and its smallest and greatest value (`None`: not a number)."""

    default: object
    least: int | None = None
    greatest: int = INT_MAX


def _setting(default: object, least: int | None = None, greatest: int = INT_MAX) -> Any:
    return field(metadata={"setting": Setting(default, least, greatest)})


TRANSACTION_REQUESTS = ("auto", "v1", "v2")


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition that idempotence needs of a setting; with `always` a failure is an error."""

    setting: str
    holds: Callable[[Any], bool]
    reason: str
    always: bool = False


IDEMPOTENCE_REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement("retries", lambda retries: retries != 0, "idempotence needs retries"),
    Requirement("acks", lambda acks: acks == -1, "idempotence needs acks=all"),
    Requirement(
        "max_in_flight_requests_per_connection",
        lambda in_flight: in_flight <= MAX_IN_FLIGHT_WITH_IDEMPOTENCE,
        f"idempotence allows at most {MAX_IN_FLIGHT_WITH_IDEMPOTENCE}",
        always=True,
    ),
)
"""In the order of the checks. The last one fails even if an earlier one switches idempotence off:
the client of 4.0 does that only after all checks."""


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """Complete settings. Create them with `of`; sizes are bytes, times milliseconds."""

    acks: int = _setting("all")
    enable_idempotence: bool = _setting(True)
    transactional_id: str | None = _setting(None)
    client_id: str = _setting("")
    retries: int = _setting(INT_MAX, 0)
    max_in_flight_requests_per_connection: int = _setting(5, 1)
    linger_ms: int = _setting(5, 0, LONG_MAX)
    request_timeout_ms: int = _setting(30_000, 0)
    delivery_timeout_ms: int = _setting(120_000, 0)
    retry_backoff_ms: int = _setting(100, 0, LONG_MAX)
    retry_backoff_max_ms: int = _setting(1_000, 0, LONG_MAX)
    batch_size: int = _setting(16_384, 0)
    max_request_size: int = _setting(1_048_576, 0)
    buffer_memory: int = _setting(33_554_432, 0, LONG_MAX)
    max_block_ms: int = _setting(60_000, 0, LONG_MAX)
    metadata_max_age_ms: int = _setting(300_000, 1, LONG_MAX)
    compression_type: str | None = _setting(None)
    """Of whole batches, whose limit is their size before it."""
    transaction_timeout_ms: int = _setting(60_000, -(2**31))
    """Only the coordinator checks it."""
    unknown_topic_timeout_ms: int = _setting(5_000, 0, LONG_MAX)
    """How long a record waits for a topic or partition that the cluster says it does not have, and
    perhaps creates; not a setting of Kafka's, whose client waits for max_block_ms."""
    max_partitions: int = _setting(100_000, 1)
    """The limit on the partitions whose sequences a producer keeps; not a setting of Kafka's."""
    transaction_requests: str = _setting("auto")
    """"v1" or "v2", or "auto" for what the cluster supports; not a setting of Kafka's."""
    remember_groups: bool = _setting(False)
    """Send AddOffsetsToTxn once a group and transaction; Kafka's client repeats it with every
    `send_offsets_to_transaction`."""
    notes: tuple[str, ...] = ()

    @property
    def compression(self) -> Compression:
        """The codec of batches."""
        return Compression[(self.compression_type or "none").upper()]

    @classmethod
    def of(cls, **user: object) -> ProducerConfig:
        """The complete settings, given those of the user.

        Raises ConfigError, UnknownSettingError. Source: ProducerConfig (Kafka), KIP-679.
        """
        notes: list[str] = []
        values: dict[str, Any] = {name: setting.default for name, setting in SETTINGS.items()}
        values.update({name: _check_value(name, value) for name, value in user.items()})
        values["acks"] = _parse_acks(values["acks"])
        values["enable_idempotence"] = _idempotence(values, user, notes)
        values["delivery_timeout_ms"] = _delivery_timeout_ms(values, user, notes)
        values["client_id"] = values["client_id"] or _client_id(values["transactional_id"])
        return cls(**values, notes=tuple(notes))


class ProducerSettings(TypedDict, total=False):
    """The settings of a `Producer` by name, as type checkers and editors know them."""

    acks: int | str
    enable_idempotence: bool
    transactional_id: str | None
    client_id: str | None
    retries: int
    max_in_flight_requests_per_connection: int
    linger_ms: int
    request_timeout_ms: int
    delivery_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    batch_size: int
    max_batch_size: int
    max_request_size: int
    buffer_memory: int
    max_block_ms: int
    metadata_max_age_ms: int
    compression_type: str | None
    transaction_timeout_ms: int
    unknown_topic_timeout_ms: int
    max_partitions: int
    transaction_requests: str
    remember_groups: bool


OTHER_NAMES: Final = ("max_batch_size",)
"""Names that another client gives to a setting."""

SETTINGS: Mapping[str, Setting] = {
    setting.name: setting.metadata["setting"]
    for setting in fields(ProducerConfig)
    if setting.metadata
}


def _check_value(name: str, value: object) -> object:
    setting = SETTINGS.get(name)
    if setting is None:
        raise UnknownSettingError("Producer", name, [*SETTINGS, *OTHER_NAMES])
    if setting.least is not None:
        return _check_number(name, value, setting.least, setting.greatest)
    if name in ("enable_idempotence", "remember_groups") and not isinstance(value, bool):
        raise ConfigError(name, f"must be True or False, is {value!r}")
    if name == "transaction_requests" and value not in TRANSACTION_REQUESTS:
        raise ConfigError(name, f"must be one of {', '.join(TRANSACTION_REQUESTS)}, is {value!r}")
    if name == "compression_type":
        _check_compression(value)
    if name == "client_id" or (name == "transactional_id" and value is not None):
        _check_text(name, value)
    if name == "transactional_id" and value == "":
        raise ConfigError(name, f"must be a non-empty string, is {value!r}")
    return value


def _check_compression(value: object) -> None:
    known = [codec.name.lower() for codec in Compression]
    if value is not None and value not in known:
        raise ConfigError("compression_type", f"must be one of {', '.join(known)}, is {value!r}")
    if value not in (None, "none") and find_spec("cramjam") is None:
        raise ConfigError("compression_type", "needs a codec: pip install 'kafka-eos[compression]'")


def _check_text(name: str, value: object) -> None:
    """Check a string that is sent in requests."""
    if not isinstance(value, str):
        raise ConfigError(name, f"must be a string, is {value!r}")
    try:
        is_short = len(value.encode()) <= MAX_TEXT_BYTES
    except UnicodeEncodeError:
        is_short = False
    if not is_short:
        is_now = reprlib.repr(value)
        raise ConfigError(name, f"must have at most {MAX_TEXT_BYTES} bytes of UTF-8, is {is_now}")


def _check_number(name: str, value: object, least: int, greatest: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(name, f"must be an integer, is {value!r}")
    if not least <= value <= greatest:
        raise ConfigError(name, f"must be between {least} and {greatest}, is {value}")
    return value


def _parse_acks(value: object) -> int:
    acks = _ACKS.get(str(value))
    if acks is None or isinstance(value, bool):
        raise ConfigError("acks", f"must be one of all, -1, 0, 1, is {value!r}")
    return acks


def _idempotence(values: Mapping[str, Any], user: Mapping[str, object], notes: list[str]) -> bool:
    enabled: bool = values["enable_idempotence"]
    broken = [r for r in IDEMPOTENCE_REQUIREMENTS if enabled and not r.holds(values[r.setting])]
    for unmet in broken:
        if unmet.always or "enable_idempotence" in user:
            raise ConfigError(unmet.setting, f"{unmet.reason}, is {values[unmet.setting]}")
        notes.append(f"enable_idempotence is off: {unmet.reason}")
    enabled = enabled and not broken
    # QUIRK: the presence of the key counts, even with the value None.
    if not enabled and "transactional_id" in user:
        raise ConfigError("transactional_id", "needs idempotence")
    return enabled


def _delivery_timeout_ms(
    values: Mapping[str, Any], user: Mapping[str, object], notes: list[str]
) -> int:
    timeout_ms: int = values["delivery_timeout_ms"]
    least_ms: int = min(values["linger_ms"] + values["request_timeout_ms"], INT_MAX)
    if timeout_ms >= least_ms:
        return timeout_ms
    if "delivery_timeout_ms" in user:
        raise ConfigError(
            "delivery_timeout_ms",
            f"must be at least linger_ms + request_timeout_ms = {least_ms}, is {timeout_ms}",
        )
    notes.append(f"delivery_timeout_ms is increased to linger_ms + request_timeout_ms = {least_ms}")
    return least_ms


def _client_id(transactional_id: str | None) -> str:
    # Kafka numbers the producers of a process. This core has no process-wide state; a program with
    # several producers names them.
    return "producer-1" if transactional_id is None else f"producer-{transactional_id}"
