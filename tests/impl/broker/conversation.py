"""A client by hand, on one socket: for brokers of any hand."""

from __future__ import annotations

import socket
from typing import Any

from impl.protocol.messages import decode_response, encode_request
from impl.protocol.primitives import frame
from impl.protocol.schemas import ApiKey


class Conversation:
    """One request after the other."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port))
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def ask(self, api_key: ApiKey, version: int, body: Any) -> Any:
        """The answer's body."""
        self._socket.sendall(frame(encode_request(api_key, version, 1, "test", body)))
        size = int.from_bytes(self._file.read(4), "big")
        return decode_response(api_key, version, self._file.read(size))[1]

    def create(self, topic: dict[str, Any]) -> None:
        """Create a topic."""
        answer = self.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [topic]})
        assert answer["topics"][0]["error_code"] == 0, answer

    def fetch_offset(self, group: str, topic: str) -> int:
        """What a group has committed for partition 0."""
        self.ask(ApiKey.FIND_COORDINATOR, 6, {"coordinator_keys": [group], "key_type": 0})
        asked = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}
        body = {"groups": [asked], "require_stable": True}
        answer = self.ask(ApiKey.OFFSET_FETCH, 9, body)["groups"][0]
        assert answer["error_code"] == 0, answer
        return int(answer["topics"][0]["partitions"][0]["committed_offset"])
