"""Layouts of three brokers, which place voters and topics so that some brokers can be down.

`seated`: one broker votes, and two have the log of transactions. `proxied`: in addition, the third
broker coordinates groups, and the network to the voter can be held.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from conformance.adapters.brokers.kafka.admin import ask_for_topic
from conformance.adapters.brokers.kafka.connection import BrokerConnection
from conformance.adapters.brokers.reading import CONSUMER_OFFSETS, TRANSACTION_STATE

PATIENT: Final = {
    # A frozen node stays the leader of its partitions for as long as an experiment lasts.
    "broker.session.timeout.ms": "60000",
}

ON_A_BUSY_MACHINE: Final = {
    # A single broker need not send heartbeats in time. But a broker of 4.0 that was stopped in an
    # orderly way starts again only after its session has ended.
    "broker.session.timeout.ms": "20000",
}
"""Properties of a broker without a cluster that let it run on a busy machine."""

HOME, SEAT, FAR = 1, 2, 3
"""The roles of three brokers that are seated. HOME alone votes. SEAT is the preferred coordinator,
and HOME is the other broker with the log of transactions. FAR has neither."""
SEATED, PROXIED = "seated", "proxied"
PROPERTIES: Final[Mapping[str, Mapping[str, str]]] = {
    "": {},
    SEATED: {
        "broker.session.timeout.ms": "120000",
        "request.timeout.ms": "120000",  # a marker for a frozen broker is not sent a second time
    },
    PROXIED: {
        # The coordinator need not wait long for a follower that does not know of it.
        "replica.lag.time.max.ms": "1500",
        "broker.session.timeout.ms": "9000",  # Kafka's default
        "request.timeout.ms": "120000",
    },
}
"""Properties beyond those of the recipe, by layout."""
SEATED_LOG: Final = {
    "cleanup.policy": "compact",
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "false",
}


def create_internal_topics(connection: BrokerConnection, layout: str) -> None:
    """Create the internal topics that the layout places. Raises RequestRefused."""
    if layout:
        name, replicas = TRANSACTION_STATE[0], (SEAT, HOME)
        ask_for_topic(connection, name, 1, replicas=replicas, configs=SEATED_LOG)
    if layout == PROXIED:
        configs = {"cleanup.policy": "compact"}
        ask_for_topic(connection, CONSUMER_OFFSETS[0], 1, replicas=(FAR,), configs=configs)
