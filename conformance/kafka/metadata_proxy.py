"""The network between brokers and the only controller: it can hold metadata alone, or all.

A broker in KRaft mode fetches the metadata log on a connection of its own; heartbeats and other
requests have another (KIP-595, KIP-631). So a broker may be alive to the controller and serve
clients, with stale metadata.

For a deaf broker the proxy holds the fetches of that log and their responses; for a lost one it
holds all requests, so the controller fences it. Nothing is ever sent twice.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Condition, Thread
from typing import Final, Self, cast

from conformance.kafka.recipe import HOST, BrokerNode
from conformance.kafka.releases import Release
from impl.protocol.primitives import frame, take_frames

FETCHER: Final = "raft-client-{}"
"""The client id of a broker that fetches the log. Source: `KafkaRaftManager.clientId`."""
ASKER: Final = "{}"
"""Its client id for all other requests. Source: `NodeToControllerChannelManagerImpl`."""
ADDRESS_IN_RESPONSES_SINCE: Final = (3, 9)
"""From this release on each response of the controller has its address (KIP-853)."""

_CHUNK_BYTES: Final = 1 << 16
_LOOK_S: Final = 0.05
"""How often the server checks whether it is shut down."""
_CLIENT_ID: Final = struct.Struct(">8xh")  # behind API, version and correlation id: its length


def through(port: int, controller: int, release: Release, node: BrokerNode) -> dict[str, str]:
    """Properties of `node` for a cluster whose brokers reach the controller by `port` only."""
    if node.node_id != controller:
        return {"controller.quorum.voters": f"{controller}@{HOST}:{port}"}
    if tuple(map(int, release.version.split("."))) < ADDRESS_IN_RESPONSES_SINCE:
        return {}
    listeners = f"PLAINTEXT://{HOST}:{node.port},CONTROLLER://{HOST}:{port}"
    return {"advertised.listeners": listeners}


class MetadataProxy(ThreadingTCPServer):
    """Listens on `port` for brokers of the controller on `controller_port`; a context manager.

    Raises OSError when it cannot listen.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, controller_port: int) -> None:
        super().__init__((HOST, port), _Passing)
        self.controller_port = controller_port
        self._changed = Condition()
        self._held: frozenset[str] = frozenset()

    def hold(self, deaf: Iterable[int] = (), lost: Iterable[int] = ()) -> None:
        """From now on these brokers are `deaf` to metadata or `lost`, and all others neither."""
        lost = tuple(lost)
        fetchers = map(FETCHER.format, (*deaf, *lost))
        with self._changed:
            self._held = frozenset((*fetchers, *map(ASKER.format, lost)))
            self._changed.notify_all()

    def await_way(self, client_id: str) -> None:
        """Wait while the requests with this client id are held."""
        with self._changed:
            self._changed.wait_for(lambda: client_id not in self._held)

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, args=(_LOOK_S,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.hold()
        self.shutdown()
        self.server_close()


class _Passing(BaseRequestHandler):
    """One connection of a broker, and the one behind it."""

    request: socket.socket

    def setup(self) -> None:
        """No request has named its client yet."""
        self._proxy = cast(MetadataProxy, self.server)
        self._client_id = ""

    def handle(self) -> None:
        """Pass requests on until one side is gone."""
        behind = (HOST, self._proxy.controller_port)
        with suppress(OSError), socket.create_connection(behind) as controller:
            Thread(target=self._pass_back, args=(controller,), daemon=True).start()
            for payload in self._requests():
                self._client_id = client_id(payload)
                self._proxy.await_way(self._client_id)
                controller.sendall(frame(payload))

    def _requests(self) -> Iterator[bytes]:
        unfinished = bytearray()
        while chunk := self.request.recv(_CHUNK_BYTES):
            unfinished += chunk
            yield from take_frames(unfinished)

    def _pass_back(self, controller: socket.socket) -> None:
        with suppress(OSError):
            while chunk := controller.recv(_CHUNK_BYTES):
                self._proxy.await_way(self._client_id)
                self.request.sendall(chunk)
            self.request.shutdown(socket.SHUT_RDWR)


def client_id(payload: bytes) -> str:
    """The client id of a request; empty if it has none. `RequestHeader`."""
    (length,) = _CLIENT_ID.unpack_from(payload)
    return payload[_CLIENT_ID.size : _CLIENT_ID.size + max(length, 0)].decode()
