"""What a run is: the settings of a producer, the records it sends, and what its network does.

A plan is one frozen value, a function of seed and number alone. Faults are laid on requests by
their order of arrival, so that a run comes again from its seed as far as a client's timing allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from random import Random
from typing import Any, Final

from impl.protocol.errors import ErrorCode

TOPIC: Final = "records"
PARTITIONS: Final = 2


class Kind(StrEnum):
    """What becomes of one request."""

    PASS = "pass"
    DELAY = "delay"
    """Its answer waits, and all answers behind it."""
    REFUSE = "refuse"
    """The broker never sees it; the answer is an error."""
    REPLACE = "replace"
    """The broker handles it; the answer is an error."""
    CUT = "cut"
    """The connection ends; the broker never sees it."""
    CUT_LATE = "cut_late"
    """The connection ends; the broker handles it later."""
    CUT_ANSWERED = "cut_answered"
    """The broker handles it; the connection ends before the answer."""
    STALL = "stall"
    """The broker handles it; nothing more is ever answered on this connection."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What the network does with one request. `partition` limits an error to one of two."""

    kind: Kind = Kind.PASS
    error: ErrorCode = ErrorCode.NONE
    delay_ms: int = 0
    log_start_offset: int = -1
    partition: int | None = None

    @property
    def is_honest(self) -> bool:
        """Whether a network and a broker that are right could do this."""
        return self.error not in _LIES and not (
            self.kind == Kind.REPLACE and self.error not in _AFTER_APPEND
        )


_LIES: Final = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)
_AFTER_APPEND: Final = (
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)

PASS: Final = Fault()


