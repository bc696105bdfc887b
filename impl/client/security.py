"""How a client proves who it is: TLS and SASL, with aiokafka's names of settings.

Source: `SaslClientAuthenticator`, `SaslConfigs` of Kafka 4.3.1.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from impl.client.arguments import check_choice, check_text
from impl.client.connection import Connection
from impl.client.errors import ClientError, InvalidArgumentError
from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import ApiKey
from impl.security.config import SecurityProtocol
from impl.security.mechanisms import MECHANISMS, PLAIN, SCRAM_MECHANISMS
from impl.security.scram import InvalidScramMessage, ScramClient

if TYPE_CHECKING:
    from ssl import SSLContext

HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 1
_NONCE_BYTES: Final = 18


class AuthenticationFailedError(ClientError, ConnectionError):
    """The broker refuses this client, or is not the one that knows its password.

    The message names the mechanism, the user and the reason. `SaslAuthenticationException`.
    """


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """Settings of a client's connections. Raises `InvalidArgumentError`.

    Without `ssl_context` TLS trusts the system's authorities.
    """

    security_protocol: str = "PLAINTEXT"
    ssl_context: SSLContext | None = None
    sasl_mechanism: str = PLAIN
    sasl_plain_username: str | None = None
    sasl_plain_password: str | None = None

    def __post_init__(self) -> None:
        """Check each setting."""
        known = [protocol.value for protocol in SecurityProtocol]
        check_choice("security_protocol", self.security_protocol, known)
        check_choice("sasl_mechanism", self.sasl_mechanism, MECHANISMS)
        if self.ssl_context is not None and not hasattr(self.ssl_context, "wrap_bio"):
            raise InvalidArgumentError(
                "ssl_context", "must be an ssl.SSLContext, or None", self.ssl_context
            )
        if self._protocol.has_sasl:
            check_text("sasl_plain_username", self.sasl_plain_username)
            check_text("sasl_plain_password", self.sasl_plain_password)

    @property
    def _protocol(self) -> SecurityProtocol:
        return SecurityProtocol(self.security_protocol)

    @property
    def context(self) -> SSLContext | None:
        """The context of connections; None without TLS."""
        if not self._protocol.has_tls:
            return None
        import ssl

        return self.ssl_context or ssl.create_default_context()

    @property
    def hint(self) -> str:
        """What to look at where connections break at once."""
        return f"is security_protocol={self.security_protocol} that of the listener?"

    async def authenticate(self, connection: Connection) -> None:
        """Authenticate a connection that knows the broker's versions.

        Raises `AuthenticationFailedError`, `ConnectionError`.
        """
        if not self._protocol.has_sasl:
            return
        answer = await connection.request(
            ApiKey.SASL_HANDSHAKE, HANDSHAKE_VERSION, {"mechanism": self.sasl_mechanism}
        )
        if answer["error_code"]:
            enabled = ", ".join(answer["mechanisms"])
            raise self._failed(f"the broker has {enabled}" if enabled else f"no SASL; {self.hint}")
        exchange = self._exchange()
        message = next(exchange)
        while True:
            answer = await connection.request(
                ApiKey.SASL_AUTHENTICATE, AUTHENTICATE_VERSION, {"auth_bytes": message}
            )
            if answer["error_code"]:
                error = ErrorCode.of(answer["error_code"])
                raise self._failed(answer["error_message"] or error.name)
            try:
                message = exchange.send(answer["auth_bytes"])
            except StopIteration:
                return
            except InvalidScramMessage as error:
                raise self._failed(str(error)) from error

    def _failed(self, reason: str) -> AuthenticationFailedError:
        user = self.sasl_plain_username
        return AuthenticationFailedError(f"{self.sasl_mechanism} as {user!r}: {reason}")

    def _exchange(self) -> Generator[bytes, Any, None]:
        """The messages to send; it receives the answer to each."""
        user, password = self.sasl_plain_username or "", self.sasl_plain_password or ""
        if self.sasl_mechanism == PLAIN:
            yield f"\0{user}\0{password}".encode()
            return
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        client = ScramClient(SCRAM_MECHANISMS[self.sasl_mechanism], user, password, nonce)
        challenge = yield client.first()
        client.verify((yield client.final(challenge)))


NO_SECURITY: Final = ClientSecurity()
"""A client without TLS and SASL."""
