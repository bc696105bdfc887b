"""The plan of a transactional run: transactions, their committed offsets, and faults of requests.

An application follows the textbook: it begins, sends, perhaps sends offsets, and commits or aborts.
After an error it aborts, and if that fails it closes its producer. A correct network and broker may
have all of these faults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any, Final

from conformance.adapters.clients.run_plan import (
    APPENDED,
    DELAYED,
    PASS,
    ClientSettings,
    FaultKind,
    FaultRange,
    RequestFault,
    RunPlan,
    Send,
    words_of,
)
from impl.protocol.errors import ErrorCode as E
from impl.protocol.schemas import ApiKey

TRANSACTIONAL_ID: Final = "orders"
GROUP: Final = "readers"
INPUT: Final = "input"
"""The topic whose offsets are committed, in GROUP."""

COORDINATOR_APIS: Final = (
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
)

K = FaultKind
BUSY: Final = FaultRange((K.REFUSE,), (E.CONCURRENT_TRANSACTIONS, E.COORDINATOR_LOAD_IN_PROGRESS))
NOT_STORED: Final = FaultRange((K.REFUSE,), (E.NOT_LEADER_OR_FOLLOWER, E.NOT_ENOUGH_REPLICAS))
LOADING: Final = FaultRange((K.REFUSE,), (E.COORDINATOR_LOAD_IN_PROGRESS,))
FENCED: Final = FaultRange((K.FENCE,))

CUT: Final = FaultRange((K.CUT, K.CUT_ANSWERED))
"""No request arrives late: with V1 requests a late one breaks promises whatever a client does
(KAFKA-17754), so that the fault could not be attributed."""

BROKEN_NETWORK: Final = (DELAYED, CUT, CUT)
PRODUCE_PROFILES: Final = ((), BROKEN_NETWORK, (NOT_STORED, APPENDED, CUT))
COORDINATOR_PROFILES: Final[Mapping[ApiKey, tuple[tuple[FaultRange, ...], ...]]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: ((), (BUSY,), BROKEN_NETWORK),
    ApiKey.ADD_OFFSETS_TO_TXN: ((), (BUSY,), BROKEN_NETWORK),
    ApiKey.TXN_OFFSET_COMMIT: ((), (LOADING,), BROKEN_NETWORK),
    ApiKey.END_TXN: ((), (), (BUSY,), BROKEN_NETWORK, (FENCED, DELAYED, DELAYED)),
}
MAX_FAULTS: Final = 8
REQUESTS_PER_FAULT: Final = (4, 2)


@dataclass(frozen=True, slots=True)
class TransactionPlan:
    """One transaction: its records in order, the offset that it commits, and its end."""

    sends: tuple[Send, ...]
    offset: int | None = None
    commits: bool = True

    def words(self, number: int) -> list[str]:
        """The application's actions, in the form that a client reads."""
        offsets = [] if self.offset is None else [f"offsets:{self.offset}"]
        end = "commit" if self.commits else "abort"
        return [f"begin:{number}", *words_of(self.sends), *offsets, f"{end}:{number}"]

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TransactionPlan:
        """The transaction that `asdict` gave. Raises KeyError, TypeError."""
        return cls(
            tuple(Send(**send) for send in value["sends"]), value["offset"], value["commits"]
        )


