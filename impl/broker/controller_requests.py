"""Requests that leave the controller no time: all that they ask for is refused, and nothing done.

With `timeout_ms` of 0 or less the deadline of the controller's event has passed before it begins.
ZooKeeper's controller answered such requests at once, and did what they asked for; so does a node
of these releases here. Asked of 2.8.2, 3.9.2 and 4.3.1.
Source: `ControllerApis.createTopics`, `QuorumController.ControllerWriteEvent`.
"""

from __future__ import annotations

from impl.broker.handler import Handler, HandlerContext
from impl.broker.outputs import DecodedRequest, Deferred
from impl.broker.refusals import refuse_request
from impl.broker.releases import has_zookeeper
from impl.protocol.errors import ErrorCode
from impl.protocol.message_form import Value


def refuse_without_time(handle: Handler) -> Handler:
    """The handler, for requests that have time."""

    def handle_in_time(
        node: HandlerContext, request: DecodedRequest, now_ms: int
    ) -> Value | Deferred | None:
        if request.body["timeout_ms"] > 0 or has_zookeeper(node.config.release):
            return handle(node, request, now_ms)
        error = ErrorCode.REQUEST_TIMED_OUT
        return refuse_request(request.api_key, request.version, request.body, error)

    return handle_in_time
