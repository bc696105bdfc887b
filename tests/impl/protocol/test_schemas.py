"""The table of schemas, field by field, against those in the jars of the Java client."""

from collections.abc import Iterator
from typing import Any

import pytest

from impl.protocol.primitives import ZERO_UUID
from impl.protocol.schemas import MESSAGES, REQUIRED, ApiKey, Field, MessageSchema, Versions
from tests.impl.protocol.kafka_clients import BEFORE_REMOVALS, NEWEST, schemas

RENAMED = {
    "topic_data": "topics",
    "partition_data": "partitions",
    "partition_responses": "partitions",
}
"""Produce's own words for what every other API calls topics and partitions."""
RENAMED_IN = {
    ApiKey.PRODUCE: RENAMED | {"responses": "topics"},
    ApiKey.LIST_CONFIG_RESOURCES: {
        "client_metrics_resources": "config_resources",
        "name": "resource_name",
    },
}
"""The second was ListClientMetricsResources before 4.1 (KIP-1142)."""

Row = tuple[str, str, bool, int | None, Any]
"""One field of one version: path, type, whether it may be null, its tag, its default."""


def snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def versions(text: str | None) -> Versions:
    """`3+`, `0-4`, `2`; nothing and `none` are the empty range."""
    if text in (None, "none"):
        return Versions(1, 0)
    first, more, last = text.partition("-")
    if first.endswith("+"):
        return Versions(int(first[:-1]), 32767)
    return Versions(int(first), int(last) if more else int(first))


NEW_STRUCT = "new"


def their_default(field: dict[str, Any], kind: str) -> Any:
    """What Java's generated class has in a new object."""
    text = field.get("default")
    if text == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind in ("string", "bytes"):
        return text or type_zero(kind)
    if kind == "bool":
        return str(text) == "true"
    return type_zero(kind) if text is None else int(str(text), 0)


def type_zero(kind: str) -> Any:
    zeros = {"string": "", "bytes": b"", "uuid": ZERO_UUID, "bool": False}
    return [] if kind.startswith("[]") else zeros.get(kind, 0)


def their_rows(
    schema: dict[str, Any], fields: list[dict[str, Any]], version: int, path: str = ""
) -> Iterator[Row]:
    common = {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", [])}
    names = RENAMED_IN.get(schema["apiKey"], {})
    for field in fields:
        if version not in versions(field["versions"]):
            continue
        name, kind = snake(field["name"]), field["type"].replace("records", "bytes")
        where = f"{path}.{names.get(name, name)}"
        children = field.get("fields") or common.get(kind.removeprefix("[]"))
        is_struct = children is not None
        shown = kind[: kind.startswith("[]") * 2] + "struct" if is_struct else kind
        tag = field.get("tag") if version in versions(field.get("taggedVersions")) else None
        default = their_default(field, shown)
        if shown == "struct":  # without the text "null" it is a new object, even where null may be
            default = None if field.get("default") == "null" else NEW_STRUCT
        yield where, shown, version in versions(field.get("nullableVersions")), tag, default
        if children is not None:
            yield from their_rows(schema, children, version, where)


def our_rows(fields: tuple[Field, ...], version: int, path: str = "") -> Iterator[Row]:
    for field in fields:
        if version not in field.versions:
            continue
        where, kind = f"{path}.{field.name}", "[]" * field.is_array + field.kind
        default = NEW_STRUCT if kind == "struct" and field.default is not None else field.default
        yield where, kind, version in field.nullable, field.tag, default
        yield from our_rows(field.fields, version, where)


OUR_DEFAULTS = {("INIT_PRODUCER_ID response", ".producer_epoch"): -1}
"""Java's class has 0 there, and its broker says -1 with every error."""


def is_same(message: str, ours: Row, theirs: Row) -> bool:
    """Our default may be missing, and null where null may stand; else it is theirs."""
    if ours[:4] != theirs[:4]:
        return False
    may_differ = ours[4] is REQUIRED or (ours[4] is None and ours[2] and ours[3] is None)
    return may_differ or bool(ours[4] == OUR_DEFAULTS.get((message, ours[0]), theirs[4]))


def differences(
    message: MessageSchema, schema: dict[str, Any], fields: tuple[Field, ...] | None = None
) -> Iterator[str]:
    """What differs in the versions that both have; `fields` in the place of the message's."""
    fields = message.fields if fields is None else fields
    flexible = versions(schema["flexibleVersions"])
    for version in range(message.versions.first, message.versions.last + 1):
        if version not in versions(schema["validVersions"]):
            continue
        if (version >= message.flexible) != (version in flexible):
            yield f"v{version} flexible"
        ours = list(our_rows(fields, version))
        theirs = list(their_rows(schema, schema["fields"], version))
        if len(ours) != len(theirs):
            yield f"v{version} has {len(ours)} fields, not {len(theirs)}"
        for mine, other in zip(ours, theirs, strict=False):
            if not is_same(message.name, mine, other):
                yield f"v{version} {mine} is not {other}"


FORMS = [(key, direction) for key in ApiKey for direction in ("request", "response")]
each_form = pytest.mark.parametrize(
    "form", FORMS, ids=lambda form: f"{ApiKey(form[0]).name} {form[1]}"
)


@each_form
def test_the_table_has_the_fields_of_the_jars(form: tuple[ApiKey, str]) -> None:
    for release in (BEFORE_REMOVALS, NEWEST):
        assert list(differences(MESSAGES[form], schemas(release)[form])) == []


@pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.name)
def test_the_table_has_every_stable_version(key: ApiKey) -> None:
    old, new = (schemas(release)[key, "request"] for release in (BEFORE_REMOVALS, NEWEST))
    last = versions(new["validVersions"]).last - bool(new.get("latestVersionUnstable"))
    first = versions(old["validVersions"]).first
    assert MESSAGES[key, "request"].versions == Versions(first, last)
    assert MESSAGES[key, "response"].versions == Versions(first, last)


def mistakes(fields: tuple[Field, ...], begin: int = 0) -> Iterator[tuple[Field, ...]]:
    """`fields` with one mistake in it, for each field and each kind of mistake.

    They belong to a struct that there is from version `begin` on.
    """
    never = Versions(1, 0)
    for index, field in enumerate(fields):
        before, after = fields[:index], fields[index + 1 :]
        first, last = max(begin, field.versions.first), field.versions.last
        yield before + after
        wrong = [
            field._replace(name=field.name + "s"),
            field._replace(is_array=not field.is_array),
            field._replace(versions=Versions(first + 1, last)),
            field._replace(tag=7 if field.tag is None else None),
            field._replace(nullable=never if first in field.nullable else Versions(0, last)),
        ]
        if field.kind != "struct":
            wrong.append(field._replace(kind="int8" if field.kind != "int8" else "int16"))
            wrong.append(field._replace(default=77))
        for changed in wrong:
            yield (*before, changed, *after)
        for children in mistakes(field.fields, first):
            yield (*before, field._replace(fields=children), *after)


@each_form
def test_a_mistake_in_any_field_is_found(form: tuple[ApiKey, str]) -> None:
    message = MESSAGES[form]
    jars = [schemas(release)[form] for release in (BEFORE_REMOVALS, NEWEST)]
    for fields in mistakes(message.fields):
        assert any(list(differences(message, jar, fields)) for jar in jars), fields
