"""Files of `--command-config`: how Kafka's command-line tools are told to prove who they are.

Settings of TLS and SASL that are not known here are refused, as without them another connection
would be made than the file asks for; all others are of no effect on how a client connects.
Source: `SaslConfigs`, `SslConfigs`, `JaasConfig`, `DefaultSslEngineFactory` of Kafka 4.3.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from impl.client.errors import InvalidArgumentError
from impl.client.security import ClientSecurity
from impl.properties import InvalidProperty, decode_properties
from impl.security.config import SecurityProtocol
from impl.security.mechanisms import PLAIN
from impl.security.tls import client_context

if TYPE_CHECKING:
    import ssl

PEM: Final = "PEM"
JKS: Final = "JKS"
"""What Kafka takes a store for whose type is not given."""
GSSAPI: Final = "GSSAPI"
"""Kafka's default of `sasl.mechanism`."""

_PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = "sasl.mechanism"
_JAAS: Final = "sasl.jaas.config"
_TRUSTED: Final = "ssl.truststore.location"
_TRUSTED_TYPE: Final = "ssl.truststore.type"
_OWN: Final = "ssl.keystore.location"
_OWN_TYPE: Final = "ssl.keystore.type"
_PASSWORD: Final = "ssl.key.password"
_IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
_KNOWN: Final = (
    *(_PROTOCOL, _MECHANISM, _JAAS, _TRUSTED, _TRUSTED_TYPE),
    *(_OWN, _OWN_TYPE, _PASSWORD, _IDENTIFICATION),
)

_LOGIN: Final = re.compile(r"\s*[\w.$]+\s+required\b(.*);\s*", re.DOTALL)
_OPTION: Final = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s"';]+))""")
_AS_PEM: Final = {
    _TRUSTED: "keytool -list -rfc -keystore {path} > {path}.pem",
    _OWN: "openssl pkcs12 -in {path} -out {path}.pem",
}
"""How a store becomes a file in PEM."""


class InvalidCommandConfig(ValueError):
    """A setting that cannot be used: the message names the file and the setting."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


def read_command_config(path: Path) -> ClientSecurity:
    """The security of the client that the file describes.

    Raises `InvalidCommandConfig`, and `OSError` if a file cannot be read.
    """
    try:
        settings = decode_properties(path.read_bytes())
        _check_names(settings)
        return _security(settings)
    except (InvalidProperty, InvalidArgumentError) as error:
        raise InvalidCommandConfig(path, str(error)) from error


def _check_names(names: Iterable[str]) -> None:
    """Raises `InvalidProperty`."""
    for name in names:
        if name.startswith(("ssl.", "sasl.")) and name not in _KNOWN:
            known = ", ".join(_KNOWN)
            raise InvalidProperty(f"{name} is not known here; of TLS and SASL there are {known}")


def _security(settings: Mapping[str, str]) -> ClientSecurity:
    """Raises `InvalidProperty`, `InvalidArgumentError`, `OSError`."""
    protocol = settings.get(_PROTOCOL, SecurityProtocol.PLAINTEXT.value).upper()
    if protocol not in [known.value for known in SecurityProtocol]:
        return ClientSecurity(protocol)  # which says what there is
    user = _login(settings) if SecurityProtocol(protocol).has_sasl else {}
    return ClientSecurity(
        protocol,
        _context(settings) if SecurityProtocol(protocol).has_tls else None,
        settings.get(_MECHANISM, GSSAPI) if user else PLAIN,
        user.get("username"),
        user.get("password"),
    )


def _login(settings: Mapping[str, str]) -> dict[str, str]:
    """The options of a login module. Raises `InvalidProperty`, which has no password in it."""
    login = _LOGIN.fullmatch(settings.get(_JAAS, ""))
    options = _OPTION.finditer(login[1] if login else "")
    found = {option[1]: option[2] or option[3] or option[4] for option in options}
    if not {"username", "password"} <= found.keys():
        raise InvalidProperty(
            f'{_JAAS} must be: MODULE required username="NAME" password="PASSWORD";'
        )
    return {name: re.sub(r"\\(.)", r"\1", text or "") for name, text in found.items()}


def _context(settings: Mapping[str, str]) -> ssl.SSLContext:
    """TLS by the files of the settings. Raises `InvalidProperty`, `OSError`."""
    trusted = _file_in_pem(settings, _TRUSTED, _TRUSTED_TYPE)
    own = _file_in_pem(settings, _OWN, _OWN_TYPE)
    context = client_context(trusted, own, None, settings.get(_PASSWORD, ""))
    if settings.get(_IDENTIFICATION) == "":
        context.check_hostname = False
    return context


def _file_in_pem(settings: Mapping[str, str], location: str, kind: str) -> str | None:
    """The path of a store; None without one. Raises `InvalidProperty` for one of Java's types."""
    path = settings.get(location)
    if path is not None and settings.get(kind, JKS).upper() != PEM:
        command = _AS_PEM[location].format(path=path)
        raise InvalidProperty(
            f"{location} must be in PEM: `{command}` makes such a file; name it, with {kind}={PEM}"
        )
    return path
