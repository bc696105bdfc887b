"""The verb: files, exit codes, backends."""

import asyncio
import json
import os
import shutil
from collections import Counter

import pyarrow.parquet as pq
import pytest

from conformance.__main__ import main
from conformance.audit import task
from conformance.audit.kinds import KINDS, AuditFinding
from conformance.audit.partition_audit import (
    AuditSettings,
    PartitionAudit,
    TransactionEnd,
    audit_partition,
)
from conformance.audit.report import conclude
from impl import Broker, Producer
from impl.protocol.record_batch import decode_batches, encode_batch
from impl.security.config import Security
from proofs.run.directory import RunDirectory
from proofs.run.files import REPOSITORY


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """The logs that `--generate` writes."""
    directory = tmp_path_factory.mktemp("audit") / "logs"
    given = ["--bytes", str(1 << 16), "--of-each", "5"]
    assert main(["audit", "--generate", str(directory), *given]) == 0
    return directory


@pytest.fixture(scope="module")
def audit(planted, tmp_path_factory):
    """What the verb writes of them."""
    out = tmp_path_factory.mktemp("audit") / "out"
    assert main(["audit", "--log-dir", str(planted), "--out", str(out)]) == 1
    return out


def test_the_report_the_page_and_the_table_say_the_same(audit, planted):
    report = json.loads((audit / "report.json").read_text())
    expected = json.loads((planted / "planted.json").read_text())
    assert report["verdict"] == "violated"
    assert report["defects"]["gap"] == sum(one["kind"] == "gap" for one in expected) == 5
    rows = pq.read_table(audit / "audit_findings.parquet").to_pylist()
    assert sum(row["places"] for row in rows) == len(expected)
    assert {row["kind"] for row in rows if row["is_defect"]} == report["defects"].keys()
    page = (audit / "report.md").read_text()
    assert "## torn: 25 (defect)" in page
    abort = next(f for f in report["findings"] if f["kind"] == "hanging")
    assert abort["action"].endswith(f"--start-offset {abort['offset']}")


def test_an_interrupted_audit_goes_on(audit, planted, tmp_path, monkeypatch, capsys):
    """What was audited and has not changed since is not read again."""
    read, stops, out = [], [True], tmp_path / "out"

    def audit_one(log, settings):
        if stops and len(read) == 2:
            raise KeyboardInterrupt
        read.append(f"{log.topic}-{log.partition}")
        return audit_partition(log, settings)

    words = ["audit", "--log-dir", str(planted), "--out", str(out)]
    monkeypatch.setattr(task, "audit_partition", audit_one)
    assert main(words) == 3
    assert f"what is done is in {out}, and the same command" in capsys.readouterr().err
    first = read.copy()
    os.utime(next(planted.glob(f"{first[0]}/*.log")))
    read.clear()
    stops.clear()
    assert main(words) == 1
    assert first[0] in read
    assert first[1] not in read
    assert (out / "report.json").read_bytes() == (audit / "report.json").read_bytes()
    assert not (out / "journal.jsonl").exists()


def test_what_other_code_judged_is_audited_again(planted, tmp_path, monkeypatch):
    read, stops = [], [True]

    def audit_one(log, settings):
        if stops and len(read) == 2:
            raise KeyboardInterrupt
        read.append(log[:2])
        return audit_partition(log, settings)

    command = ["audit", "--log-dir", str(planted), "--out", str(tmp_path)]
    monkeypatch.setattr(task, "audit_partition", audit_one)
    assert main(command) == 3
    first = read.copy()
    read.clear()
    stops.clear()
    monkeypatch.setattr(task, "CODE", lambda: "of another release")
    assert main(command) == 1
    assert set(first) < set(read)


def test_a_folder_with_other_arguments_is_refused_by_name(audit, planted, capsys):
    before = (audit / "report.json").read_bytes()
    words = ["audit", "--log-dir", str(planted), "--out", str(audit)]
    assert main([*words, "--max-transaction-ms", "1"]) == 2
    said = capsys.readouterr().err
    assert "max_transaction_ms 900000, this one has 1; use another --out" in said
    assert (audit / "report.json").read_bytes() == before
    assert main(words) == 1, "the same command audits again"
    assert f"report: {audit / 'report.json'}" in capsys.readouterr().out


def test_the_folder_of_another_verb_stays_as_it_is(whole_run, planted, capsys):
    """Also what it has of its work: its journal."""
    files = {path: path.read_bytes() for path in whole_run.out.iterdir() if path.is_file()}
    assert main(["audit", "--log-dir", str(planted), "--out", str(whole_run.out)]) == 2
    assert "use another --out" in capsys.readouterr().err
    assert {p: p.read_bytes() for p in whole_run.out.iterdir() if p.is_file()} == files