@dataclass(frozen=True, slots=True)
class TransactionalPlan(RunPlan):
    """A run with transactions; `sends` are the records of all. `coordinator_faults` affect the
    requests of an API, by its name."""

    transactions: tuple[TransactionPlan, ...] = ()
    coordinator_faults: tuple[tuple[str, tuple[RequestFault, ...]], ...] = ()

    @property
    def timeout_s(self) -> float:
        """The longest time that a client may take: an application waits for each transaction."""
        return 30.0

    @property
    def faults(self) -> Mapping[str, Sequence[RequestFault]]:
        """The faults of an API's requests, by the API's name."""
        own = {"PRODUCE": self.produce_faults, "INIT_PRODUCER_ID": self.init_faults}
        return own | dict(self.coordinator_faults)

    @property
    def configs(self) -> Mapping[str, str]:
        """The producer's configs, by Kafka's names."""
        own = {"transactional.id": TRANSACTIONAL_ID, "transaction.timeout.ms": "60000"}
        return self.settings.to_configs() | own

    @property
    def words(self) -> Sequence[str]:
        """The application's actions, in the form that a client reads."""
        return [word for n, one in enumerate(self.transactions) for word in one.words(n)]

    @property
    def transaction_of(self) -> Mapping[tuple[int, int], int]:
        """The transaction of each record, by its partition and number."""
        return {
            (send.partition, send.number): number
            for number, one in enumerate(self.transactions)
            for send in one.sends
        }

    def to_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        faults = [[api, [fault.to_json() for fault in row]] for api, row in self.coordinator_faults]
        changed = {"coordinator_faults": faults, "transactions": [*map(asdict, self.transactions)]}
        return RunPlan.to_json(self) | changed

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TransactionalPlan:
        """The plan that `to_json` gave. Raises KeyError, TypeError, ValueError."""
        usual = RunPlan.from_json(value)
        return cls(
            seed=usual.seed,
            number=usual.number,
            settings=usual.settings,
            sends=usual.sends,
            produce_faults=usual.produce_faults,
            init_faults=usual.init_faults,
            level=usual.level,
            transactions=tuple(map(TransactionPlan.from_json, value["transactions"])),
            coordinator_faults=tuple(
                (api, tuple(map(RequestFault.from_json, row)))
                for api, row in value["coordinator_faults"]
            ),
        )


def plan_from(value: dict[str, Any]) -> RunPlan:
    """A plan of either kind. Raises KeyError, TypeError, ValueError."""
    kind = TransactionalPlan if "transactions" in value else RunPlan
    return kind.from_json(value)


# Drawing


def draw_transactional(seed: int, number: int, level: int) -> TransactionalPlan:
    """The `number`-th run of a seed at a level of transaction.version."""
    random = Random(f"transactions/{seed}/{number}")
    transactions = draw_transactions(random)
    return TransactionalPlan(
        seed=seed,
        number=number,
        settings=draw_settings(random),
        sends=tuple(send for one in transactions for send in one.sends),
        produce_faults=draw_faults(random, random.choice(PRODUCE_PROFILES)),
        init_faults=draw_faults(random, random.choice(((), (), (BUSY,), BROKEN_NETWORK))),
        level=level,
        transactions=transactions,
        coordinator_faults=tuple(
            (api.name, draw_faults(random, random.choice(profiles)))
            for api, profiles in COORDINATOR_PROFILES.items()
        ),
    )


def without_coordinator_faults(plan: TransactionalPlan) -> TransactionalPlan:
    """The same run on a network without faults."""
    return replace(plan, produce_faults=(), init_faults=(), coordinator_faults=())


def draw_faults(random: Random, profile: Sequence[FaultRange]) -> tuple[RequestFault, ...]:
    """Faults of a profile, most of which let a request pass."""
    one_in = random.choice(REQUESTS_PER_FAULT)
    return tuple(
        random.choice(profile).draw(random) if profile and not random.randrange(one_in) else PASS
        for _ in range(MAX_FAULTS if profile else 0)
    )


def draw_settings(random: Random) -> ClientSettings:
    """Configs whose timeouts let a client try again a few times within a run."""
    request_timeout_ms = random.choice((500, 1_000))
    return ClientSettings(
        max_in_flight=random.choice((1, 5, 5)),
        batch_size=random.choice((1, 110, 16_384)),
        request_timeout_ms=request_timeout_ms,
        delivery_timeout_ms=request_timeout_ms + random.choice((500, 5_000, 5_000)),
        retry_backoff_ms=random.choice((10, 30)),
    )


def draw_transactions(random: Random) -> tuple[TransactionPlan, ...]:
    """2 to 5 transactions; an empty one now and then."""
    count, partitions = [0, 0], random.choice((1, 2))
    transactions = []
    for number in range(random.randint(2, 5)):
        sends = []
        for _ in range(random.choice((0, 1, 2, 3, 4))):
            partition = random.randrange(partitions)
            sends.append(Send(partition, count[partition], random.choice((0, 0, 0, 5))))
            count[partition] += 1
        offset = number + 1 if random.randrange(2) else None
        transactions.append(TransactionPlan(tuple(sends), offset, random.randrange(4) > 0))
    return tuple(transactions)
