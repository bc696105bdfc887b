"""The broker's side of authentication: which requests a connection may send, and who it is.

1. Before authentication a connection sends ApiVersions, once, SaslHandshake and SaslAuthenticate;
   anything else closes it.
2. After SaslHandshake of version 0 the mechanism's own messages follow, without Kafka's headers.
3. A refusal is answered, then the connection is closed. No answer says more than Kafka's.
4. An authentication may be limited in time: then SaslHandshake begins the next one, of the same
   principal, and anything else closes the connection (KIP-368).

Theory of operation: an `Authenticator` belongs to one connection, and knows neither sockets nor
clocks. `receive` returns an answer, None for a request that is the node's, or raises.
Source: `SaslServerAuthenticator`, `PlainSaslServer`, `ScramSaslServer` of Kafka 4.3.1.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from impl.protocol.errors import DecodeError, ErrorCode
from impl.protocol.message_form import Value
from impl.protocol.messages import decode_request, encode_response
from impl.protocol.schemas import ApiKey
from impl.security.mechanisms import PLAIN, SCRAM_MECHANISMS, ScramMechanism
from impl.security.scram import (
    ClientFirst,
    InvalidScramMessage,
    ScramCredential,
    answer_client_final,
    format_server_first,
    read_client_first,
)
from impl.security.session import ClientSession

MIN_REAUTHENTICATION_MS: Final = 1_000
"""A connection may not authenticate more often."""

_API_VERSIONS: Final = ApiKey.API_VERSIONS.to_bytes(2, "big")
_HANDSHAKE: Final = ApiKey.SASL_HANDSHAKE.to_bytes(2, "big")

Refuse = Callable[[Value, Value, ErrorCode], bytes]
"""Header and body of a request, and an error, to the answer."""

Credentials = Mapping[tuple[str, ScramMechanism], ScramCredential]
"""SCRAM credentials by user."""


class AuthenticationRefused(Exception):
    """A client is not authenticated. The message is for the client."""


class SaslFailure(Exception):
    """The connection must be closed, after `answer` if there is one."""

    def __init__(self, reason: str, answer: bytes | None = None) -> None:
        super().__init__(reason)
        self.answer = answer


# ---- mechanisms


class PlainExchange:
    """SASL PLAIN: RFC 4616. `authenticate` answers one message; then `user` is known."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self.user: str | None = None

    def authenticate(self, message: bytes) -> bytes:
        """Raises `AuthenticationRefused` with Kafka's text."""
        parts = message.decode(errors="replace").split("\0")
        if len(parts) != 3:
            problem = f"expected 3 tokens, got {len(parts)}"
            raise AuthenticationRefused(f"Invalid SASL/PLAIN response: {problem}")
        authorization_id, name, password = parts
        if not name or not password:
            missing = "password" if name else "username"
            raise AuthenticationRefused(f"Authentication failed: {missing} not specified")
        wanted = self._users.get(name)
        is_right = wanted is not None and hmac.compare_digest(wanted.encode(), password.encode())
        if not is_right:
            raise AuthenticationRefused("Authentication failed: Invalid username or password")
        if authorization_id not in ("", name):
            raise AuthenticationRefused(_OTHER_ID)
        self.user = name
        return b""


_OTHER_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class ScramExchange:
    """SCRAM. `authenticate` answers two messages; after the second `user` is known."""

    def __init__(self, mechanism: ScramMechanism, credentials: Credentials) -> None:
        self._mechanism = mechanism
        self._credentials = credentials
        self._first: ClientFirst | None = None
        self._challenge = ""
        self.user: str | None = None

    def authenticate(self, message: bytes) -> bytes:
        """Raises `AuthenticationRefused` with Kafka's text, `ValueError` for a wrong password."""
        if self._first is None:
            return self._begin(read_client_first(message)).encode()
        credential = self._credential(self._first)
        answer = answer_client_final(
            self._mechanism, credential, self._first, self._challenge, message
        )
        if answer is None:
            raise ValueError("invalid client credentials")
        self.user = self._first.name
        return answer

    def _begin(self, first: ClientFirst) -> str:
        credential = self._credential(first)
        if first.authorization_id not in ("", first.name):
            raise AuthenticationRefused(_OTHER_ID)
        self._first = first
        self._challenge = format_server_first(first, secrets.token_urlsafe(16), credential)
        return self._challenge

    def _credential(self, first: ClientFirst) -> ScramCredential:
        found = self._credentials.get((first.name, self._mechanism))
        if found is None:
            raise InvalidScramMessage("invalid user credentials")
        return found


Exchange = PlainExchange | ScramExchange


@dataclass(frozen=True, slots=True)
class SaslRules:
    """What a listener accepts."""

    mechanisms: tuple[str, ...]
    users: Mapping[str, str]
    credentials: Credentials
    max_reauth_ms: int

    def begin(self, mechanism: str) -> Exchange:
        """A new exchange of an enabled mechanism."""
        if mechanism == PLAIN:
            return PlainExchange(self.users)
        return ScramExchange(SCRAM_MECHANISMS[mechanism], self.credentials)


# ---- a connection


class _State(Enum):
    BEGINNING = auto()
    VERSIONS_KNOWN = auto()
    EXCHANGING = auto()
    DONE = auto()


