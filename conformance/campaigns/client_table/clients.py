"""The columns of the table: clients as their registries name them, and what each does not have."""

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
    """A product with the release that is tabled; `lacks` says why it has no cell of a feature."""

    product: str
    release: str
    lacks: Mapping[str, str] = {}

    @property
    def client(self) -> str:
        """As `program_command` takes it."""
        return f"{self.product}:{self.release}"

    @property
    def title(self) -> str:
        """For people."""
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
"""All that are tabled, in order."""


def clients_named(names: Sequence[str]) -> list[ClientRelease]:
    """PRODUCT, or PRODUCT:RELEASE, of those in CLIENTS; all without names. Raises BadUse."""
    by_product = {client.product: client for client in CLIENTS}
    there_are = (JAVA, *products_of(PROGRAMS))
    found = []
    for name in names:
        product, _, release = name.partition(":")
        client = by_product[one_of("client", product, there_are)]
        found.append(client._replace(release=release or client.release))
    return found or list(CLIENTS)
