"""A node's listeners, and the connections that they accept: who each belongs to."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from impl.broker.outputs import Close, Output, Response
from impl.protocol.errors import ErrorCode
from impl.protocol.messages import decode_response, encode_request
from impl.protocol.primitives import frame, take_frames
from impl.protocol.schemas import ApiKey
from impl.security.access import BETWEEN_BROKERS, BROKER_USER
from impl.security.config import Security
from impl.security.mechanisms import PLAIN
from impl.security.session import ClientSession, format_host

if TYPE_CHECKING:
    from impl.security.authenticator import SaslRules

Answer = Output | asyncio.Future[Output]
"""What a connection gets for a request: now, or later."""

Handle = Callable[[bytes], Answer]
"""A request's payload to its answer."""

SessionHandle = Callable[[ClientSession, bytes], Answer]
"""As `Handle`, for the connection of a session."""


class Listener(NamedTuple):
    """One address of a node; `context` is that of TLS, if it has it."""

    name: str
    has_sasl: bool
    context: ssl.SSLContext | None = None

    def accept(self, transport: asyncio.BaseTransport) -> ClientSession:
        """The session of a new connection; SASL is still to come."""
        session = ClientSession(
            host=format_host(transport.get_extra_info("peername") or ("?",)),
            listener=self.name,
            is_broker=self.name == BETWEEN_BROKERS,
        )
        certificate = transport.get_extra_info("peercert")
        if certificate:
            from impl.security.tls import format_subject

            session.principal = f"User:{format_subject(certificate)}"
        return session


def listeners_of(security: Security, host: str) -> list[Listener]:
    """The listeners of a node, which clients know as `host`.

    Where not everybody may do everything, one for nodes comes last.
    Raises `OSError` for files that are not to be read, `MissingCertificates`.
    """
    listeners = [
        Listener(
            protocol.value,
            protocol.has_sasl,
            _server_context(security, host) if protocol.has_tls else None,
        )
        for protocol in security.protocols
    ]
    if not security.is_open:
        listeners.append(Listener(BETWEEN_BROKERS, has_sasl=True))
    return listeners


def _server_context(security: Security, host: str) -> ssl.SSLContext:
    from impl.security.certificates import certificates_of_process

    tls = security.tls or certificates_of_process(host)
    return tls.server_context(security.ssl_client_auth)


def new_handle(
    session: ClientSession,
    handle: SessionHandle,
    rules: SaslRules | None,
    api_versions: range,
    clock_ms: Callable[[], int],
) -> Handle:
    """What handles the requests of a connection: SASL first, where it has `rules`."""
    if rules is None:
        return partial(handle, session)
    from impl.broker.refusals import encode_refusal  # whoever has no SASL does not wait for it
    from impl.security.authenticator import Authenticator, SaslFailure

    authenticator = Authenticator(rules, session, api_versions, encode_refusal)

    def authenticate(payload: bytes) -> Answer:
        try:
            answer = authenticator.receive(payload, clock_ms())
        except SaslFailure as refusal:
            return Close(None, str(refusal), refusal.answer)
        return handle(session, payload) if answer is None else Response(None, answer)

    return authenticate


async def settle(answer: Answer) -> Output:
    """Wait for an answer, if it is not there yet."""
    return await answer if isinstance(answer, asyncio.Future) else answer


async def authenticate_broker(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, password: str
) -> None:
    """Say that this connection is another node's. Raises `OSError`."""
    token = f"\0{BROKER_USER}\0{password}".encode()
    exchange = (
        (ApiKey.SASL_HANDSHAKE, {"mechanism": PLAIN}),
        (ApiKey.SASL_AUTHENTICATE, {"auth_bytes": token}),
    )
    for api_key, body in exchange:
        writer.write(frame(encode_request(api_key, 1, 0, "broker", body)))
        buffer = bytearray()
        while not (payloads := list(take_frames(buffer))):
            data = await reader.read(1 << 16)
            if not data:
                raise ConnectionResetError("the other node closed the connection")
            buffer += data
        answer = decode_response(api_key, 1, payloads[0])[1]
        if answer["error_code"]:
            raise ConnectionRefusedError(ErrorCode.of(answer["error_code"]).name)