def test_a_strangers_folder_stays_as_it_is(planted, tmp_path, capsys):
    (tmp_path / "journal.jsonl").write_text("a stranger's\n")
    assert main(["audit", "--log-dir", str(planted), "--out", str(tmp_path)]) == 2
    assert "it is no run of ours" in capsys.readouterr().err
    assert (tmp_path / "journal.jsonl").read_text() == "a stranger's\n"
    assert not (tmp_path / "report.json").exists()


def test_a_folder_in_which_another_run_is_at_work_is_refused(planted, tmp_path, capsys):
    with RunDirectory(tmp_path, {}):
        assert main(["audit", "--log-dir", str(planted), "--out", str(tmp_path)]) == 2
    assert "another run is at work" in capsys.readouterr().err


def test_bad_input_leaves_no_folder(tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["audit", "--log-dir", str(tmp_path), "--out", str(out)]) == 2
    assert not out.exists()


def test_topics_that_are_not_there_are_told_from_those_that_are(planted, served, capsys):
    for place in (["--log-dir", str(planted)], ["--bootstrap-servers", served]):
        assert main(["audit", *place, "--topics", "nosuch"]) == 2
        said = capsys.readouterr().err
        assert "matches --topics 'nosuch' as a whole; there are: __" in said
        assert "[" not in said


def test_a_release_may_be_named_by_its_first_two_numbers(planted, tmp_path):
    words = ["audit", "--log-dir", str(planted), "--out", str(tmp_path), "--release", "2.8"]
    assert main(words) == 1
    assert json.loads((tmp_path / "report.json").read_text())["release"] == "2.8.2"


def test_topics_are_chosen_by_name(planted, tmp_path):
    found = main(
        ["audit", "--log-dir", str(planted), "--topics", "deleted", "--out", str(tmp_path)]
    )
    assert found == 0
    assert json.loads((tmp_path / "report.json").read_text())["allowed"]["deleted_head"] == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "one of --log-dir"),
        (["--log-dir", "/nowhere"], "no such folder"),
        (["--log-dir", "."], "no partition"),
        (["--log-dir", "nosuch://bucket/logs"], "--log-dir nosuch://bucket/logs"),
        (["--log-dir", "file:///nowhere"], "no such folder"),
        (["--log-dir", ".", "--release", "9.9"], "--release"),
        (["--log-dir", ".", "--topics", "(["], "--topics '([' is no regular expression"),
        (["--log-dir", ".", "--max-transaction-ms", "-1"], "--max-transaction-ms is -1; write 1"),
        (["--log-dir", ".", "--bytes", "4"], "--bytes goes with --generate"),
        (["--log-dir", ".", "--copy", "x"], "--copy goes with --bootstrap-servers"),
        (["--generate", "x", "--of-each", "0"], "--of-each is 0; write 1 or more"),
        (["--generate", "x", "--bytes", "-4"], "--bytes is -4; write 1 or more"),
    ],
)
def test_bad_use_is_told(words, said, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["audit", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.full  # in the suite Spark judges runs; what an audit writes is written by processes
@pytest.mark.xdist_group("spark")
def test_spark_writes_the_same_bytes_of_segments_at_a_uri(spark_session, planted, tmp_path):
    given = ["--partitions", "1", "--topics", "planted"]
    for backend, logs in (("processes", str(planted)), ("spark", planted.as_uri())):
        out = ["--backend", backend, "--out", str(tmp_path / backend)]
        assert main(["audit", *given, "--log-dir", logs, *out]) == 1
    for name in ("report.json", "report.md"):
        assert (tmp_path / "spark" / name).read_bytes() == (
            tmp_path / "processes" / name
        ).read_bytes()


@pytest.fixture(scope="module")
def served():
    """A broker with transactions of both outcomes, and offsets in them."""
    with Broker(topics={"orders": 2}) as kafka:
        asyncio.run(transact(kafka.bootstrap_servers))
        yield kafka.bootstrap_servers


async def transact(servers):
    async with Producer(servers, transactional_id="orders-1", linger_ms=0) as producer:
        for number in range(6):
            await producer.begin_transaction()
            for partition in (0, 1):
                await producer.send_and_wait("orders", b"value", partition=partition)
            await producer.send_offsets_to_transaction({("orders", 0): number}, "group")
            await (producer.commit_transaction() if number % 2 else producer.abort_transaction())


def test_a_cluster_is_fetched_and_audited_and_holds(served, tmp_path):
    copy = ["--copy", str(tmp_path / "logs"), "--out", str(tmp_path / "out")]
    assert main(["audit", "--bootstrap-servers", served, *copy]) == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["defects"], report["coordinators_log"]) == ({}, True)
    by_topic = Counter()
    for row in report["partitions"]:
        by_topic[row["topic"]] += row["transactions"]
    assert (by_topic["orders"], by_topic["__consumer_offsets"]) == (12, 6)
    assert main(["audit", "--log-dir", str(tmp_path / "logs")]) == 0


def test_what_was_fetched_and_then_changed_is_found(served, tmp_path, capsys):
    """The audit of a real log can fail: a marker of the other outcome, and a batch left out."""
    logs = tmp_path / "logs"
    given = ["--topics", "orders|__transaction_state", "--bootstrap-servers", served]
    assert main(["audit", *given, "--copy", str(logs)]) == 0
    [path] = (logs / "orders-0").glob("*.log")
    data = path.read_bytes()
    marker = decode_batches(data)[1]
    assert marker.is_control
    other = replace_outcome(marker)
    path.write_bytes(data.replace(encode_batch(marker), encode_batch(other)))
    assert main(["audit", "--log-dir", str(logs)]) == 1
    assert "DEFECT torn 1" in capsys.readouterr().out


def test_a_secured_cluster_is_audited_by_a_file_of_kafkas_tools(tmp_path, capsys):
    users = {"alice": "secret"}
    with Broker(topics={"orders": 1}, security=Security(("SASL_SSL",), users)) as kafka:
        given = ["audit", "--bootstrap-servers", kafka.bootstrap_servers]
        file = tmp_path / "client.properties"
        file.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
            "sasl.jaas.config=ScramLoginModule required username=alice password=secret;\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={kafka.tls.ca_file}\n"
        )
        assert main([*given, "--command-config", str(file)]) == 0
        assert "orders" not in capsys.readouterr().err
        file.write_text(file.read_text().replace("=secret", "=other"))
        assert main([*given, "--command-config", str(file)]) == 2
        assert "SCRAM-SHA-512 as 'alice': " in capsys.readouterr().err
        file.write_text("security.protocol=SASL")
        assert main([*given, "--command-config", str(file)]) == 2
        assert f"--command-config {file}: security_protocol must be one of" in (
            capsys.readouterr().err
        )
        assert main(given) == 2
        assert "is security_protocol=PLAINTEXT that of the listener?" in capsys.readouterr().err


