"""One of our nodes, without sockets and with a clock of its own, behind the interface of a broker.

If a node waits for members of a group or for a time-out, no real time passes: the clock jumps to
the next time at which the node acts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, Self

from conformance.adapters.brokers.kafka.errors import AnswerTimeout, ConnectionLost
from conformance.campaigns.held.symbols import CLIENT_ID
from impl.broker.config import NodeConfig
from impl.broker.embedded import EMBEDDED
from impl.broker.node import Node
from impl.broker.node_settings import configure
from impl.broker.outputs import BrokerRequest, Close, Output
from impl.protocol.message_form import Value
from impl.protocol.messages import decode_response, encode_request

_START_MS: Final = 1_700_000_000_000
_LONGEST_WAIT_MS: Final = 20_000
NEVER_MS: Final = str(2**31 - 1)
SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "producer.id.expiration.check.interval.ms": NEVER_MS,
    "group.consumer.heartbeat.interval.ms": "5000",
}
"""The settings of the real broker that appear in answers."""


def own_config() -> NodeConfig:
    """The settings of an embedded broker, with `SETTINGS`."""
    config = EMBEDDED
    for name, value in SETTINGS.items():
        config = configure(config, name, value)
    return config


class OwnNode:
    """The node, its clock, and its answers."""

    def __init__(self, host: str = "127.0.0.1", port: int = 9092) -> None:
        self.address = (host, port)
        self.node = Node(replace(own_config(), host=host, port=port))
        self.now_ms = _START_MS
        self._answers: dict[object, Any] = {}
        self.node.producer_ids.generate(self.now_ms)  # asks for a block, as `Broker` does
        self._take(self.node.advance(self.now_ms))

    def connect(self) -> OwnConnection:
        """A connection to the node."""
        return OwnConnection(self)

    def ask(self, payload: bytes, timeout_ms: int = _LONGEST_WAIT_MS) -> bytes | None:
        """The answer to a request. Raises ConnectionLost, AnswerTimeout."""
        reference = object()
        self.now_ms += 1
        self._take(self.node.advance(self.now_ms))
        self._take(self.node.receive(reference, payload, self.now_ms))
        self._wait(reference, timeout_ms)
        answer = self._answers.pop(reference)
        self._take(self.node.advance(self.now_ms))
        if isinstance(answer, Close):
            raise ConnectionLost(answer.reason)
        found: bytes | None = answer.payload
        return found

    def _wait(self, reference: object, timeout_ms: int) -> None:
        """Let time pass until the answer has come. Raises AnswerTimeout."""
        end_ms = self.now_ms + timeout_ms
        while reference not in self._answers:
            due_ms = self.node.next_due_ms
            if due_ms is None or due_ms > end_ms:
                raise AnswerTimeout(f"no answer in {timeout_ms} ms")
            self.now_ms = max(self.now_ms + 1, due_ms)
            self._take(self.node.advance(self.now_ms))

    def _take(self, outputs: Iterable[Output]) -> None:
        """Keep answers; the node's own requests go to itself."""
        waiting = deque(outputs)
        while waiting:
            output = waiting.popleft()
            if isinstance(output, BrokerRequest):
                asked = ("itself", output.correlation_id)
                waiting.extend(self.node.receive(asked, output.payload, self.now_ms))
            elif isinstance(output.reference, tuple):
                number, payload = output.reference[1], getattr(output, "payload", None)
                waiting.extend(self.node.receive_answer(number, payload, self.now_ms))
            else:
                self._answers[output.reference] = output


class OwnConnection:
    """The connection that a case needs; a context manager that does nothing."""

    def __init__(self, node: OwnNode) -> None:
        self._node = node

    def ask(self, api_key: int, api_version: int, body: Value) -> Value:
        """The body of the answer. Raises ConnectionLost, AnswerTimeout."""
        answer = self.ask_bytes(encode_request(api_key, api_version, 0, CLIENT_ID, body))
        return decode_response(api_key, api_version, answer)[1]

    def ask_bytes(self, payload: bytes, timeout_ms: int | None = None) -> bytes:
        """Request and answer as whole payloads. Raises ConnectionLost, AnswerTimeout."""
        answer = self._node.ask(payload, _LONGEST_WAIT_MS if timeout_ms is None else timeout_ms)
        if answer is None:
            raise AnswerTimeout("the request has no answer")
        return answer

    def send_bytes(self, payload: bytes) -> None:
        """A request to which no answer comes. Raises ConnectionLost."""
        self._node.ask(payload)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass
