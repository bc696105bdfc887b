"""TLS: files of certificates, contexts of both sides, and the names in certificates.

Source: `SslPrincipalMapper`, `DefaultKafkaPrincipalBuilder`; names are written as by RFC 2253.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import ssl

CLIENT_AUTHS: Final = ("none", "requested", "required")
"""`ssl.client.auth`, in the order of the numbers of `ssl.VerifyMode`."""

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
        """For listeners. Raises `OSError` if a file cannot be read, or is no certificate."""
        import ssl  # whoever has no TLS does not wait for it

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert_file, self.key_file)
        context.load_verify_locations(self.ca_file)
        context.verify_mode = ssl.VerifyMode(CLIENT_AUTHS.index(client_auth))
        return context

    def client_context(self) -> ssl.SSLContext:
        """For clients; with the client's certificate, if there is one. Raises `OSError`."""
        import ssl

        context = ssl.create_default_context(cafile=self.ca_file)
        if self.client_cert_file is not None:
            context.load_cert_chain(self.client_cert_file, self.client_key_file)
        return context


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