class Authenticator:
    """One connection of a listener with SASL. Attributes: `session`."""

    def __init__(
        self, rules: SaslRules, session: ClientSession, api_versions: range, refuse: Refuse
    ) -> None:
        """`api_versions` are the versions of ApiVersions that the node serves."""
        self._rules = rules
        self.session = session
        self._api_versions = api_versions
        self._refuse = refuse
        self._state = _State.BEGINNING
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._has_headers = True
        self._is_again = False
        self._began_ms = -MIN_REAUTHENTICATION_MS
        self._expires_ms: int | None = None

    def receive(self, payload: bytes, now_ms: int) -> bytes | None:
        """The answer; None for a request that is the node's. Raises `SaslFailure`."""
        if self._state is _State.DONE:
            return self._receive_later(payload, now_ms)
        if self._state is _State.EXCHANGING and not self._has_headers:
            return self._authenticate_bare(payload, now_ms)
        if self._state is _State.BEGINNING and payload[:2] == _API_VERSIONS:
            if int.from_bytes(payload[2:4], "big") in self._api_versions:
                self._state = _State.VERSIONS_KNOWN
            return None
        try:
            header, body = decode_request(payload)
        except DecodeError as error:
            raise SaslFailure(str(error)) from error
        name, form = (
            ApiKey(header["api_key"]).name,
            (header["api_version"], header["correlation_id"]),
        )
        if self._state is _State.EXCHANGING:
            if header["api_key"] == ApiKey.SASL_AUTHENTICATE:
                return self._authenticate(*form, body["auth_bytes"], now_ms)
            refused = self._refuse(header, body, ErrorCode.ILLEGAL_SASL_STATE)
            raise SaslFailure(f"unexpected request {name} during SASL authentication", refused)
        if header["api_key"] != ApiKey.SASL_HANDSHAKE:
            raise SaslFailure(f"unexpected request {name} during the SASL handshake")
        return self._shake_hands(*form, body["mechanism"])

    def _receive_later(self, payload: bytes, now_ms: int) -> bytes | None:
        if payload[:2] == _HANDSHAKE and now_ms - self._began_ms >= MIN_REAUTHENTICATION_MS:
            self._began_ms = now_ms
            self._is_again = True
            self._state = _State.VERSIONS_KNOWN
            return self.receive(payload, now_ms)
        if self._expires_ms is not None and now_ms > self._expires_ms:
            raise SaslFailure("its authentication has expired")
        return None

    def _shake_hands(self, version: int, correlation_id: int, mechanism: str) -> bytes:
        enabled = self._rules.mechanisms
        is_enabled = mechanism in enabled
        error = ErrorCode.NONE if is_enabled else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        answer = encode_response(
            ApiKey.SASL_HANDSHAKE,
            version,
            correlation_id,
            {"error_code": error, "mechanisms": list(enabled)},
        )
        if not is_enabled:
            raise SaslFailure(f"SASL mechanism {mechanism!r} is not enabled", answer)
        self._mechanism = mechanism
        self._exchange = self._rules.begin(mechanism)
        self._has_headers = version > 0
        self._state = _State.EXCHANGING
        return answer

    def _authenticate_bare(self, payload: bytes, now_ms: int) -> bytes:
        try:
            return self._exchange_message(payload, now_ms)
        except AuthenticationRefused as refusal:
            raise SaslFailure(f"authentication was refused: {refusal}") from refusal

    def _authenticate(
        self, version: int, correlation_id: int, message: bytes, now_ms: int
    ) -> bytes:
        def answer(error: ErrorCode, text: str, content: bytes) -> bytes:
            row = {
                "error_code": error,
                "error_message": text,
                "auth_bytes": content,
                "session_lifetime_ms": self._lifetime_ms(now_ms),
            }
            return encode_response(ApiKey.SASL_AUTHENTICATE, version, correlation_id, row)

        try:
            content = self._exchange_message(message, now_ms)
        except AuthenticationRefused as refusal:
            refused = answer(ErrorCode.SASL_AUTHENTICATION_FAILED, str(refusal), b"")
            raise SaslFailure(f"authentication was refused: {refusal}", refused) from refusal
        return answer(ErrorCode.NONE, "", content)

    def _lifetime_ms(self, now_ms: int) -> int:
        is_done = self._state is _State.DONE and self._expires_ms is not None
        return (self._expires_ms or 0) - now_ms if is_done else 0

    def _exchange_message(self, message: bytes, now_ms: int) -> bytes:
        """The mechanism's answer. Raises `AuthenticationRefused`."""
        exchange = self._exchange
        assert exchange is not None, "the handshake has begun it"
        try:
            answer = exchange.authenticate(message)
        except ValueError as error:
            occasion = "re-authentication" if self._is_again else "authentication"
            raise AuthenticationRefused(
                f"Authentication failed during {occasion} due to invalid credentials with SASL"
                f" mechanism {self._mechanism}"
            ) from error
        if exchange.user is not None:
            self._finish(f"User:{exchange.user}", now_ms)
        return answer

    def _finish(self, principal: str, now_ms: int) -> None:
        if self._is_again and principal != self.session.principal:
            raise AuthenticationRefused(
                "Cannot change principals during re-authentication from"
                f" {self.session.principal.replace(':', '.')}: {principal.replace(':', '.')}"
            )
        self.session.principal = principal
        self._state = _State.DONE
        self._began_ms = now_ms
        lifetime_ms = self._rules.max_reauth_ms
        self._expires_ms = now_ms + lifetime_ms if lifetime_ms else None
