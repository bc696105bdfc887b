"""TLS: files of certificates, contexts of both sides, and the names in certificates.

Source: `SslPrincipalMapper`, `DefaultKafkaPrincipalBuilder`; names are written as by RFC 2253.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    import ssl

T = TypeVar("T")

CLIENT_AUTHS: Final = ("none", "requested", "required")
"""`ssl.client.auth`, in the order of the numbers of `ssl.VerifyMode`."""

_CERTIFICATE: Final = "CERTIFICATE"
_KEY: Final = "PRIVATE KEY"
"""How the parts of a file in PEM are labelled: `BEGIN RSA PRIVATE KEY` ends so, too."""

_SHORT_NAMES: Final = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_EMAIL: Final = "1.2.840.113549.1.9.1"
_IA5_STRING: Final = b"\x16"
_SPECIAL: Final = frozenset(',+"\\<>;')


class InvalidCertificate(OSError):
    """A file is no certificate, or no key, in PEM; or the two do not belong together."""


class Tls(NamedTuple):
    """Files in PEM: a broker's certificate and key, and the authority that clients trust.

    The authority signs clients' certificates as well; `client_cert_file` is one of them.
    """

    cert_file: str
    key_file: str
    ca_file: str
    client_cert_file: str | None = None
    client_key_file: str | None = None

    def server_context(self, client_auth: str) -> ssl.SSLContext:
        """For listeners. Raises `OSError` if a file cannot be read, `InvalidCertificate`."""
        import ssl  # whoever has no TLS does not wait for it

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _load_chain(context, self.cert_file, self.key_file)
        _of_authority(self.ca_file, partial(context.load_verify_locations, self.ca_file))
        context.verify_mode = ssl.VerifyMode(CLIENT_AUTHS.index(client_auth))
        return context

    def client_context(self) -> ssl.SSLContext:
        """For clients; with the client's certificate, if there is one.

        Raises `OSError`, `InvalidCertificate`.
        """
        return client_context(self.ca_file, self.client_cert_file, self.client_key_file)


def client_context(
    ca_file: str | None, cert_file: str | None, key_file: str | None, key_password: str = ""
) -> ssl.SSLContext:
    """For clients that trust an authority, None for the system's, and may have a certificate.

    Raises `OSError`, `InvalidCertificate`.
    """
    import ssl

    if ca_file is None:
        context = ssl.create_default_context()
    else:
        context = _of_authority(ca_file, partial(ssl.create_default_context, cafile=ca_file))
    if cert_file is not None:
        _load_chain(context, cert_file, key_file, key_password)
    return context


def _load_chain(
    context: ssl.SSLContext, cert_file: str, key_file: str | None, key_password: str = ""
) -> None:
    """A certificate and its key, which may be in one file. Errors of ssl name none.

    Raises `OSError`, `InvalidCertificate`.
    """
    _check_pem(cert_file, _CERTIFICATE)
    _check_pem(key_file or cert_file, _KEY)
    files = f"{cert_file} and {key_file or cert_file}"
    _with_names(
        f"{files} are no certificate and its key",
        partial(context.load_cert_chain, cert_file, key_file, key_password),
    )


def _of_authority(ca_file: str, load: Callable[[], T]) -> T:
    """What is loaded of an authority's certificate. Raises `OSError`, `InvalidCertificate`."""
    _check_pem(ca_file, _CERTIFICATE)
    return _with_names(f"{ca_file} is no certificate", load)


def _with_names(problem: str, load: Callable[[], T]) -> T:
    """Raises `InvalidCertificate`."""
    try:
        return load()
    except OSError as error:
        raise InvalidCertificate(f"{problem}: {error}") from error


def _check_pem(path: str, label: str) -> None:
    """Raises `OSError` if a file cannot be read, `InvalidCertificate` if it has no such part."""
    from pathlib import Path  # most brokers have no TLS

    if f"{label}-----".encode() not in Path(path).read_bytes():
        raise InvalidCertificate(f"{path} has no {label} in PEM")


def format_subject(certificate: Any) -> str:
    """The name in a certificate as `getpeercert` returns it: CN=alice,O=example."""
    parts = [_format_part(*pair) for part in certificate["subject"] for pair in part]
    return ",".join(reversed(parts))


def _format_part(name: str, value: str) -> str:
    if name == "emailAddress":
        encoded = value.encode()
        return f"{_EMAIL}=#{(_IA5_STRING + bytes([len(encoded)]) + encoded).hex()}"
    escaped = "".join(f"\\{c}" if c in _SPECIAL else c for c in value)
    if escaped[:1] in ("#", " "):
        escaped = f"\\{escaped}"
    return f"{_SHORT_NAMES.get(name, name)}={escaped}"
