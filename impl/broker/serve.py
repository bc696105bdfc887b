"""The verb `serve`: a broker for clients of any hand, until it is interrupted."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from collections.abc import Iterable, Iterator
from dataclasses import replace
from socket import gaierror
from typing import Final, TypeVar

from impl.addresses import InvalidAddress, parse_address
from impl.broker.embedded import EMBEDDED, Broker
from impl.broker.event_loop import collect_rarely, run
from impl.broker.releases import NEWEST_RELEASE, RELEASES
from impl.broker.topics import MAX_PARTITIONS
from impl.form import FORM
from impl.log.disk import StorageError
from impl.security.config import USER, Password, Security, SecurityProtocol
from impl.security.mechanisms import MECHANISMS
from impl.security.tls import CLIENT_AUTHS, Tls
from impl.settings import LONG_MAX

T = TypeVar("T")
WILDCARDS: Final = ("0.0.0.0", "::")

_log = logging.getLogger(__name__)


class CannotServe(ValueError):
    """What is asked for cannot be served: options that contradict each other, or a directory."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes."""
    parser.add_argument(
        "--listen",
        type=_address,
        default=("127.0.0.1", 9092),
        metavar="HOST:PORT",
        help="address of the first node, 127.0.0.1:9092 by default; other nodes have the ports"
        " after it, or each a free one after port 0",
    )
    parser.add_argument(
        "--advertise",
        type=_host,
        metavar="HOST",
        help="where clients are told to connect to, at the same ports, if they reach this machine"
        " by another name: of a container's host, or of an address behind 0.0.0.0",
    )
    parser.add_argument("--nodes", type=_positive, default=1, help="number of nodes (1)")
    parser.add_argument(
        "--release",
        choices=RELEASES,
        default=NEWEST_RELEASE,
        help=f"of Kafka, whose versions and rules it has ({NEWEST_RELEASE})",
    )
    parser.add_argument(
        "--topic",
        dest="topics",
        type=_topic,
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS]",
        help="a topic to create first; may be repeated",
    )
    parser.add_argument(
        "--partitions", type=_positive, default=1, help="of topics that clients create (1)"
    )
    parser.add_argument(
        "--no-auto-create", action="store_true", help="do not create topics that clients name"
    )
    parser.add_argument(
        "--dir",
        dest="directory",
        metavar="DIR",
        help="keep topics and logs in this directory, and serve those that it has; without it all"
        " is in memory",
    )
    parser.add_argument(
        "--flush-messages",
        type=int,
        metavar="N",
        help="with --dir: flush a log to the disk after N messages; with 1, before each answer."
        " By default the operating system decides, as with Kafka",
    )
    parser.add_argument(
        "--config",
        dest="settings",
        type=_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of all nodes by Kafka's name, such as max.connections=100; may be repeated",
    )
    parser.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default="warning",
        help="what is logged to the standard error (warning)",
    )
    _add_security(parser)


def _add_security(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listener",
        dest="listeners",
        choices=[protocol.value for protocol in SecurityProtocol],
        action="append",
        help="security protocol of a listener; may be repeated, each further one has the ports"
        " after those before (PLAINTEXT)",
    )
    parser.add_argument(
        "--tls-cert",
        metavar="FILE",
        help="the broker's certificate, PEM (default: one of this run, whose authority is printed)",
    )
    parser.add_argument("--tls-key", metavar="FILE", help="its key, PEM")
    parser.add_argument(
        "--tls-ca", metavar="FILE", help="who signs clients' certificates, PEM (--tls-cert)"
    )
    parser.add_argument(
        "--tls-client-auth",
        choices=CLIENT_AUTHS,
        default=CLIENT_AUTHS[0],
        help="whether clients need certificates (none)",
    )
    parser.add_argument(
        "--sasl-user",
        dest="users",
        type=_user,
        action="append",
        default=[],
        metavar="NAME:PASSWORD",
        help="a user of SASL PLAIN and SCRAM; may be repeated",
    )
    parser.add_argument(
        "--sasl-password",
        dest="passwords",
        type=_password,
        action="append",
        default=[],
        metavar="MECHANISM:NAME:PASSWORD",
        help="a user's password for one mechanism, such as SCRAM-SHA-512:alice:secret; may be"
        " repeated",
    )
    parser.add_argument(
        "--super-user",
        dest="super_users",
        action="append",
        default=[],
        metavar="PRINCIPAL",
        help="User:NAME, who may do everything; may be repeated. Others may do what ACLs allow",
    )
    parser.add_argument(
        "--allow-everyone-if-no-acl-found",
        action="store_true",
        help="with ACLs: a resource without any is open to all",
    )


