"""Our answers beside those recorded of a real Kafka, and whether a difference is seen."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conformance.campaigns.held.__main__ import main
from conformance.campaigns.held.api_table import lines_of
from conformance.campaigns.held.broker_answers import our_answers, real_answers, served_answers
from conformance.campaigns.held.cases import api_keys, cases_of
from conformance.campaigns.held.comparison import Name, compare, differences_of, read_names
from conformance.campaigns.held.own_node import SETTINGS
from conformance.campaigns.held.recording import (
    OutdatedRecording,
    read_recording,
    write_recording,
)
from impl import Broker
from impl.broker import apis
from impl.broker.releases import NEWEST_RELEASE, served_versions
from impl.protocol.schemas import MESSAGES, ApiKey, Field

RECORDED = Path(__file__).with_name("recorded")
APIS = pytest.mark.parametrize("api_key", api_keys(), ids=lambda key: key.name)


@pytest.mark.fast
@APIS
def test_each_answer_is_kafkas_or_its_difference_has_a_name(api_key: ApiKey) -> None:
    found = compare(api_key, our_answers(api_key), read_recording(RECORDED, api_key), read_names())
    assert found.holds, "\n".join(lines_of([found]))


@APIS
def test_each_field_of_each_version_is_changed(api_key: ApiKey) -> None:
    """So that a new API, and a new field, have cases."""
    for version in served_versions(NEWEST_RELEASE)[api_key]:
        asked = {case.name for case in cases_of(api_key) if case.version == version}
        changes = (name.partition(": ")[2].partition("=")[0] for name in asked)
        changed = {path.removesuffix("[]") for path in changes}
        wanted = {*paths_of(MESSAGES[api_key, "request"].fields, version)}
        assert wanted <= changed, wanted - changed


def paths_of(fields: Iterable[Field], version: int, prefix: str = "") -> Iterator[str]:
    for field in fields:
        if version in field.versions:
            if not field.fields or field.is_array:
                yield prefix + field.name
            yield from paths_of(field.fields, version, f"{prefix}{field.name}.")


# ---- planted

CHANGED = 10
"""So many answers of each API are changed."""


def changed_once(answer: Any) -> Any:
    """A copy with another value in its last field."""
    if isinstance(answer, dict) and answer:
        *_, last = answer
        return answer | {last: changed_once(answer[last])}
    if isinstance(answer, list) and answer:
        return [*answer[:-1], changed_once(answer[-1])]
    return f"{answer} changed"


@APIS
def test_a_changed_answer_is_seen(api_key: ApiKey) -> None:
    theirs = read_recording(RECORDED, api_key)
    assert compare(api_key, theirs, theirs, ()).equal == len(theirs)
    for case in [*theirs][:CHANGED]:
        ours = theirs | {case: changed_once(copy.deepcopy(theirs[case]))}
        found = compare(api_key, ours, theirs, ())
        assert {(each.case, each.version) for each in found.unnamed} == {case}
        assert not found.holds


@pytest.mark.fast
def test_a_missing_answer_and_an_unused_name_are_seen() -> None:
    theirs = read_recording(RECORDED, ApiKey.HEARTBEAT)
    missing = compare(ApiKey.HEARTBEAT, {}, theirs, ())
    assert missing.without_name == len(theirs)
    name = Name(["HEARTBEAT"], ["*"], ["error_code"], "there is none")
    assert compare(ApiKey.HEARTBEAT, theirs, theirs, [name]).unused == [name]


@pytest.mark.fast
def test_a_defect_of_the_broker_is_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A heartbeat that is always answered with no error."""
    assert apis.HANDLERS[ApiKey.HEARTBEAT], (
        "its module, once imported, replaces no handler any more"
    )
    monkeypatch.setitem(apis.HANDLERS, ApiKey.HEARTBEAT, lambda *_: {"error_code": 0})
    assert main(["--api", "HEARTBEAT", "--recording", str(RECORDED)]) == 1
    assert "error_code: 0, not 25" in capsys.readouterr().out


@pytest.mark.fast
def test_rows_belong_together_by_what_they_are_about() -> None:
    ours = {"topics": [{"name": "b", "error_code": 3}, {"name": "a", "error_code": 0}]}
    theirs = {"topics": [{"name": "a", "error_code": 0}, {"name": "b", "error_code": 0}]}
    assert [*differences_of(ours, theirs)] == [("topics[b].error_code", 3, 0)]
    assert [path for path, *_ in differences_of({"topics": []}, theirs)] == [
        "topics[a]",
        "topics[b]",
    ]


# ---- recordings


@pytest.mark.fast
def test_a_recording_of_other_requests_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutdatedRecording, match="is missing"):
        read_recording(tmp_path, ApiKey.HEARTBEAT)
    answers = read_recording(RECORDED, ApiKey.HEARTBEAT)
    write_recording(tmp_path, "4.3.1", ApiKey.HEARTBEAT, answers)
    assert read_recording(tmp_path, ApiKey.HEARTBEAT) == answers
    file = tmp_path / "HEARTBEAT.json"
    assert file.read_text() == (RECORDED / "HEARTBEAT.json").read_text()
    file.write_text(file.read_text().replace('"requests": "', '"requests": "0'))
    with pytest.raises(OutdatedRecording, match="other requests"):
        read_recording(tmp_path, ApiKey.HEARTBEAT)


LIVE = (ApiKey.HEARTBEAT, ApiKey.OFFSET_FOR_LEADER_EPOCH)


@pytest.mark.parametrize("api_key", LIVE)
def test_a_real_broker_answers_as_it_was_recorded(api_key: ApiKey) -> None:
    theirs = read_recording(RECORDED, api_key)
    found = compare(api_key, real_answers(api_key), theirs, ())
    assert found.holds, "\n".join(lines_of([found]))


@pytest.mark.parametrize("api_key", LIVE)
def test_an_embedded_broker_answers_as_its_node(api_key: ApiKey) -> None:
    """Through sockets, and on the clock of the machine."""
    with Broker(settings=SETTINGS) as kafka:
        host, _, port = kafka.bootstrap_servers.rpartition(":")
        assert served_answers(host, int(port), api_key) == our_answers(api_key)
