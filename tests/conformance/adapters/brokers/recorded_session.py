"""A session whose requests and answers are kept, for those who write fixtures."""

from collections.abc import Callable
from typing import Any

from conformance.adapters.brokers.exchange import Ask, Session
from conformance.adapters.brokers.kafka.connection import WireRequest
from conformance.adapters.brokers.wire import WireCall

Keep = Callable[[WireRequest, Any], None]
"""Takes a request and its answer's body."""


def recorded(session: Session, keep: Keep) -> Session:
    """The same session; each answer is kept before it is read."""
    answers: Any = None
    while True:
        try:
            asks = session.send(answers)
        except StopIteration as ended:
            end: Any = ended.value
            return end
        answers = yield [_kept(ask, keep) for ask in asks]


def _kept(ask: Any, keep: Keep) -> Any:
    if not isinstance(ask, Ask):
        return ask
    request, read = ask.call.request, ask.call.read

    def read_kept(body: Any) -> Any:
        keep(request, body)
        return read(body)

    return ask._replace(call=WireCall(request, read_kept))