def replace_outcome(marker):
    """The marker with the other outcome."""
    record = marker.records[0]
    other = bytes((*record.key[:3], 1 - record.key[3]))
    return marker._replace(records=(record._replace(key=other),))


def test_what_an_audit_cannot_see_is_said_first(tmp_path, capsys):
    with Broker(directory=tmp_path / "one", topics={"orders": 2}) as kafka:
        asyncio.run(transact(kafka.bootstrap_servers))
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    one, two = ("--log-dir", str(tmp_path / "one")), ("--log-dir", str(tmp_path / "two"))
    assert main(["audit", *one]) == 0
    assert capsys.readouterr().err == ""
    (tmp_path / "two" / ".kafka_cleanshutdown").unlink()
    assert main(["audit", *one, *two, "--topics", "orders"]) == 0
    said = capsys.readouterr().err
    assert "without __transaction_state nothing is known" in said
    assert "2 partitions are in several directories: of each the longest" in said
    assert f"{tmp_path / 'two'} was not left by a clean stop" in said
    assert f"{tmp_path / 'one'} was not" not in said
    assert main(["audit", *two, "--live"]) == 0
    assert "clean stop" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "age_ms", "kind"),
    [
        (None, 1_000, "hanging"),
        ("crc", 1_000, "in_progress"),
        ("truncated_tail", 1_000, "in_progress"),
        ("crc", 1_000_000, "hanging"),
    ],
)
def test_a_coordinators_damaged_log_lets_young_transactions_be(damage, age_ms, kind):
    """What it says of them may be what cannot be read."""
    topic = "__transaction_state"
    damaged = (AuditFinding(damage, topic, 0, 3),) if damage else ()
    still_open = TransactionEnd(9, 0, 0, None, 5, 5, 2_000_000, 2_000_000)
    nothing = PartitionAudit(topic, 0, 1, 1, 1, 1, 1, 1, 0, 5, 0, damaged, ())
    newest = 2_000_000 + age_ms
    data = nothing._replace(topic="t", newest_timestamp=newest, findings=(), endings=(still_open,))
    found = conclude([nothing, data], AuditSettings("4.3.1")).findings
    assert [each.kind for each in found if each.topic == "t"] == [kind]


def test_the_reference_lists_all_kinds():
    page = (REPOSITORY / "docs/reference/audit.md").read_text(encoding="utf-8")
    for name, kind in KINDS.items():
        what = "defect" if kind.is_defect else "allowed"
        assert f"| `{name}` | {what} | {kind.meaning} |" in page
