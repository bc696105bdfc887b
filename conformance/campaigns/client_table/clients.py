"""The columns of the table: clients by their registries' names, with the features that each
lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from conformance.adapters.clients.install import JAVA, products_of
from conformance.campaigns.client_table.cell import PROGRAMS
from conformance.campaigns.client_table.features import NEW_GROUP, ROLLING_GROUP
from model.releases import NEWEST
from proofs.run import one_of

CLASSIC_ALONE: Final = dict.fromkeys(
    (NEW_GROUP, ROLLING_GROUP), "it has classic groups alone, not those of KIP-848"
)


class ClientRelease(NamedTuple):
    """A product, and the release in the table. `lacks` says why the product has no cell for a
    feature."""

    product: str
    release: str
    lacks: Mapping[str, str] = {}

    @property
    def client(self) -> str:
        """The form that `program_command` takes."""
        return f"{self.product}:{self.release}"

    @property
    def title(self) -> str:
        """The form for people."""
        return f"{self.product} {self.release}"


CLIENTS: Final = (
    ClientRelease(JAVA, NEWEST),
    ClientRelease("franz-go", "1.22.2"),
    ClientRelease("confluent-kafka", "2.16.1"),
    ClientRelease("kafka-python", "3.0.12", CLASSIC_ALONE),
    ClientRelease("aiokafka", "0.14.0", CLASSIC_ALONE),
    ClientRelease("ibm-sarama", "1.61.1", CLASSIC_ALONE),
    ClientRelease("kafkajs", "2.2.4", CLASSIC_ALONE),
    ClientRelease(
        "kcat",
        "1.7.1",
        {
            "admin": "it has no command that administers",
            **dict.fromkeys(
                (NEW_GROUP, ROLLING_GROUP),
                "Debian's is built with librdkafka 2.0.2, which has classic groups alone",
            ),
            "transactions": "a run is a transaction, committed at the end of the input; no option"
            " aborts it",
            "processing": "it has no option that commits offsets in a transaction",
        },
    ),
)
"""All clients of the table, in order."""


def clients_named(names: Sequence[str]) -> list[ClientRelease]:
    """The clients of CLIENTS that match PRODUCT or PRODUCT:RELEASE; without names all. Raises
    BadUse."""
    by_product = {client.product: client for client in CLIENTS}
    there_are = (JAVA, *products_of(PROGRAMS))
    found = []
    for name in names:
        product, _, release = name.partition(":")
        client = by_product[one_of("client", product, there_are)]
        found.append(client._replace(release=release or client.release))
    return found or list(CLIENTS)
