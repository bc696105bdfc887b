"""The consumers' benchmark: both clients read what is in the logs, another content is noticed, and
the report is whole. Nothing is timed here, and our broker is the only one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import consumer
from benchmarks.live.readers import CALLS, READERS, Log
from benchmarks.live.running import BROKERS, Running

LOGS = {log.name: log for log in consumer.logs(records=210, large=6)}


@pytest.fixture(scope="module")
def ours() -> Iterator[Running]:
    with BROKERS["ours"].serves_fast() as found:
        for log in LOGS.values():
            consumer.write(found, log)
        yield found


@pytest.mark.parametrize("client", READERS)
@pytest.mark.parametrize("call", CALLS)
def test_what_is_in_the_logs_is_read(ours: Running, client: str, call: str) -> None:
    for log in LOGS.values():
        assert consumer.measure_round(ours, log, call, client).seconds > 0


class Uncommitted(Log):
    """Of a reader that shows what was aborted."""

    isolation_level = "read_uncommitted"


@pytest.mark.parametrize("client", READERS)
def test_a_reader_that_shows_what_was_aborted_is_noticed(ours: Running, client: str) -> None:
    log = LOGS["transactions"]
    shown = Uncommitted(log.name, log.count, log.value_bytes, is_transactional=True)
    with pytest.raises(consumer.WrongRecords, match=f"{client} by getone of transactions"):
        consumer.measure_round(ours, shown, "getone", client)


def test_another_size_is_noticed(ours: Running) -> None:
    wrong = replace(LOGS["large"], value_bytes=(9_999,))
    with pytest.raises(consumer.WrongRecords, match=r"value_bytes=60000.*not.*value_bytes=59994"):
        consumer.measure_round(ours, wrong, "async for", "ours")


def test_the_report_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.json"
    sizes = ["--records", "8", "--large", "4", "--rounds", "1"]
    assert consumer.main(["--brokers", "ours", *sizes, "--json", str(file)]) == 0
    printed = capsys.readouterr().out
    report = json.loads(file.read_text(encoding="utf-8"))
    assert (report["benchmark"], report["rounds"], report["missing"]) == ("consumer", 1, {})
    rows = report["figures"]
    named = [(row["log"], row["call"], row["client"]) for row in rows]
    assert named == [(log, call, client) for log in LOGS for call in CALLS for client in READERS]
    for row in rows:
        assert row["per_second"] > 0
        assert (row["ratio"] is None) == (row["client"] == "ours")
        assert row["log"] in printed
