"""A proxy between brokers and the only controller, which can hold metadata alone, or all requests.

A broker in KRaft mode fetches the metadata log on one connection, and sends heartbeats and other
requests on another (KIP-595, KIP-631). So a broker may be alive to the controller and serve
clients, with stale metadata.

For a deaf broker the proxy holds the fetches of that log and their responses. For a lost broker it
holds all requests, so the controller fences the broker.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from conformance.adapters.brokers.kafka.recipe import HOST, BrokerNode
from conformance.adapters.brokers.kafka.releases import Release
from conformance.adapters.brokers.kafka.request_proxy import RequestProxy

FETCHER: Final = "raft-client-{}"
"""The client id with which a broker fetches the log. Source: `KafkaRaftManager.clientId`."""
ASKER: Final = "{}"
"""A broker's client id for all other requests. Source: `NodeToControllerChannelManagerImpl`."""
ADDRESS_IN_RESPONSES_SINCE: Final = (3, 9)
"""From this release on each response of the controller has its address (KIP-853)."""

_CLIENT_ID: Final = struct.Struct(">8xh")  # behind API, version and correlation id: its length


def through(port: int, controller: int, release: Release, node: BrokerNode) -> dict[str, str]:
    """Properties of `node` in a cluster whose brokers reach the controller only through `port`."""
    if node.node_id != controller:
        return {"controller.quorum.voters": f"{controller}@{HOST}:{port}"}
    if tuple(map(int, release.version.split("."))) < ADDRESS_IN_RESPONSES_SINCE:
        return {}
    listeners = f"PLAINTEXT://{HOST}:{node.port},CONTROLLER://{HOST}:{port}"
    return {"advertised.listeners": listeners}


class MetadataProxy(RequestProxy):
    """Listens on `port` for brokers of the controller on `controller_port`.

    Raises OSError when it cannot listen.
    """

    def __init__(self, port: int, controller_port: int) -> None:
        super().__init__(port, (HOST, controller_port))
        self._held: frozenset[str] = frozenset()

    def hold(self, deaf: Iterable[int] = (), lost: Iterable[int] = ()) -> None:
        """From now on these brokers are `deaf` to metadata or `lost`; no other broker is."""
        lost = tuple(lost)
        fetchers = map(FETCHER.format, (*deaf, *lost))
        with self.changed:
            self._held = frozenset((*fetchers, *map(ASKER.format, lost)))
            self.changed.notify_all()

    def release(self) -> None:
        """Pass all requests on."""
        self.hold()

    def take_request(self, request: bytes) -> bool:
        """Wait while requests with this client id are held."""
        with self.changed:
            self.changed.wait_for(lambda: client_id(request) not in self._held)
        return True

    def take_answer(self, request: bytes, answer: bytes) -> bytes:
        """Wait while the request would be held."""
        self.take_request(request)
        return answer


def client_id(payload: bytes) -> str:
    """The client id of a request; empty if it has none. `RequestHeader`."""
    (length,) = _CLIENT_ID.unpack_from(payload)
    return payload[_CLIENT_ID.size : _CLIENT_ID.size + max(length, 0)].decode()
