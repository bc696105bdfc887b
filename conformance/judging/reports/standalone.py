"""The part that all scripts of raw requests have in common: it sends bytes and reads answers.

It imports the standard library alone, and nothing imports it: `script.py` copies its text. A script
is this text behind its three tables.

EXCHANGES  what is sent, in order; `bytes` are hexadecimal, with what differs from run to run in
           braces: {correlation}, {now}, {name N L} (a topic or id of L letters), {producer N} (an
           id that an earlier answer gave), {crc N} (of the next N bytes). `to` is a Metadata or
           FindCoordinator that names who is asked; without it any broker is
LAYOUTS    the fields of each answer, by API and version
ERRORS     the names of error codes
"""

from __future__ import annotations

import itertools
import re
import secrets
import socket
import struct
import sys
import time
from typing import Any

EXCHANGES: list[dict[str, Any]] = []
LAYOUTS: dict[str, Any] = {}
ERRORS: dict[int, str] = {}

# ---- begin of the script's text

ANSWER_TIMEOUT_S = 10.0
SETTLE_S = 3.0  # how long an answer may take to become the expected one
PAUSE_S = 0.05
NOT_YET = (3, 5, 6, 14, 15, 16, 51)  # no leader or coordinator yet, or markers to be written
READS = ("FETCH", "DESCRIBE_PRODUCERS", "DESCRIBE_TRANSACTIONS", "OFFSET_FETCH", "LIST_OFFSETS")
MARKERS = ("ABORT", "COMMIT")
NAMED = {"producer_id": "P", "coordinator_epoch": "E"}  # by the order of first sight
NUMBERS = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "bool": ">?"}

Row = dict[str, Any]
Address = tuple[str, int]
Seen = dict[str, list[int]]