def problems_of(options: argparse.Namespace) -> Iterator[str]:
    """What is asked for and would not be done: each option that needs another one."""
    protocols = [SecurityProtocol(name) for name in options.listeners or ("PLAINTEXT",)]
    has_tls = any(protocol.has_tls for protocol in protocols)
    has_sasl = any(protocol.has_sasl for protocol in protocols)
    is_for_users = all(protocol.has_sasl for protocol in protocols)
    needs_tls, needs_sasl = (
        f"is for a listener with {what}: add --listener {names}"
        for what, names in (("TLS", "SSL or SASL_SSL"), ("SASL", "SASL_PLAINTEXT or SASL_SSL"))
    )
    rows = (
        (options.tls_cert and not has_tls, f"--tls-cert {needs_tls}"),
        (options.tls_key and not options.tls_cert, "--tls-key is the key of --tls-cert: add it"),
        (options.tls_ca and not options.tls_cert, "--tls-ca goes with --tls-cert: add it"),
        (options.tls_client_auth != "none" and not has_tls, f"--tls-client-auth {needs_tls}"),
        (options.users and not has_sasl, f"--sasl-user {needs_sasl}"),
        (options.passwords and not has_sasl, f"--sasl-password {needs_sasl}"),
        (
            is_for_users and not (options.users or options.passwords or options.directory),
            "all listeners have SASL, and nobody could connect: add --sasl-user NAME:PASSWORD",
        ),
        (
            options.flush_messages is not None and not options.directory,
            "--flush-messages is about files: add --dir DIR",
        ),
    )
    yield from (problem for is_so, problem in rows if is_so)
    for name in options.super_users:
        if not name.startswith(USER):
            yield f"--super-user {name} is no principal: write {USER}{name}"


def once(option: str, pairs: Iterable[tuple[str, T]]) -> dict[str, T]:
    """The pairs by name. Raises `CannotServe` for a name that is given twice."""
    found: dict[str, T] = {}
    for name, value in pairs:
        if name in found:
            raise CannotServe(f"{option} {name} is given twice: leave one out")
        found[name] = value
    return found


def _user(text: str) -> tuple[str, str]:
    name, _, password = text.partition(":")
    if not name or not password:
        raise argparse.ArgumentTypeError(f"must be NAME:PASSWORD, is {name!r} alone")
    return name, password


def _password(text: str) -> tuple[tuple[str, str], str]:
    mechanism, _, user = text.partition(":")
    if mechanism not in MECHANISMS:
        raise argparse.ArgumentTypeError(
            f"must be MECHANISM:NAME:PASSWORD with one of {', '.join(MECHANISMS)}"
        )
    name, password = _user(user)
    return (name, mechanism), password


def _users_of(options: argparse.Namespace) -> dict[str, Password]:
    """Those with one password, and those with some of their own for a mechanism."""
    users: dict[str, Password] = dict(once("--sasl-user", options.users))
    named = [
        (f"{mechanism}:{name}", (name, mechanism)) for (name, mechanism), _ in options.passwords
    ]
    once("--sasl-password", named)
    for (name, mechanism), password in options.passwords:
        known = users.get(name, {})
        every = dict.fromkeys(MECHANISMS, known) if isinstance(known, str) else known
        users[name] = {**every, mechanism: password}
    return users


