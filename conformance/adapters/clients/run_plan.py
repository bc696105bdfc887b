"""The plan of a run: the configs of a producer, its records, and the faults of its requests.

A plan is one frozen value, a function of seed and number alone. Faults hit requests in their order
of arrival, so a run repeats from its seed as far as a client's timing allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from random import Random
from typing import Any, Final, TypeVar

from impl.protocol.errors import ErrorCode

TOPIC: Final = "records"
PARTITIONS: Final = 2
LEVEL: Final = 2
"""The broker's transaction.version, unless a plan names another."""
DIGITS: Final = 4
"""The length of every record's value, so that all records have the same size."""

E = ErrorCode
T = TypeVar("T")


class FaultKind(StrEnum):
    """The fate of one request."""

    PASS = "pass"
    DELAY = "delay"
    """Its response is delayed, and so are all responses behind it."""
    REFUSE = "refuse"
    """The broker never sees it; the response is an error."""
    REPLACE = "replace"
    """The broker handles it; the response is an error."""
    CUT = "cut"
    """The connection ends; the broker never sees it."""
    CUT_LATE = "cut_late"
    """The connection ends; the broker handles it later."""
    CUT_ANSWERED = "cut_answered"
    """The broker handles it; the connection ends before the response."""
    STALL = "stall"
    """The broker handles it; the connection carries no more responses."""
    FENCE = "fence"
    """Another producer initializes the transactional id; then the broker handles it."""

    @property
    def is_cut(self) -> bool:
        """Whether the connection ends."""
        return self in (FaultKind.CUT, FaultKind.CUT_LATE, FaultKind.CUT_ANSWERED)


@dataclass(frozen=True, slots=True)
class RequestFault:
    """The network's treatment of one request. `partition` limits an error to one of two."""

    kind: FaultKind = FaultKind.PASS
    error: ErrorCode = E.NONE
    delay_ms: int = 0
    log_start_offset: int = -1
    partition: int | None = None

    @property
    def is_honest(self) -> bool:
        """Whether a correct network and broker could do this."""
        is_early = self.kind == FaultKind.REPLACE and self.error not in AFTER_APPEND
        return self.error not in LIES and not is_early

    def to_json(self) -> dict[str, Any]:
        """The fields that differ from PASS."""
        usual = asdict(PASS)
        return {name: value for name, value in asdict(self).items() if value != usual[name]}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> RequestFault:
        """The fault that `to_json` gave."""
        kind, error = FaultKind(row.get("kind", "pass")), ErrorCode(row.get("error", 0))
        return cls(**row | {"kind": kind, "error": error})


