"""Writes a reproduction as a script that needs only Python: bytes, layouts of answers, error
names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from pprint import pformat
from textwrap import fill
from typing import Any, Final

from impl.protocol.errors import ErrorCode
from impl.protocol.schemas import MESSAGES, ApiKey, Field, response_header_version

Exchanges = Sequence[Mapping[str, Any]]

TEXT: Final = Path(__file__).with_name("standalone.py")
BEGIN: Final = "# ---- begin of the script's text\n"
HEAD: Final = '''#!/usr/bin/env python3
"""{title}

Raw requests that show it, for any cluster that listens without TLS and SASL:

    python {name} HOST:PORT

HOST:PORT is any of its brokers, which tells of the others. It exits with 0 if every answer is the
expected one, with 1 if one differs, with 2 if nothing answers there. Expected is what
{expected} answers.
It makes a topic and ids of its own, and needs Python 3.9 or newer, no library.
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
'''
WIDTH: Final = 100


class NotReproducible(Exception):
    """Requests alone do not bring about this trace; the message says why."""


def script_of(exchanges: Exchanges, title: str, name: str, variant: str) -> str:
    """The script's text."""
    shared = TEXT.read_text(encoding="utf-8").partition(BEGIN)[2]
    errors = {code.value: code.name for code in ErrorCode}
    asked = [*exchanges, *(one["to"] for one in exchanges if "to" in one)]
    layouts = {one["api"]: layout_of(one["api"]) for one in asked}
    rows = [{k: v for k, v in one.items() if k != "observed"} for one in exchanges]
    tables = {"EXCHANGES": rows, "LAYOUTS": layouts, "ERRORS": errors}
    clean = fill(title.replace("\\", "/").replace('"""', "'''"), WIDTH)
    head = HEAD.format(title=clean, name=name, expected=expected_of(variant))
    written = (
        f"{key} = {pformat(value, width=WIDTH, compact=True, sort_dicts=False)}\n"
        for key, value in tables.items()
    )
    return "\n".join([head, *written, shared.lstrip()])


def expected_of(variant: str) -> str:
    """`Apache Kafka 4.3.1 (4.3.1/level=2/requests=v2)`."""
    return f"Apache Kafka {variant.partition('/')[0]} ({variant})"


def layout_of(api: str) -> dict[str, Any]:
    """The layout of the responses of an API in a version."""
    name, _, text = api.partition(" ")
    key, version = ApiKey[name], int(text)
    message = MESSAGES[key, "response"]
    return {
        "flexible": version >= message.flexible,
        "header_tags": response_header_version(key, version) > 0,
        "fields": [fields_of(field, version) for field in of_version(message.fields, version)],
    }


def of_version(fields: Sequence[Field], version: int) -> list[Field]:
    """The fields that this version has, in their order."""
    return [field for field in fields if version in field.versions and field.tag is None]


def fields_of(field: Field, version: int) -> list[Any]:
    """Name, kind, whether the field is an array, and the fields of its elements."""
    inner = [fields_of(one, version) for one in of_version(field.fields, version)]
    return [field.name, field.kind, field.is_array, inner]