def _security_of(options: argparse.Namespace) -> Security:
    """Raises `InvalidSetting`."""
    tls = None
    if options.tls_cert:
        key, authority = options.tls_key or options.tls_cert, options.tls_ca or options.tls_cert
        tls = Tls(options.tls_cert, key, authority)
    return Security(
        listeners=tuple(options.listeners or (SecurityProtocol.PLAINTEXT.value,)),
        users=_users_of(options),
        tls=tls,
        ssl_client_auth=options.tls_client_auth,
        acls=() if options.super_users or options.allow_everyone_if_no_acl_found else None,
        super_users=tuple(options.super_users),
        allow_everyone_if_no_acl_found=options.allow_everyone_if_no_acl_found,
    )


def _address(text: str) -> tuple[str, int]:
    if "://" in text:
        raise argparse.ArgumentTypeError(
            f"must be HOST:PORT, is {text!r}: --listener says which protocol is served there"
        )
    try:
        return parse_address(text, least_port=0)
    except InvalidAddress as error:
        raise argparse.ArgumentTypeError(f"must be HOST:PORT: {error}") from None


def _host(text: str) -> str:
    host = text.strip("[]")
    if not host or (":" in host and not _is_ip_address(host)):
        raise argparse.ArgumentTypeError(f"must be a host without a port, is {text!r}")
    return host


def _is_ip_address(text: str) -> bool:
    from ipaddress import ip_address  # most hosts have no colon

    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, is {text!r}")
    return name, value


def _positive(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= MAX_PARTITIONS:
        raise argparse.ArgumentTypeError(f"must be from 1 to {MAX_PARTITIONS}, is {text!r}")
    return int(text)


def _topic(text: str) -> tuple[str, int]:
    name, _, partitions = text.partition(":")
    return name, _positive(partitions or "1")


def execute(options: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM; the exit code. Raises `OSError`, `CannotServe`."""
    logging.basicConfig(
        level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    collect_rarely()  # a directory's logs are read before anything is served
    try:
        broker = broker_of(options)
        run(serve(broker, names_authority=not options.tls_cert), has_tls=broker.has_tls)
    except (ValueError, StorageError) as error:
        raise CannotServe(str(error)) from error
    except gaierror as error:
        raise CannotServe(f"--listen {options.listen[0]}: {error.strerror}") from error
    return 0


def broker_of(options: argparse.Namespace) -> Broker:
    """The broker that is asked for, recovered but not started. Raises `OSError`, `StorageError`,
    and `ValueError` for a setting that is none."""
    for problem in problems_of(options):
        raise CannotServe(problem)
    host, port = options.listen
    if host in WILDCARDS and options.advertise is None:
        _log.warning(
            "clients are told to connect to %s, which only those of this machine can: --advertise"
            " the name by which others reach it",
            host,
        )
    config = replace(
        EMBEDDED,
        host=host,
        advertised_host=options.advertise,
        port=port,
        num_partitions=options.partitions,
        auto_create_topics=not options.no_auto_create,
    )
    flush_messages = LONG_MAX if options.flush_messages is None else options.flush_messages
    config = replace(config, log=replace(config.log, flush_messages=flush_messages))
    return Broker(
        nodes=options.nodes,
        topics=once("--topic", options.topics),
        config=config,
        settings=once("--config", options.settings),
        release=options.release,
        directory=options.directory,
        security=_security_of(options),
    )


FORMS: Final = {
    "compiled": "form: compiled",
    "python": "form: Python; an installation with KAFKA_EOS_COMPILED=1 is compiled",
}
"""What the broker says of the form in which it runs."""


async def serve(broker: Broker, *, names_authority: bool = True) -> None:
    """Serve, and say where, until SIGINT or SIGTERM. `names_authority`: clients are told which file
    has the authority of the certificates."""
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted.set)
    async with broker as kafka:
        for listener in kafka.listeners:
            which = f" {listener}" if len(kafka.listeners) > 1 else ""
            print(f"serves{which} at {kafka.bootstrap_servers_of(listener)}", flush=True)
        if kafka.has_tls and names_authority:
            print(f"certificate authority, for clients: {kafka.tls.ca_file}", flush=True)
        print(FORMS[FORM], flush=True)
        await interrupted.wait()