PASS: Final = RequestFault()
LIES: Final = (E.OUT_OF_ORDER_SEQUENCE_NUMBER, E.UNKNOWN_PRODUCER_ID)
AFTER_APPEND: Final = (E.REQUEST_TIMED_OUT, E.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """A producer's configs; `retries` None leaves the client's default."""

    max_in_flight: int = 5
    batch_size: int = 16_384
    linger_ms: int = 0
    request_timeout_ms: int = 1_000
    delivery_timeout_ms: int = 10_000
    retry_backoff_ms: int = 10
    retries: int | None = None

    def to_configs(self) -> dict[str, str]:
        """The configs by Kafka's names."""
        configs = {
            "enable.idempotence": "true",
            "acks": "all",
            "max.in.flight.requests.per.connection": str(self.max_in_flight),
            "batch.size": str(self.batch_size),
            "linger.ms": str(self.linger_ms),
            "request.timeout.ms": str(self.request_timeout_ms),
            "delivery.timeout.ms": str(self.delivery_timeout_ms),
            "retry.backoff.ms": str(self.retry_backoff_ms),
            "retry.backoff.max.ms": str(self.retry_backoff_ms),
            "reconnect.backoff.ms": "5",
            "reconnect.backoff.max.ms": "20",
            "max.block.ms": "5000",
        }
        return configs if self.retries is None else configs | {"retries": str(self.retries)}


@dataclass(frozen=True, slots=True)
class Send:
    """A record: the `number`-th that the application sends to its partition, `after_ms` after the
    previous one."""

    partition: int
    number: int
    after_ms: int = 0


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run. The n-th Produce meets the n-th of `produce_faults`; all later ones pass. The same
    holds for InitProducerId with `init_faults`."""

    seed: int
    number: int
    settings: ClientSettings
    sends: tuple[Send, ...]
    produce_faults: tuple[RequestFault, ...] = ()
    init_faults: tuple[RequestFault, ...] = ()
    level: int = LEVEL

    @property
    def timeout_s(self) -> float:
        """The longest time that a client may take."""
        return 12.0

    @property
    def is_honest(self) -> bool:
        """Whether a correct network and broker could do all this."""
        return all(fault.is_honest for faults in self.faults.values() for fault in faults)

    @property
    def faults(self) -> Mapping[str, Sequence[RequestFault]]:
        """The faults of an API's requests, by the API's name."""
        return {"PRODUCE": self.produce_faults, "INIT_PRODUCER_ID": self.init_faults}

    @property
    def configs(self) -> Mapping[str, str]:
        """The producer's configs, by Kafka's names."""
        return self.settings.to_configs()

    @property
    def words(self) -> Sequence[str]:
        """The application's actions, in the form that a client reads."""
        return words_of(self.sends)

    def to_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        return asdict(self) | {
            "produce_faults": [fault.to_json() for fault in self.produce_faults],
            "init_faults": [fault.to_json() for fault in self.init_faults],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RunPlan:
        """The plan that `to_json` gave. Raises KeyError, TypeError, ValueError."""
        return cls(
            seed=value["seed"],
            number=value["number"],
            settings=ClientSettings(**value["settings"]),
            sends=tuple(Send(**send) for send in value["sends"]),
            produce_faults=tuple(map(RequestFault.from_json, value["produce_faults"])),
            init_faults=tuple(map(RequestFault.from_json, value["init_faults"])),
            level=value.get("level", LEVEL),
        )


def words_of(sends: Sequence[Send]) -> list[str]:
    """Records and pauses in the form that a client reads."""
    words = []
    for send in sends:
        if send.after_ms:
            words.append(f"+{send.after_ms}")
        words.append(f"{send.partition}:{send.number:0{DIGITS}}")
    return words


# Drawing


@dataclass(frozen=True, slots=True)
class FaultRange:
    """The faults of one kind, from which one is drawn."""

    kinds: tuple[FaultKind, ...]
    errors: tuple[ErrorCode, ...] = (E.NONE,)
    delays_ms: tuple[int, ...] = (0,)
    log_start_offsets: tuple[int, ...] = (-1,)

    def draw(self, random: Random) -> RequestFault:
        """Draw one of them; an error affects one partition, or all partitions of the request."""
        kind, error = draw_one(random, self.kinds), draw_one(random, self.errors)
        is_slow = kind in (FaultKind.DELAY, FaultKind.CUT_LATE)
        return RequestFault(
            kind,
            error,
            draw_one(random, self.delays_ms) if is_slow else 0,
            draw_one(random, self.log_start_offsets),
            random.choice((None, None, 0, 1)) if error else None,
        )


def draw_one(random: Random, values: Sequence[T]) -> T:
    """Draw one of some values; a single value consumes no random number."""
    return random.choice(values) if len(values) > 1 else values[0]


K = FaultKind
DELAYED: Final = FaultRange((K.DELAY,), delays_ms=(2, 10, 40))
CUT: Final = FaultRange((K.CUT, K.CUT_LATE, K.CUT_ANSWERED), delays_ms=(0, 5, 40))
STALLED: Final = FaultRange((K.STALL,))
REFUSED: Final = FaultRange(
    (K.REFUSE,),
    (
        E.NOT_ENOUGH_REPLICAS,
        E.NOT_LEADER_OR_FOLLOWER,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.REQUEST_TIMED_OUT,
    ),
)
APPENDED: Final = FaultRange((K.REPLACE,), AFTER_APPEND)
OUT_OF_ORDER: Final = FaultRange((K.REFUSE, K.REFUSE, K.REPLACE), (E.OUT_OF_ORDER_SEQUENCE_NUMBER,))
UNKNOWN_PRODUCER: Final = FaultRange(
    (K.REFUSE,), (E.UNKNOWN_PRODUCER_ID,), log_start_offsets=(-1, 0, 3, 1_000)
)
TOO_LARGE: Final = FaultRange((K.REFUSE,), (E.MESSAGE_TOO_LARGE,))
PERMANENT: Final = FaultRange(
    (K.REFUSE,), (E.INVALID_PRODUCER_EPOCH, E.MESSAGE_TOO_LARGE, E.INVALID_TIMESTAMP)
)
NOT_INITIALIZED: Final = (E.COORDINATOR_LOAD_IN_PROGRESS, E.REQUEST_TIMED_OUT)

PROFILES: Final = (
    (DELAYED, CUT, CUT, STALLED),
    (DELAYED, REFUSED, REFUSED, APPENDED, CUT),
    (OUT_OF_ORDER, OUT_OF_ORDER, UNKNOWN_PRODUCER, DELAYED, CUT),
    (TOO_LARGE, TOO_LARGE, DELAYED, CUT, REFUSED),
    (PERMANENT, DELAYED, REFUSED, OUT_OF_ORDER),
    (
        DELAYED,
        CUT,
        STALLED,
        REFUSED,
        APPENDED,
        OUT_OF_ORDER,
        UNKNOWN_PRODUCER,
        TOO_LARGE,
        PERMANENT,
    ),
)
REQUESTS_PER_FAULT: Final = (4, 2, 1)
MAX_FAULTS: Final = 14


def draw_plan(seed: int, number: int) -> RunPlan:
    """The `number`-th run of a seed."""
    random = Random(f"client/{seed}/{number}")
    profile = random.choice(PROFILES)
    one_in = random.choice(REQUESTS_PER_FAULT)
    produce_faults = tuple(
        random.choice(profile).draw(random) if random.randrange(one_in) == 0 else PASS
        for _ in range(MAX_FAULTS)
    )
    init_faults = tuple(draw_init_fault(random) for _ in range(random.choice((0, 0, 1, 2))))
    settings, sends = draw_settings(random), draw_sends(random)
    return RunPlan(seed, number, settings, sends, produce_faults, init_faults)


def without_faults(plan: RunPlan) -> RunPlan:
    """The same run on a network without faults."""
    return replace(plan, produce_faults=(), init_faults=())


def draw_init_fault(random: Random) -> RequestFault:
    """A fault of an InitProducerId."""
    if random.randrange(2):
        return RequestFault(K.REFUSE, random.choice(NOT_INITIALIZED))
    return CUT.draw(random)


def draw_settings(random: Random) -> ClientSettings:
    """Configs with short timeouts."""
    linger_ms = random.choice((0, 0, 5))
    request_timeout_ms = random.choice((80, 120, 200))
    slack_ms = random.choice((10, 100, 300, 2_500, 2_500, 2_500))
    return ClientSettings(
        max_in_flight=random.choice((1, 2, 3, 5, 5, 5)),
        batch_size=random.choice((1, 82, 92, 110, 16_384)),
        linger_ms=linger_ms,
        request_timeout_ms=request_timeout_ms,
        delivery_timeout_ms=linger_ms + request_timeout_ms + slack_ms,
        retry_backoff_ms=random.choice((2, 10, 30)),
        retries=random.choice((None, None, None, None, None, 1)),
    )


def draw_sends(random: Random) -> tuple[Send, ...]:
    """6 to 20 records, in bursts, to one partition or two."""
    partitions = random.choice((1, 2))
    count = [0] * partitions
    sends = []
    for _ in range(random.randint(6, 20)):
        partition = random.randrange(partitions)
        after_ms = random.choice((0, 0, 0, 0, 2, 15))
        sends.append(Send(partition, count[partition], after_ms))
        count[partition] += 1
    return tuple(sends)
