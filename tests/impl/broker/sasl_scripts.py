"""What a client sends before, during and after SASL, step by step, and what is answered."""

from __future__ import annotations

import socket
from typing import Any

from impl.protocol.messages import decode_response, encode_request
from impl.protocol.primitives import frame, take_frames
from impl.protocol.schemas import ApiKey

SECONDS = 10
CLOSED = "closed"
Step = bytes | tuple[ApiKey, int, dict[str, Any]]
"""A request, or bare bytes in a frame."""

VERSIONS: Step = (
    ApiKey.API_VERSIONS,
    3,
    {"client_software_name": "c", "client_software_version": "1"},
)
METADATA: Step = (ApiKey.METADATA, 9, {"topics": [], "allow_auto_topic_creation": False})
NEWER_VERSIONS = b"\0\x12\0\x63\0\0\0\x07\0\x01c\0"
"""ApiVersions 99."""


def hands(mechanism: str = "PLAIN", version: int = 1) -> Step:
    return ApiKey.SASL_HANDSHAKE, version, {"mechanism": mechanism}


def token(text: str, version: int = 1) -> Step:
    return ApiKey.SASL_AUTHENTICATE, version, {"auth_bytes": text.encode()}


GOOD = "\0reader\0secret"
SCRAM = "SCRAM-SHA-256"
SCRIPTS: list[list[Step]] = [
    [METADATA],
    [VERSIONS, METADATA],
    [VERSIONS, VERSIONS],
    [NEWER_VERSIONS, VERSIONS, hands(), token(GOOD), METADATA],
    [NEWER_VERSIONS, NEWER_VERSIONS, VERSIONS],
    [token(GOOD)],
    [hands("GSSAPI")],
    [hands("plain", 0)],
    [hands(), hands()],
    [hands(), METADATA],
    [hands(), VERSIONS],
    [hands(), b"garbage"],
    *([hands(), token("\0reader\0wrong", version)] for version in (0, 1, 2)),
    [hands(), token("\0nobody-knows\0secret"), METADATA],
    [hands(), token("")],
    [hands(), token("reader secret")],
    [hands(), token("\0\0")],
    [hands(), token("\0reader\0")],
    [hands(), token("\0\0secret")],
    [hands(), token("\0reader\0secret\0more")],
    [hands(), token("reader\0reader\0secret"), METADATA],
    [hands(), token("writer\0reader\0secret")],
    [hands(), token("writer\0reader\0wrong")],
    [hands(SCRAM), token("n,,n=nobody-knows,r=abc")],
    [hands(SCRAM), token("")],
    [hands(SCRAM), token("p=tls-unique,,n=reader,r=abc")],
    [hands(SCRAM), token("y,,n=reader,r=abc")],
    [hands(SCRAM), token("n,,n=,r=abc")],
    [hands(version=0), GOOD.encode(), METADATA],
    [hands(version=0), b"\0reader\0wrong"],
    [hands(version=0), token(GOOD)],
    [hands(), token(GOOD), METADATA, VERSIONS, VERSIONS],
    [hands(), token(GOOD), token(GOOD), METADATA],
    [hands(), token(GOOD), hands(), METADATA],
    *([hands(), token(GOOD, version)] for version in (0, 2)),
]


def play(address: tuple[str, int], steps: list[Step]) -> list[Any]:
    """The answer to each step, in brief, until the broker closes the connection."""
    with socket.create_connection(address, SECONDS) as connection:
        answers: list[Any] = []
        for step in steps:
            payload = (
                step if isinstance(step, bytes) else encode_request(*step[:2], 7, "c", step[2])
            )
            connection.sendall(frame(payload))
            answer = _receive(connection)
            if answer is None:
                return [*answers, CLOSED]
            answers.append(_brief(step, answer))
        return answers


def _receive(connection: socket.socket) -> bytes | None:
    buffer = bytearray()
    while True:
        for payload in take_frames(buffer):
            return payload
        try:
            data = connection.recv(1 << 16)
        except ConnectionResetError:
            return None
        if not data:
            return None
        buffer += data


def _brief(step: Step, payload: bytes) -> Any:
    if step is NEWER_VERSIONS:
        step = VERSIONS
    if isinstance(step, bytes):
        return payload.hex()
    answer = decode_response(*step[:2], payload)[1]
    kept = ("error_code", "error_message", "mechanisms", "auth_bytes", "session_lifetime_ms")
    brief = {key: answer[key] for key in kept if key in answer}
    if "mechanisms" in brief:
        brief["mechanisms"] = sorted(brief["mechanisms"])
    if "auth_bytes" in brief:
        brief["auth_bytes"] = brief["auth_bytes"].hex()
    return brief