class Reader:
    """Reads an answer by its layout."""

    def __init__(self, data: bytes, is_flexible: bool) -> None:
        self.data = data
        self.at = 0
        self.is_flexible = is_flexible

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count < 0 or self.at + count > len(self.data):
            raise ValueError(f"the answer ends early, at byte {len(self.data)}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, kind: str) -> Any:
        """A number of fixed width."""
        return struct.unpack(NUMBERS[kind], self.take(struct.calcsize(NUMBERS[kind])))[0]

    def varint(self) -> int:
        """An unsigned number, seven bits a byte."""
        total = 0
        for shift in itertools.count(0, 7):
            byte = self.take(1)[0]
            total |= (byte & 127) << shift
            if byte < 128:
                return total
        raise AssertionError

    def length(self, width: str) -> int:
        """A length, or -1 for null."""
        return self.varint() - 1 if self.is_flexible else int(self.number(width))

    def struct(self, fields: Any) -> Row:
        """Named fields, and behind them tagged ones, which are skipped."""
        row = {name: self.field(*rest) for name, *rest in fields}
        self.skip_tags()
        return row

    def skip_tags(self) -> None:
        """Tagged fields, where the version has them."""
        for _ in range(self.varint() if self.is_flexible else 0):
            self.varint()
            self.take(self.varint())

    def field(self, kind: str, is_array: bool, children: Any) -> Any:
        """A field, or an array of them."""
        if not is_array:
            return self.value(kind, children)
        count = self.length("int32")
        return None if count < 0 else [self.value(kind, children) for _ in range(count)]

    def value(self, kind: str, children: Any) -> Any:
        """One value."""
        if kind in NUMBERS:
            return self.number(kind)
        if kind == "uuid":
            return self.take(16).hex()
        if kind not in ("string", "bytes"):
            return self.struct(children)
        length = self.length("int16" if kind == "string" else "int32")
        data = None if length < 0 else self.take(length)
        return data.decode() if kind == "string" and data is not None else data


def batches(data: bytes | None) -> list[Row]:
    """The record batches of a log: KIP-98's format."""
    rows: list[Row] = []
    at, data = 0, data or b""
    while at + 61 <= len(data):
        offset, size, _, _, _, attributes = struct.unpack_from(">qiibIh", data, at)
        if at + 12 + size > len(data):
            break
        producer, epoch, sequence, count = struct.unpack_from(">qhii", data, at + 43)
        row = {"base_offset": offset, "producer_id": producer, "producer_epoch": epoch}
        row |= {"kind": "DATA", "base_sequence": sequence, "records": count}
        if attributes & 32:  # a control batch: the key of its record says what it is
            reader = Reader(data[at + 61 : at + 12 + size], True)
            for _ in range(4):  # length, attributes, differences of time and offset, key's length
                reader.varint()
            reader.varint()
            kind = struct.unpack(">hh", reader.take(4))[1]
            row = {**row, "kind": MARKERS[kind] if kind < 2 else f"control {kind}"}
            row.pop("base_sequence"), row.pop("records")
        rows.append(row)
        at += 12 + size
    return rows


def flat(value: Any, path: str, seen: Seen) -> Row:
    """Each number and text of an answer by its place; what is NAMED by its name."""
    parts: Row = {}
    if isinstance(value, dict):
        for name, inner in value.items():
            parts |= flat(inner, f"{path}.{name}" if path else name, seen)
        return parts
    if isinstance(value, list):
        for index, inner in enumerate(value):
            key = str(index)
            if path.endswith("active_producers"):
                key = named("producer_id", inner["producer_id"], seen)
            parts |= flat(inner, f"{path}[{key}]", seen)
        return parts
    if isinstance(value, bytes) or (value is None and path.endswith("records")):
        return flat(batches(value), path, seen)
    field = path.rpartition(".")[2]
    return {path: named(field, value, seen) if field in seen and value >= 0 else value}


def named(field: str, value: int, seen: Seen) -> str:
    """P0 is the first producer id that an answer gave."""
    known = seen[field]
    if value not in known:
        known.append(value)
    return f"{NAMED[field]}{known.index(value)}"


def crc32c(data: bytes) -> int:
    """Castagnoli's checksum."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def node_named(found: Row, partition: int | None) -> Address | None:
    """Who leads a partition by an answer of Metadata; None for it: who coordinates, by one of
    FindCoordinator. Nobody may, yet."""
    if partition is None:
        return None if found["error_code"] else (found["host"], found["port"])
    leaders = [
        found[f"{place[: -len('partition_index')]}leader_id"]
        for place, value in found.items()
        if place.endswith("].partition_index") and value == partition
    ]
    for place, value in found.items():
        if place.startswith("brokers[") and place.endswith("node_id") and value in leaders:
            broker = place[: -len("node_id")]
            return found[f"{broker}host"], found[f"{broker}port"]
    return None


class NothingAnswers(Exception):
    """Not one answer came."""


class RequestSender:
    """Sends the requests, over a connection for each name and broker; `answered` counts answers."""

    def __init__(self, host: str, port: int) -> None:
        self.address = (host, port)
        self.connections: dict[tuple[str, Address], socket.socket] = {}
        self.seen: Seen = {field: [] for field in NAMED}
        self.names: dict[str, bytes] = {}
        self.correlation = self.answered = 0
        self.now_ms = int(time.time() * 1000)

    def request(self, template: str) -> bytes:
        """The bytes of a template."""
        out, sums = bytearray(), []
        for part in re.split(r"(\{[^}]*\})", template):
            word, _, more = part.strip("{}").partition(" ")
            if not part.startswith("{"):
                out += bytes.fromhex(part)
            elif word == "correlation":
                out += struct.pack(">i", self.correlation)
            elif word == "now":
                out += struct.pack(">q", self.now_ms)
            elif word == "producer":
                producers = self.seen["producer_id"]
                if int(more) >= len(producers):
                    raise ValueError(f"no answer gave P{more}")
                out += struct.pack(">q", producers[int(more)])
            elif word == "crc":
                sums.append((len(out), int(more)))
                out += bytes(4)
            else:
                out += self.name(more)
        for at, size in sums:
            out[at : at + 4] = struct.pack(">I", crc32c(bytes(out[at + 4 : at + 4 + size])))
        return struct.pack(">i", len(out)) + out

    def name(self, text: str) -> bytes:
        """A name that nobody had: its number, and how long it is."""
        if text not in self.names:
            length = int(text.partition(" ")[2])
            self.names[text] = f"n{secrets.token_hex(length)}"[:length].encode()
        return self.names[text]

    def ask(self, exchange: Row, address: Address) -> Row:
        """A broker's answer, each field by its place."""
        self.correlation += 1
        wire = self.connection(exchange["connection"], address)
        wire.sendall(self.request(exchange["bytes"]))
        size = struct.unpack(">i", received(wire, 4))[0]
        layout = LAYOUTS[exchange["api"]]
        reader = Reader(received(wire, size), layout["flexible"])
        self.answered += 1
        if reader.number("int32") != self.correlation:
            raise ValueError("an answer to another request")
        if layout["header_tags"]:
            reader.skip_tags()
        return flat(reader.struct(layout["fields"]), "", self.seen)

    def connection(self, name: str, address: Address) -> socket.socket:
        """Opened at first use."""
        key = (name, address)
        if key not in self.connections:
            self.connections[key] = socket.create_connection(address, ANSWER_TIMEOUT_S)
        return self.connections[key]

    def asked_broker(self, exchange: Row) -> Address:
        """Who leads or coordinates what a request is about, asked each time: it may move."""
        if "to" not in exchange:
            return self.address
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while time.monotonic() < deadline:
            found = self.ask({**exchange["to"], "connection": "lookups"}, self.address)
            broker = node_named(found, exchange["to"].get("partition"))
            if broker:
                return broker
            time.sleep(PAUSE_S)
        raise ValueError("no broker leads the partition, or coordinates")

    def answer(self, exchange: Row) -> Row:
        """The answer; asked again while it may still become the expected one."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            found = self.ask(exchange, self.asked_broker(exchange))
            errors = [v for k, v in found.items() if k.endswith("error_code") and v]
            may_change = exchange["api"].split()[0] in READS or any(e in NOT_YET for e in errors)
            is_over = not may_change or time.monotonic() > deadline
            if is_over or not differing(exchange["expect"], found):
                return found
            time.sleep(PAUSE_S)


def received(wire: socket.socket, count: int) -> bytes:
    """So many bytes."""
    data = b""
    while len(data) < count:
        part = wire.recv(count - len(data))
        if not part:
            raise ConnectionError("the broker closed the connection")
        data += part
    return data


def differing(expected: Row, found: Row) -> list[str]:
    """The places where an answer is not the expected one; None stands for nothing."""
    return [place for place, value in expected.items() if found.get(place) != value]


def said(place: str, value: Any) -> str:
    """A value; an error by its name."""
    if value is None:
        return "nothing"
    if place.endswith("error_code") and isinstance(value, int):
        return f"{value} ({ERRORS.get(value, 'not in the table')})"
    return str(value)


def play(player: RequestSender) -> int:
    """All exchanges; how many answers differ. Raises NothingAnswers."""
    count = 0
    for number, exchange in enumerate(EXCHANGES, start=1):
        print(f"\n{number}. {exchange['says']}")
        try:
            found = player.answer(exchange)
        except (OSError, ValueError) as error:
            if not player.answered and isinstance(error, OSError):
                raise NothingAnswers(str(error)) from error
            print(f"   DIFFERS  no answer that can be read: {error}")
            return count + 1
        wrong = differing(exchange["expect"], found)
        for place, value in exchange["expect"].items():
            if place in wrong:
                print(f"   DIFFERS  {place}")
                print(f"            expected {said(place, value)}")
                print(f"            observed {said(place, found.get(place))}")
            else:
                print(f"   ok       {place} = {said(place, value)}")
        count += bool(wrong)
    return count


def main(arguments: list[str]) -> int:
    """Play all at HOST:PORT: 0 if every answer is the expected one, 1 if not, 2 for bad use."""
    host, _, port = arguments[-1].rpartition(":")
    if len(arguments) != 2 or not host or not port.isdigit() or int(port) > 65535:
        print(__doc__)
        return 2
    try:
        count = play(RequestSender(host, int(port)))
    except NothingAnswers as error:
        print(
            f"nothing answers at {host}:{port}: {error}; start the broker, or name the address of"
            " its plaintext listener without SASL",
            file=sys.stderr,
        )
        return 2
    print(f"\n{count} of {len(EXCHANGES)} answers differ from what is expected")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
