"""The cases of each API and version, derived from the table of schemas.

Three rules:

1. Each scene is a case. In further cases one field is changed to each of the values that
   `_values_of` has for its type, or for the symbol in it: each field of the first scene, and of
   other scenes the fields that they mention.
2. A request that names a topic is repeated after the topic is deleted, and after another topic of
   this name is created. Each request is also sent twice.
3. For each API, the version above the newest one and the one below the oldest are tried.

Order and names are the same in each run. If two changes give the same body, it is sent once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from conformance.campaigns.held.preparation import NEEDS, STEPS, Body
from conformance.campaigns.held.scenes import (
    HURRIED,
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    PLAIN,
    PLAINEST,
    READING,
    SCENES,
    Scene,
)
from impl.broker.releases import NEWEST_RELEASE, announced_versions, served_versions
from impl.protocol.schemas import MESSAGES, REQUIRED, ApiKey, Field

_OLD_PREFIX: Final = "v3_and_below_"
_LONG: Final = "x" * 250
_UNKNOWN_ID: Final = b"\7" * 16


class CaseKind(Enum):
    """The moment at which a prepared request is sent."""

    NOW = ""
    TWICE = "twice"
    DELETED = "topic deleted"
    RECREATED = "topic recreated"


class Case(NamedTuple):
    """A request; its symbols stand for values that are known after `steps`.

    `version` is that of the header; `form` is the version in which the body is written. Cases with
    the same `family` share symbols, and the steps are taken once for them.
    """

    api_key: ApiKey
    version: int
    name: str
    body: Body
    steps: tuple[str, ...]
    kind: CaseKind
    family: str

    @property
    def form(self) -> int:
        """The version in which the body is written."""
        versions = MESSAGES[self.api_key, "request"].versions
        return min(max(self.version, versions.first), versions.last)


# ---- valid requests


def _build(fields: Iterable[Field], version: int, changes: Mapping[str, Any], path: str) -> Body:
    return {
        field.name: _plain(field, version, changes, f"{path}{field.name}")
        for field in fields
        if version in field.versions
    }


def _plain(field: Field, version: int, changes: Mapping[str, Any], path: str) -> Any:
    for key in (path, field.name):
        if key in changes and (changes[key] is not None or version in field.nullable):
            return _fitting(field, version, changes[key])
    if not any(key.startswith(f"{path}.") for key in changes):
        if (field.default is not REQUIRED and not field.fields) or field.default in (None, []):
            return field.default
        if field.name.removeprefix(_OLD_PREFIX) in PLAIN:
            return PLAIN[field.name.removeprefix(_OLD_PREFIX)]
    if field.is_array:
        return [_element(field.element, version, changes, path)]
    return _element(field, version, changes, path)


def _fitting(field: Field, version: int, value: Any) -> Any:
    """`value`, completed by the fields that its rows lack."""
    if field.fields and isinstance(value, list):
        return [_build(field.fields, version, row, "") for row in value]
    if field.fields and isinstance(value, dict):
        return _build(field.fields, version, value, "")
    return value


def _element(field: Field, version: int, changes: Mapping[str, Any], path: str) -> Any:
    if field.fields:
        return _build(field.fields, version, changes, f"{path}.")
    return {
        "string": f"${field.name}",
        "uuid": bytes(16),
        "bytes": b"",
        "bool": False,
        "float64": 1.0,
    }.get(field.kind, 0)


# ---- changed fields

_TOPICS: Final = ("", "a b", "..", _LONG, OFFSETS_TOPIC, METADATA_TOPIC, "$unknown")
_BITS: Final = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_BY_SYMBOL: Final[Mapping[str, tuple[Any, ...]]] = {
    "$topic": _TOPICS,
    "$new_topic": _TOPICS,
    "$topic_id": (bytes(16), _UNKNOWN_ID),
    "$producer_id": (-1, -2, 987_654_321, 2**63 - 1),
    "$records": (None, b"", b"\0" * 7, b"\0" * 80, "$transactional_records", "$several_batches"),
    "$transactional_records": ("$records",),
    "$idempotent_records": ("$transactional_records",),
}
_BY_NAME: Final[Mapping[str, tuple[Any, ...]]] = {
    "num_partitions": (-2, -1, 0, 1, 20_000),
    "count": (-1, 0, 1, 2),
    "replication_factor": (-2, -1, 0, 2, 2**15 - 1),
    "max_wait_ms": (-1, 0),
    "session_timeout_ms": (-1, 0, 5_999, 1_800_001),
    "rebalance_timeout_ms": (-1, 0, 1),
    "broker_id": (-1, 0, 2**31 - 1),
    "max_version_level": (-1, 0, 3, 2**15 - 1),
    "iterations": (-1, 0, 4_095, 16_385),
}
"""Values for fields that do not accept every value, or for which other values are worth a case."""


def _values_of(field: Field, version: int, value: Any) -> Iterator[Any]:
    """The values to which a field is changed."""
    if version in field.nullable and field.name != "records":
        yield None
    if field.is_array:
        yield from ([], *([[*value, value[0]]] if value else []))
    elif field.name in _BY_NAME:
        yield from _BY_NAME[field.name]
    elif isinstance(value, str) and value in _BY_SYMBOL:
        yield from _BY_SYMBOL[value]
    else:
        yield from _by_kind(field, value)


def _by_kind(field: Field, value: Any) -> Iterator[Any]:
    match field.kind:
        case "string":
            yield from ("", f"$unknown_{field.name}")
        case "bool":
            yield not value
        case "uuid":
            yield from (bytes(16), _UNKNOWN_ID)
        case "bytes":
            yield from (b"", b"\xff")
        case "float64":
            yield from (-1.0, 0.0, 0.5)
        case "struct":
            return
        case kind:
            yield from (-2, -1, 0, 1, 2 ** _BITS.get(kind, 15) - 1)


def _changed(
    fields: Iterable[Field], version: int, body: Body, path: str = ""
) -> Iterator[tuple[str, Body]]:
    """Each body with one changed field, with the field's path and its value as text."""
    for field in fields:
        if version not in field.versions:
            continue
        value = body[field.name]
        for other in _values_of(field, version, value):
            if other != value:
                text = f"{path}{field.name}={_text_of(other, value)}"
                yield text, body | {field.name: other}
        for text, inner in _changed_inside(field, version, value, f"{path}{field.name}"):
            yield text, body | {field.name: inner}