@dataclass(frozen=True, slots=True)
class Settings:
    """A producer's settings; `retries` None leaves the client's default."""

    max_in_flight: int = 5
    batch_size: int = 16_384
    linger_ms: int = 0
    request_timeout_ms: int = 1_000
    delivery_timeout_ms: int = 10_000
    retry_backoff_ms: int = 10
    retries: int | None = None

    def named(self) -> dict[str, str]:
        """By Kafka's names."""
        named = {
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
        return named if self.retries is None else named | {"retries": str(self.retries)}


@dataclass(frozen=True, slots=True)
class Send:
    """A record: the `number`-th that the application sends to its partition, `after_ms` the one
    before."""

    partition: int
    number: int
    after_ms: int = 0


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One run. The n-th Produce meets the n-th of `produce_faults`, then all pass; so does the
    n-th InitProducerId."""

    seed: int
    number: int
    settings: Settings
    sends: tuple[Send, ...]
    produce_faults: tuple[Fault, ...] = ()
    init_faults: tuple[Fault, ...] = ()

    @property
    def is_honest(self) -> bool:
        """Whether a network and a broker that are right could do all this."""
        return all(fault.is_honest for fault in (*self.produce_faults, *self.init_faults))

    def to_json(self) -> dict[str, Any]:
        """As plain values; of faults what is not as usual."""
        faults = {
            name: [plain(fault) for fault in getattr(self, name)]
            for name in ("produce_faults", "init_faults")
        }
        return asdict(self) | faults

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RunPlan:
        """The plan that `to_json` gave."""
        return cls(
            seed=value["seed"],
            number=value["number"],
            settings=Settings(**value["settings"]),
            sends=tuple(Send(**send) for send in value["sends"]),
            produce_faults=faults_from(value["produce_faults"]),
            init_faults=faults_from(value["init_faults"]),
        )


def plain(fault: Fault) -> dict[str, Any]:
    """A fault without what it does not say."""
    usual = asdict(PASS)
    return {name: value for name, value in asdict(fault).items() if value != usual[name]}


def faults_from(rows: Sequence[dict[str, Any]]) -> tuple[Fault, ...]:
    """Faults that were plain values."""
    return tuple(
        Fault(
            **(
                row
                | {"kind": Kind(row.get("kind", "pass")), "error": ErrorCode(row.get("error", 0))}
            )
        )
        for row in rows
    )


# Drawing

E = ErrorCode

RETRIABLE: Final = (
    E.NOT_ENOUGH_REPLICAS,
    E.NOT_LEADER_OR_FOLLOWER,
    E.UNKNOWN_TOPIC_OR_PARTITION,
    E.REQUEST_TIMED_OUT,
)
FINAL: Final = (E.INVALID_PRODUCER_EPOCH, E.MESSAGE_TOO_LARGE)
INIT_ERRORS: Final = (E.COORDINATOR_LOAD_IN_PROGRESS, E.REQUEST_TIMED_OUT)


def delayed(random: Random) -> Fault:
    """A slow answer."""
    return Fault(Kind.DELAY, delay_ms=random.choice((2, 10, 40)))


def cut(random: Random) -> Fault:
    """A connection that ends."""
    kind = random.choice((Kind.CUT, Kind.CUT_LATE, Kind.CUT_ANSWERED))
    return Fault(kind, delay_ms=random.choice((0, 5, 40)) if kind == Kind.CUT_LATE else 0)


def stalled(random: Random) -> Fault:
    """A connection on which nothing is heard any more."""
    return Fault(Kind.STALL)


def refused(random: Random) -> Fault:
    """An error that a client retries."""
    return Fault(Kind.REFUSE, random.choice(RETRIABLE), partition=one_or_all(random))


def after_append(random: Random) -> Fault:
    """An error although the batch is stored."""
    return Fault(Kind.REPLACE, random.choice(_AFTER_APPEND), partition=one_or_all(random))


def out_of_order(random: Random) -> Fault:
    """A leader that says that its memory is another."""
    return Fault(
        random.choice((Kind.REFUSE, Kind.REFUSE, Kind.REPLACE)),
        E.OUT_OF_ORDER_SEQUENCE_NUMBER,
        partition=one_or_all(random),
    )


def unknown_producer(random: Random) -> Fault:
    """A leader that says that it has no memory."""
    return Fault(
        Kind.REFUSE,
        E.UNKNOWN_PRODUCER_ID,
        log_start_offset=random.choice((-1, 0, 3, 1_000)),
        partition=one_or_all(random),
    )


def too_large(random: Random) -> Fault:
    """A batch that must be split."""
    return Fault(Kind.REFUSE, E.MESSAGE_TOO_LARGE, partition=one_or_all(random))


def final(random: Random) -> Fault:
    """An error that no client retries."""
    return Fault(Kind.REFUSE, random.choice(FINAL), partition=one_or_all(random))


def one_or_all(random: Random) -> int | None:
    """The partition that an error concerns; None for all that the request has."""
    return random.choice((None, None, 0, 1))


PROFILES: Final = {
    "connections": (delayed, cut, cut, stalled),
    "errors": (delayed, refused, refused, after_append, cut),
    "sequences": (out_of_order, out_of_order, unknown_producer, delayed, cut),
    "split": (too_large, too_large, delayed, cut, refused),
    "final": (final, delayed, refused, out_of_order),
    "all": (
        delayed,
        cut,
        stalled,
        refused,
        after_append,
        out_of_order,
        unknown_producer,
        too_large,
        final,
    ),
}
FAULTLESS: Final = (4, 2, 1)
"""Of so many requests one is hit: often, sometimes, always."""
MAX_FAULTS: Final = 14


def planned(seed: int, number: int) -> RunPlan:
    """The `number`-th run of a seed."""
    random = Random(f"client/{seed}/{number}")
    profile = PROFILES[random.choice(tuple(PROFILES))]
    one_in = random.choice(FAULTLESS)
    produce_faults = tuple(
        random.choice(profile)(random) if random.randrange(one_in) == 0 else PASS
        for _ in range(MAX_FAULTS)
    )
    init_faults = tuple(init_fault(random) for _ in range(random.choice((0, 0, 1, 2))))
    return RunPlan(
        seed, number, configurations_of(random), sends_of(random), produce_faults, init_faults
    )


def without_faults(plan: RunPlan) -> RunPlan:
    """The same run in a network without trouble."""
    return replace(plan, produce_faults=(), init_faults=())


def init_fault(random: Random) -> Fault:
    """What becomes of an InitProducerId."""
    if random.randrange(2):
        return Fault(Kind.REFUSE, random.choice(INIT_ERRORS))
    return cut(random)


def configurations_of(random: Random) -> Settings:
    """Settings under which waiting is short."""
    linger_ms = random.choice((0, 0, 5))
    request_timeout_ms = random.choice((80, 120, 200))
    patience_ms = random.choice((10, 100, 300, 2_500, 2_500, 2_500))
    return Settings(
        max_in_flight=random.choice((1, 2, 3, 5, 5, 5)),
        batch_size=random.choice((1, 82, 92, 110, 16_384)),
        linger_ms=linger_ms,
        request_timeout_ms=request_timeout_ms,
        delivery_timeout_ms=linger_ms + request_timeout_ms + patience_ms,
        retry_backoff_ms=random.choice((2, 10, 30)),
        retries=random.choice((None, None, None, None, None, 1)),
    )


def sends_of(random: Random) -> tuple[Send, ...]:
    """Some records, in bursts, to one partition or two."""
    partitions = random.choice((1, 2))
    count = [0] * partitions
    sends = []
    for _ in range(random.randint(6, 20)):
        partition = random.randrange(partitions)
        after_ms = random.choice((0, 0, 0, 0, 2, 15))
        sends.append(Send(partition, count[partition], after_ms))
        count[partition] += 1
    return tuple(sends)
