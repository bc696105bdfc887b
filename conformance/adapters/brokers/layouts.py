"""Where things are on three brokers, so that some can be gone: who votes, who has which topic.

`seated`: one broker votes, and two have the log of transactions. `proxied`: besides, groups are
coordinated by the third, and the network to the one that votes can be held.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conformance.adapters.brokers.kafka.admin import ask_for_topic
from conformance.adapters.brokers.kafka.connection import BrokerConnection
from conformance.adapters.brokers.reading import CONSUMER_OFFSETS, TRANSACTION_STATE

PATIENT: Final = {
    # A frozen node stays the leader of what it leads for as long as an experiment lasts.
    "broker.session.timeout.ms": "60000",
}

ON_A_BUSY_MACHINE: Final = {
    # One that is alone need not send heartbeats in time. But one of 4.0 that was stopped in order
    # starts again only when its session is over.
    "broker.session.timeout.ms": "20000",
}
"""Of a broker without a cluster."""

HOME, SEAT, FAR = 1, 2, 3
"""Who is who on three brokers that are seated: HOME alone votes; SEAT is the coordinator that is
preferred, and HOME the other one that has the log of transactions; FAR has none of that."""
SEATED, PROXIED = "seated", "proxied"
PROPERTIES: Final[Mapping[str, Mapping[str, str]]] = {
    "": {},
    SEATED: {
        "broker.session.timeout.ms": "120000",
        "request.timeout.ms": "120000",  # a marker for who is frozen is not sent a second time
    },
    PROXIED: {
        # The coordinator need not wait long for a follower that does not know of it.
        "replica.lag.time.max.ms": "1500",
        "broker.session.timeout.ms": "9000",  # Kafka's own
        "request.timeout.ms": "120000",
    },
}
"""Over those of the recipe, by layout."""
SEATED_LOG: Final = {
    "cleanup.policy": "compact",
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "false",
}


def create_internal_topics(connection: BrokerConnection, layout: str) -> None:
    """Create those whose place the layout says. Raises RequestRefused."""
    if layout:
        name, replicas = TRANSACTION_STATE[0], (SEAT, HOME)
        ask_for_topic(connection, name, 1, replicas=replicas, configs=SEATED_LOG)
    if layout == PROXIED:
        configs = {"cleanup.policy": "compact"}
        ask_for_topic(connection, CONSUMER_OFFSETS[0], 1, replicas=(FAR,), configs=configs)
