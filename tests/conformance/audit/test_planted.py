"""Each kind of finding has a planted log that shows it, and a clean twin that does not."""

import pytest

from conformance.audit.partition_audit import AuditSettings
from conformance.audit.planted import PLANTS, PlantedCluster, differences, generate
from conformance.audit.report import conclude
from conformance.audit.segments import find_partitions
from conformance.audit.task import audit_all
from conformance.backends import Options

SETTINGS = AuditSettings("4.3.1")


def audited(directory, settings=SETTINGS):
    done = audit_all(
        find_partitions([directory]), settings, "processes", Options(directory, partitions=1)
    )
    return conclude((audit for audit in done if audit is not None), settings)


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
