"""Certificates for tests: an authority, and what it signs, made by the openssl program."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from impl.security.tls import Tls


class MissingCertificates(OSError):
    """The openssl program cannot make certificates: install OpenSSL 3, or give `Security.tls`."""


_FOLDER: Final = "kafka-eos-tls-"
_NEW_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _folder_of_process() -> Path:
    """A new folder, removed when the process ends."""
    folder = tempfile.mkdtemp(prefix=_FOLDER)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


_LOCAL_NAMES: Final = ("DNS:localhost", "IP:127.0.0.1", "IP:::1")


def certificates_of_process(host: str = "localhost") -> Tls:
    """An authority, and certificates for a client and for a broker at localhost and at `host`.

    They are made once in a process.

    Raises `MissingCertificates`.
    """
    name = _alternative_name(host)
    return _certificates(_LOCAL_NAMES if name in _LOCAL_NAMES else (*_LOCAL_NAMES, name))


def _alternative_name(host: str) -> str:
    """A host as certificates have it. RFC 5280, 4.2.1.6."""
    try:
        return f"IP:{ip_address(host)}"
    except ValueError:
        return f"DNS:{host}"


@cache
def _certificates(alternative_names: tuple[str, ...]) -> Tls:
    """Made once for the names of a broker.

    Raises `MissingCertificates`.
    """
    folder = _folder_of_process()
    authority = _make(folder, "ca", "kafka-eos tests", "basicConstraints=critical,CA:TRUE")
    signed = ("-CA", authority[0], "-CAkey", authority[1])
    names = f"subjectAltName={','.join(alternative_names)}"
    broker = _make(folder, "broker", "localhost", names, *signed)
    client = _make(folder, "client", "client", "basicConstraints=CA:FALSE", *signed)
    return Tls(*broker, authority[0], *client)


def _make(folder: Path, name: str, common_name: str, extension: str, *more: str) -> tuple[str, str]:
    """The files of a new certificate and its key. Raises `MissingCertificates`."""
    certificate, key = str(folder / f"{name}.pem"), str(folder / f"{name}.key")
    files = ("-out", certificate, "-keyout", key)
    named = ("-subj", f"/CN={common_name}", "-addext", extension, "-days", "3650")
    command = ["openssl", "req", "-x509", *_NEW_KEY, *files, *named, *more]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        problem = getattr(error, "stderr", None) or error
        raise MissingCertificates(
            f"openssl made no certificate: {problem}; install OpenSSL 3, or give Security.tls"
        ) from error
    return certificate, key
