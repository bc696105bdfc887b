"""SCRAM: credentials and both sides of an exchange, as pure functions. RFC 5802, RFC 7677.

A broker never keeps a password: a `ScramCredential` proves that a client knows it.
Source: `ScramFormatter`, `ScramMessages` of Kafka 4.3.1.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Final, NamedTuple

from impl.security.mechanisms import ScramMechanism

MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384

_NO_CHANNEL_BINDING: Final = "n,,"


class InvalidScramMessage(ValueError):
    """A message that is not SCRAM's, or that contradicts the exchange."""


class ScramCredential(NamedTuple):
    """What a broker keeps of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


CredentialKey = tuple[str, ScramMechanism]
"""Whose credential it is: a user may have one of each mechanism."""


def derive_credential(
    mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int
) -> ScramCredential:
    """The credential of a password that is salted already."""
    client_key = _sign(mechanism, salted_password, b"Client Key")
    stored_key = hashlib.new(mechanism.digest, client_key).digest()
    server_key = _sign(mechanism, salted_password, b"Server Key")
    return ScramCredential(salt, stored_key, server_key, iterations)


def salt_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Hi(password, salt, iterations) of RFC 5802."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def _sign(mechanism: ScramMechanism, key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, mechanism.digest)


def _exclusive_or(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


# ---- messages

_CLIENT_FIRST: Final = re.compile(
    r"n,(?:a=(?P<authzid>[^,]*))?,(?P<bare>n=(?P<name>[^,]+),"
    r"r=(?P<nonce>[!-+\--~]+)(?:,.*)?)"
)
_SERVER_FIRST: Final = re.compile(
    r"r=(?P<nonce>[!-+\--~]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[0-9]{1,9})(?:,.*)?"
)
_CLIENT_FINAL: Final = re.compile(
    r"(?P<without_proof>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[!-+\--~]+)(?:,.*)?),"
    r"p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_SERVER_FINAL: Final = re.compile(r"v=(?P<verifier>[A-Za-z0-9+/=]+)(?:,.*)?")


def _read(pattern: re.Pattern[str], message: bytes) -> re.Match[str]:
    """Raises `InvalidScramMessage`."""
    try:
        found = pattern.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise InvalidScramMessage("the message is not SCRAM's")
    return found


def _decode(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Base64Error as error:
        raise InvalidScramMessage(f"not base64: {error}") from error


def _encode(content: bytes) -> str:
    return b64encode(content).decode()


def _escape(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


class ClientFirst(NamedTuple):
    """What a client begins with."""

    name: str
    authorization_id: str
    nonce: str
    bare: str


def read_client_first(message: bytes) -> ClientFirst:
    """Raises `InvalidScramMessage`."""
    found = _read(_CLIENT_FIRST, message)
    name, authorization_id = _unescape(found["name"]), _unescape(found["authzid"] or "")
    return ClientFirst(name, authorization_id, found["nonce"], found["bare"])


def format_server_first(first: ClientFirst, server_nonce: str, credential: ScramCredential) -> str:
    """The broker's challenge."""
    nonce, salt = first.nonce + server_nonce, _encode(credential.salt)
    return f"r={nonce},s={salt},i={credential.iterations}"


def answer_client_final(
    mechanism: ScramMechanism,
    credential: ScramCredential,
    first: ClientFirst,
    server_first: str,
    message: bytes,
) -> bytes | None:
    """The broker's last message; None if the client does not know the password.

    Raises `InvalidScramMessage`.
    """
    found = _read(_CLIENT_FINAL, message)
    if found["nonce"] != server_first.partition(",")[0].removeprefix("r="):
        raise InvalidScramMessage("the nonce is another exchange's")
    signed = f"{first.bare},{server_first},{found['without_proof']}".encode()
    signature = _sign(mechanism, credential.stored_key, signed)
    proof = _decode(found["proof"])
    if len(proof) != len(signature):
        return None
    client_key = _exclusive_or(proof, signature)
    key = hashlib.new(mechanism.digest, client_key).digest()
    if not hmac.compare_digest(key, credential.stored_key):
        return None
    return f"v={_encode(_sign(mechanism, credential.server_key, signed))}".encode()


class ScramClient:
    """A client's side of one exchange: it verifies that the broker knows the credential, too."""

    def __init__(self, mechanism: ScramMechanism, name: str, password: str, nonce: str) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._bare = f"n={_escape(name)},r={nonce}"
        self._verifier = b""

    def first(self) -> bytes:
        """The message to begin with."""
        return f"{_NO_CHANNEL_BINDING}{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """The proof, for the broker's challenge. Raises `InvalidScramMessage`."""
        found = _read(_SERVER_FIRST, challenge)
        iterations = int(found["iterations"])
        if not found["nonce"].startswith(self._nonce) or found["nonce"] == self._nonce:
            raise InvalidScramMessage("the nonce is another exchange's")
        if iterations < MIN_ITERATIONS:
            raise InvalidScramMessage(f"{iterations} iterations are fewer than {MIN_ITERATIONS}")
        salted = salt_password(self._mechanism, self._password, _decode(found["salt"]), iterations)
        client_key = _sign(self._mechanism, salted, b"Client Key")
        stored_key = hashlib.new(self._mechanism.digest, client_key).digest()
        without_proof = f"c={_encode(_NO_CHANNEL_BINDING.encode())},r={found['nonce']}"
        signed = f"{self._bare},{challenge.decode()},{without_proof}".encode()
        server_key = _sign(self._mechanism, salted, b"Server Key")
        self._verifier = _sign(self._mechanism, server_key, signed)
        proof = _exclusive_or(client_key, _sign(self._mechanism, stored_key, signed))
        return f"{without_proof},p={_encode(proof)}".encode()

    def verify(self, message: bytes) -> None:
        """Verify the broker's last message. Raises `InvalidScramMessage`."""
        found = _read(_SERVER_FINAL, message)
        if not hmac.compare_digest(_decode(found["verifier"]), self._verifier):
            raise InvalidScramMessage("the broker does not know the password")
