"""Producer configurations: which are idempotent and which are refused; and the right to write
idempotently.

Models `ProducerConfig.postProcessAndValidateIdempotenceConfigs` (`KafkaProducer.configure*` before
3.0), and the authorization in `KafkaApis.handleInitProducerIdRequest` and `handleProduceRequest`.
Each rule is a function of configurations or permissions, without state. Other configurations are
left out.

Theory of operation. Idempotence needs acks=all, retries, and no more requests in flight than a
leader remembers batches. If the configurations contradict this, the outcome depends on who set
them. A contradiction that the user wrote is refused. Since 3.0, idempotence is on by default, and a
user who did not ask for it loses it silently. The rules of each era are a table; the first rule
that applies decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from model.idempotent.configuration import Acks
from model.releases import MAX_BATCHES_TO_REMEMBER, rules_of


class Era(IntEnum):
    """Releases of the Java client with the same rules; `era_of` says which release belongs to which
    era."""

    V0_11 = 0
    V1_0 = 1
    V3_0_0 = 2
    """3.0.0 and 3.1.0: documented as on by default, but in fact only on request. KAFKA-13598."""
    V3_0_1 = 3
    V4_0 = 4


class ConfigOutcome(IntEnum):
    """The outcome of a set of configurations."""

    IDEMPOTENT = 0
    PLAIN = 1
    CONFIG_EXCEPTION = 2


@dataclass(frozen=True, slots=True)
class Given:
    """The configurations that the user wrote; None stands for one that the user left out."""

    enable_idempotence: bool | None = None
    acks: Acks | None = None
    retries: int | None = None
    max_in_flight_requests_per_connection: int | None = None
    transactional_id: bool = False


Condition = Callable[[Given], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """If `applies` holds, the outcome of the configurations is `outcome`."""

    name: str
    applies: Condition
    outcome: ConfigOutcome


def asked(given: Given) -> bool:
    """Whether the user has set enable.idempotence=true."""
    return given.enable_idempotence is True


def declined(given: Given) -> bool:
    """Whether the user has set enable.idempotence=false."""
    return given.enable_idempotence is False


def wanted(given: Given) -> bool:
    """Whether the user wants idempotence, by name or by a transactional id. Before 3.0."""
    return asked(given) or (given.transactional_id and not declined(given))


def no_retries(given: Given) -> bool:
    """Whether the user has turned retries off."""
    return given.retries == 0


def weak_acks(given: Given) -> bool:
    """Whether the user has asked for fewer acks than all."""
    return given.acks is not None and given.acks != Acks.ALL


def too_many(given: Given) -> bool:
    """Whether more requests may be in flight than a leader remembers batches."""
    in_flight = given.max_in_flight_requests_per_connection
    return in_flight is not None and in_flight > MAX_BATCHES_TO_REMEMBER


def not_one(given: Given) -> bool:
    """Whether more than one request may be in flight: in 0.11 a leader remembers one batch."""
    return given.max_in_flight_requests_per_connection not in (None, 1)


def both(a: Condition, b: Condition) -> Condition:
    """The conjunction of two conditions."""
    return lambda given: a(given) and b(given)


def always(given: Given) -> bool:
    """True: the last rule of each era applies if no other did."""
    return True


TRANSACTIONS_WITHOUT = Rule(
    "a transactional id without idempotence",
    lambda given: declined(given) and given.transactional_id,
    ConfigOutcome.CONFIG_EXCEPTION,
)
OFF = Rule("idempotence is off", declined, ConfigOutcome.PLAIN)


def refused(name: str, condition: Condition) -> Rule:
    """The rule that refuses a contradiction."""
    return Rule(name, condition, ConfigOutcome.CONFIG_EXCEPTION)


def lost(name: str, condition: Condition) -> tuple[Rule, Rule]:
    """The rules for a contradiction of the default: idempotence is turned off silently, but with a
    transactional id the configurations are refused."""
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
"""The rules before 3.0: a producer is idempotent only on request."""

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
"""The rules of each era; the first that applies decides."""


def era_of(release: str) -> Era:
    """The era of the Java client of a release."""
    return Era[rules_of("producer_config", release).get("era", "v4_0").upper()]


def decided(era: Era, given: Given) -> Rule:
    """The rule that decides the outcome of the configurations."""
    return next(rule for rule in RULES[era] if rule.applies(given))


# Authorization of idempotent writes without transactions


class Authorization(IntEnum):
    """The permissions that a broker requires of a client that writes idempotently.
    KafkaApis.handleInitProducerIdRequest and handleProduceRequest."""

    CLUSTER = 0
    """IDEMPOTENT_WRITE on the cluster, checked again at each Produce."""
    ANY_TOPIC = 1
    """WRITE on any topic suffices for a producer id; Produce requires WRITE on its own topic alone.
    KIP-679."""


class Verdict(IntEnum):
    """A broker's answer, by Kafka's error codes."""

    GRANTED = 0
    TOPIC_AUTHORIZATION_FAILED = 29
    CLUSTER_AUTHORIZATION_FAILED = 31


@dataclass(frozen=True, slots=True)
class Permissions:
    """The permissions of a principal: IDEMPOTENT_WRITE on the cluster, WRITE on the topic in
    question, and WRITE on at least one topic, which may be this one."""

    idempotent_write: bool
    write: bool
    write_on_any_topic: bool


def authorization_of(release: str) -> Authorization:
    """The permissions that the brokers of a release require."""
    name = rules_of("producer_config", release).get("authorization", "any_topic")
    return Authorization[name.upper()]


def on_init_producer_id(authorization: Authorization, permissions: Permissions) -> Verdict:
    """The answer to InitProducerId without a transactional id."""
    enough = authorization == Authorization.ANY_TOPIC and permissions.write_on_any_topic
    granted = permissions.idempotent_write or enough
    return Verdict.GRANTED if granted else Verdict.CLUSTER_AUTHORIZATION_FAILED


def on_produce(authorization: Authorization, permissions: Permissions) -> Verdict:
    """The answer to a batch with a producer id. The broker checks the cluster before the topic."""
    if authorization == Authorization.CLUSTER and not permissions.idempotent_write:
        return Verdict.CLUSTER_AUTHORIZATION_FAILED
    return Verdict.GRANTED if permissions.write else Verdict.TOPIC_AUTHORIZATION_FAILED
