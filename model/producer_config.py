"""What a producer's configurations come to: idempotent or not, or refused. And who may write so.

Theory of operation. Idempotence needs acks=all, retries, and no more requests in flight than a
leader remembers. Where configurations contradict that, it matters who wrote what: a user's
contradiction is refused; since 3.0, where idempotence is on by default, a user who did not ask for
it loses it silently. The rules of each era are a table, and the first that applies decides.
`ProducerConfig.postProcessAndValidateIdempotenceConfigs`; `KafkaProducer.configure*` before 3.0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from model.idempotent.configuration import Acks
from model.releases import MAX_BATCHES_TO_REMEMBER, rules_of


class Era(IntEnum):
    """Releases of the Java client with the same rules; `model.releases` says which."""

    V0_11 = 0
    V1_0 = 1
    V3_0_0 = 2
    """3.0.0 and 3.1.0: on by default, they say, but only for who asks. KAFKA-13598."""
    V3_0_1 = 3
    V4_0 = 4


class ConfigOutcome(IntEnum):
    """What the configurations come to."""

    IDEMPOTENT = 0
    PLAIN = 1
    CONFIG_EXCEPTION = 2


@dataclass(frozen=True, slots=True)
class Given:
    """What the user wrote; None is what was left out."""

    enable_idempotence: bool | None = None
    acks: Acks | None = None
    retries: int | None = None
    max_in_flight_requests_per_connection: int | None = None
    transactional_id: bool = False


Condition = Callable[[Given], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """Where `applies`, the configurations come to `outcome`."""

    name: str
    applies: Condition
    outcome: ConfigOutcome


def asked(given: Given) -> bool:
    """The user has asked for idempotence by name."""
    return given.enable_idempotence is True


def declined(given: Given) -> bool:
    """The user wants none."""
    return given.enable_idempotence is False


def wanted(given: Given) -> bool:
    """Before 3.0: by name, or by a transactional id."""
    return asked(given) or (given.transactional_id and not declined(given))


def no_retries(given: Given) -> bool:
    """Nothing is sent again."""
    return given.retries == 0


def weak_acks(given: Given) -> bool:
    """Fewer than all replicas in sync."""
    return given.acks is not None and given.acks != Acks.ALL


def too_many(given: Given) -> bool:
    """More in flight than a leader remembers."""
    in_flight = given.max_in_flight_requests_per_connection
    return in_flight is not None and in_flight > MAX_BATCHES_TO_REMEMBER


def not_one(given: Given) -> bool:
    """More than one in flight, when a leader remembered one batch."""
    return given.max_in_flight_requests_per_connection not in (None, 1)


def both(a: Condition, b: Condition) -> Condition:
    """The conjunction."""
    return lambda given: a(given) and b(given)


def always(given: Given) -> bool:
    """Where nothing else applied."""
    return True


TRANSACTIONS_WITHOUT = Rule(
    "a transactional id without idempotence",
    lambda given: declined(given) and given.transactional_id,
    ConfigOutcome.CONFIG_EXCEPTION,
)
OFF = Rule("idempotence is off", declined, ConfigOutcome.PLAIN)


def refused(name: str, condition: Condition) -> Rule:
    """A contradiction of the user's."""
    return Rule(name, condition, ConfigOutcome.CONFIG_EXCEPTION)


def lost(name: str, condition: Condition) -> tuple[Rule, Rule]:
    """A contradiction of what is on by default: it goes, silently, unless transactions need it."""
    for_transactions = both(condition, lambda given: given.transactional_id)
    return (
        refused(f"{name}, with a transactional id", for_transactions),
        Rule(f"{name}: idempotence goes", condition, ConfigOutcome.PLAIN),
    )


BY_REQUEST = (
    TRANSACTIONS_WITHOUT,
    Rule("nobody asked", lambda given: not wanted(given), ConfigOutcome.PLAIN),
    refused("no retries", no_retries),
    refused("acks other than all", weak_acks),
)
"""Before 3.0, idempotence is for those who ask."""

ON = Rule("idempotent", always, ConfigOutcome.IDEMPOTENT)

RULES: dict[Era, tuple[Rule, ...]] = {
    Era.V0_11: (*BY_REQUEST, refused("more than one in flight", not_one), ON),
    Era.V1_0: (*BY_REQUEST, refused("more than five in flight", too_many), ON),
    Era.V3_0_0: (*BY_REQUEST, refused("more than five in flight", too_many), ON),
    Era.V3_0_1: (
        TRANSACTIONS_WITHOUT,
        OFF,
        refused("no retries, though asked for", both(asked, no_retries)),
        refused("acks other than all, though asked for", both(asked, weak_acks)),
        refused("more than five in flight, though asked for", both(asked, too_many)),
        *lost("no retries", no_retries),
        *lost("acks other than all", weak_acks),
        *lost("more than five in flight", too_many),
        ON,
    ),
    Era.V4_0: (
        TRANSACTIONS_WITHOUT,
        OFF,
        refused("no retries, though asked for", both(asked, no_retries)),
        refused("acks other than all, though asked for", both(asked, weak_acks)),
        refused("more than five in flight", too_many),
        *lost("no retries", no_retries),
        *lost("acks other than all", weak_acks),
        ON,
    ),
}
"""The first rule that applies decides."""


def era_of(release: str) -> Era:
    """Whose rules the Java client of a release has."""
    return Era[rules_of("producer_config", release).get("era", "v4_0").upper()]


def decided(era: Era, given: Given) -> Rule:
    """The rule that decides what the configurations come to."""
    return next(rule for rule in RULES[era] if rule.applies(given))


# Who may write idempotently, without transactions


class Authorization(IntEnum):
    """What a broker asks of who writes idempotently. KafkaApis.handleInitProducerIdRequest and
    handleProduceRequest."""

    CLUSTER = 0
    """IDEMPOTENT_WRITE on the cluster, and with each Produce again."""
    ANY_TOPIC = 1
    """WRITE on any topic is enough for a producer id, and Produce asks for its topic alone.
    KIP-679."""


class Verdict(IntEnum):
    """What a broker answers, by Kafka's codes."""

    GRANTED = 0
    TOPIC_AUTHORIZATION_FAILED = 29
    CLUSTER_AUTHORIZATION_FAILED = 31


@dataclass(frozen=True, slots=True)
class Permissions:
    """What a principal may do: IDEMPOTENT_WRITE on the cluster, WRITE on the topic in question, and
    WRITE on any topic, be it this one."""

    idempotent_write: bool
    write: bool
    write_on_any_topic: bool


def authorization_of(release: str) -> Authorization:
    """What the brokers of a release ask."""
    name = rules_of("producer_config", release).get("authorization", "any_topic")
    return Authorization[name.upper()]


def on_init_producer_id(authorization: Authorization, permissions: Permissions) -> Verdict:
    """Whether InitProducerId without a transactional id gets one."""
    enough = authorization == Authorization.ANY_TOPIC and permissions.write_on_any_topic
    granted = permissions.idempotent_write or enough
    return Verdict.GRANTED if granted else Verdict.CLUSTER_AUTHORIZATION_FAILED


def on_produce(authorization: Authorization, permissions: Permissions) -> Verdict:
    """Whether a batch with a producer id is taken. The cluster is asked before the topic is."""
    if authorization == Authorization.CLUSTER and not permissions.idempotent_write:
        return Verdict.CLUSTER_AUTHORIZATION_FAILED
    return Verdict.GRANTED if permissions.write else Verdict.TOPIC_AUTHORIZATION_FAILED