def _changed_inside(field: Field, version: int, value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if not field.is_array:
        if field.fields and value is not None:
            yield from _changed(field.fields, version, value, f"{path}.")
    elif value and field.fields:
        for text, row in _changed(field.fields, version, value[0], f"{path}."):
            yield text, [row, *value[1:]]
    elif value:
        for other in _values_of(field.element, version, value[0]):
            if other != value[0]:
                yield f"{path}[]={_text_of(other, value[0])}", [other, *value[1:]]


def _text_of(value: Any, before: Any) -> str:
    if isinstance(value, list):
        return "[]" if not value else "twice"
    if value == _LONG:
        return "long"
    if isinstance(value, bytes):
        return f"{len(value)} zeros" if not any(value) else f"0x{value.hex()}"
    return {None: "null", "": '""'}.get(value, str(value)) if not isinstance(value, dict) else "{}"


# ---- cases


def _symbols(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value.startswith("$"):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _symbols(each)
    elif isinstance(value, list):
        for each in value:
            yield from _symbols(each)


def _steps_of(body: Body, more: tuple[str, ...]) -> tuple[str, ...]:
    """The steps in the order of `STEPS`, including those that other steps need."""
    wanted = {*more, *(NEEDS[symbol] for symbol in _symbols(body) if symbol in NEEDS)}
    for name in reversed(list(STEPS)):
        if name in wanted:
            bodies = [step.body for step in STEPS[name]]
            brought = {f"${symbol}" for step in STEPS[name] for symbol in step.brings}
            needed = {s for each in bodies for s in _symbols(each) if s in NEEDS} - brought
            wanted |= {NEEDS[symbol] for symbol in needed if NEEDS[symbol] != name}
    if "joining" in wanted:
        wanted.discard("member")
    return tuple(name for name in STEPS if name in wanted)


def _of_scene(
    api_key: ApiKey, version: int, name: str, scene: Scene, *, is_first: bool
) -> Iterator[Case]:
    fields = MESSAGES[api_key, "request"].fields
    body = _build(fields, version, scene.changes, "")
    steps = _steps_of(body, scene.steps)

    def case(text: str, asked: Body, kind: CaseKind = CaseKind.NOW) -> Case:
        title = f"{name}: {text}" if text else name
        is_shared = kind is CaseKind.NOW and api_key in READING
        family = f"{api_key.name} {name}" if is_shared else ""
        return Case(api_key, version, title, asked, steps, kind, family)

    yield case("", body)
    for text, changed in _changed(fields, version, body):
        path = text.partition("=")[0].removesuffix("[]")
        is_chance = text == "timeout_ms=1" and api_key in HURRIED
        if (is_first or _mentions(scene, path)) and not is_chance:
            yield case(text, changed)
    yield case(CaseKind.TWICE.value, body, CaseKind.TWICE)
    if {"$topic", "$topic_id"} & {*_symbols(body)}:
        yield case(CaseKind.DELETED.value, body, CaseKind.DELETED)
        yield case(CaseKind.RECREATED.value, body, CaseKind.RECREATED)


def _mentions(scene: Scene, path: str) -> bool:
    """Whether a scene mentions a field, by its name, or the field that contains it."""
    inside = any(path.startswith(f"{said}.") for said in scene.changes)
    return inside or path in scene.changes or path.rpartition(".")[2] in scene.changes


def _of_version(api_key: ApiKey, version: int) -> Iterator[Case]:
    """The cases of all scenes; equal requests occur once."""
    seen = set()
    for number, (name, scene) in enumerate(SCENES.get(api_key, PLAINEST).items()):
        for case in _of_scene(api_key, version, name, scene, is_first=number == 0):
            key = repr((case.body, case.steps, case.kind))
            if key not in seen:
                seen.add(key)
                yield case


def _beyond(api_key: ApiKey, versions: range) -> Iterator[Case]:
    """The versions next to the announced ones."""
    for version in (versions[0] - 1, versions[-1] + 1):
        if version >= 0:
            nearest = min(max(version, versions[0]), versions[-1])
            plain = next(_of_version(api_key, nearest))
            yield plain._replace(version=version, name="version beyond")


def cases_of(api_key: ApiKey) -> list[Case]:
    """All cases of an API, in the order in which they are asked."""
    served = served_versions(NEWEST_RELEASE)[api_key]
    plain = [case for version in served for case in _of_version(api_key, version)]
    return [*plain, *_beyond(api_key, announced_versions(NEWEST_RELEASE)[api_key])]


def api_keys() -> tuple[ApiKey, ...]:
    """The APIs that our broker announces."""
    return tuple(ApiKey(key) for key in announced_versions(NEWEST_RELEASE))
