"""Each kind of finding has a planted log that shows it, and a clean twin that does not."""

import pytest

from conformance.audit.decisions import TOPIC
from conformance.audit.generated import differences, generate
from conformance.audit.partition_audit import AuditSettings
from conformance.audit.planted import (
    PLANTS,
    PlantedCluster,
    completed,
    prepared,
)
from conformance.audit.report import conclude, report_of
from conformance.audit.segments import find_partitions
from conformance.audit.task import audit_all
from conformance.judging.backend import Options
from impl.coordinator.states import TransactionState
from model.idempotent.variants import RELEASES
from proofs.run.journal import Journal

SETTINGS = AuditSettings("4.3.1")


def audited(directory, settings=SETTINGS, **servers):
    done = audit_all(
        find_partitions([str(directory)]),
        settings,
        Journal(),
        "processes",
        Options(directory, partitions=1),
    )
    return conclude((audit for audit in done if audit is not None), settings, **servers)


def test_an_action_names_the_brokers_where_they_are_known(tmp_path):
    generate(tmp_path / "logs", 1 << 16, of_each=1)
    for servers, named in (({}, "HOST:PORT"), ({"servers": "kafka-1:9092"}, "kafka-1:9092")):
        report = report_of(audited(tmp_path / "logs", **servers))
        actions = [f["action"] for f in report["findings"] if f["kind"] == "hanging"]
        assert actions
        assert all(f"--bootstrap-server {named} abort" in action for action in actions)


@pytest.mark.parametrize("name", PLANTS)
def test_a_plant_is_found_and_its_clean_twin_is_not(tmp_path, name):
    for broken in (True, False):
        cluster = PlantedCluster(tmp_path / str(broken))
        log = cluster.partition()
        log.data(cluster.producer_id(), 0, 0)
        PLANTS[name](cluster, log, broken)
        cluster.close()
        result = audited(cluster.directory)
        assert differences(cluster.expected, result.findings) == []
        if not broken:
            assert result.verdict == "holds"


def test_all_plants_of_a_cluster_are_found_and_nothing_else(tmp_path):
    expected = generate(tmp_path, 1 << 22, of_each=3, partitions=2)
    assert differences(expected, audited(tmp_path).findings) == []


def test_what_is_not_found_and_what_is_not_planted_are_differences(tmp_path):
    expected = generate(tmp_path, 1 << 18, of_each=1, partitions=1)
    findings = audited(tmp_path).findings
    assert len(differences(expected[1:], findings)) == 1
    assert len(differences(expected, findings[:-1])) == 1


STRICT = {"2.0.0", "2.4.1"}


@pytest.mark.parametrize(
    ("release", "kind"),
    [(name, "gap" if name in STRICT else "unknown_first") for name in RELEASES],
)
def test_the_release_says_what_may_come_first(tmp_path, release, kind):
    """The rule `first_sequence` of the model, and no text of the audit's own."""
    cluster = PlantedCluster(tmp_path)
    log = cluster.partition()
    log.data(cluster.producer_id(), 0, 0)
    cluster.expect(kind, log, log.data(cluster.producer_id(), 0, 5))
    cluster.close()
    result = audited(tmp_path, AuditSettings(release))
    assert differences(cluster.expected, result.findings) == []


def test_what_is_deleted_explains_a_first_sequence_in_every_release(tmp_path):
    cluster = PlantedCluster(tmp_path)
    PLANTS["deleted"](cluster, cluster.partition(), True)
    cluster.close()
    assert audited(tmp_path, AuditSettings("2.4.1")).verdict == "holds"


@pytest.mark.parametrize(
    ("number", "hours", "kind"),
    [(0, 0, "hanging"), (3, 0, "in_progress"), (3, 1, "hanging")],
)
def test_a_transaction_hangs_by_age_where_coordinators_are_missing(tmp_path, number, hours, kind):
    """Partition 3 of `__transaction_state` alone does not know all transactional ids."""
    cluster = PlantedCluster(tmp_path)
    log = cluster.partition()
    offset = log.data(cluster.producer_id(), 0, 0, in_transaction=True)
    cluster.clock.tick(hours * 3_600_000)
    log.data(cluster.producer_id(), 0, 0)
    cluster.partition(TOPIC, number).keyed(b"\0\0", None)
    cluster.expect(kind, log, offset)
    cluster.close()
    assert differences(cluster.expected, audited(tmp_path).findings) == []


def test_clocks_that_differ_tear_nothing(tmp_path):
    """Markers have their leaders' times, decisions their coordinators'."""
    cluster = PlantedCluster(tmp_path)
    log, producer_id = cluster.partition(), cluster.producer_id()
    for sequence, outcome in enumerate(("COMMIT", "ABORT", "COMMIT")):
        cluster.state(producer_id, 0, TransactionState.ONGOING, log)
        log.data(producer_id, 0, sequence, in_transaction=True)
        cluster.clock.tick(50)
        cluster.state(producer_id, 0, prepared(outcome == "COMMIT"), log)
        cluster.clock.tick(-40)
        log.marker(producer_id, 0, outcome)
        cluster.state(producer_id, 0, completed(outcome == "COMMIT"))
    cluster.close()
    assert audited(tmp_path).verdict == "holds"
