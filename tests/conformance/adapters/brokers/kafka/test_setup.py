"""What happens before a broker runs: the table, the cache, missing tools, its properties."""

import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest

from conformance.adapters.brokers.kafka.broker import KafkaBroker
from conformance.adapters.brokers.kafka.errors import BrokerFailed, UnknownRelease
from conformance.adapters.brokers.kafka.fetch import fetch
from conformance.adapters.brokers.kafka.ports import PORTS, free_ports
from conformance.adapters.brokers.kafka.recipe import (
    BrokerNode,
    Ensemble,
    properties_text,
    server_properties,
    zookeeper_properties,
)
from conformance.adapters.brokers.kafka.releases import NEWEST, RELEASES, Release, find_release
from conformance.adapters.brokers.kafka.storage import CLUSTER_ID
from model.releases import RELEASES as MODELLED
from proofs.cache import cache_folder, make_once
from proofs.java import FetchFailed, MissingTool, download_jars, find_java, java_major, pom_of


def properties_of(release: Release, level: int, **overrides: str) -> dict[str, str]:
    node = BrokerNode(1, 1001, 1002)
    ensemble = Ensemble((node, BrokerNode(2, 2001, 2002)), zookeeper_port=3001)
    return server_properties(release, level, node, ensemble, Path("/data"), overrides)


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
def test_each_release_names_artifacts_and_a_level_it_has(release):
    assert all(artifact.count(":") == 2 for artifact in release.artifacts)
    release.check_level(release.default_level)


def test_the_releases_are_those_of_the_model_and_differ_by_what_their_names_say():
    assert set(RELEASES) == {name for names in MODELLED.values() for name in names}
    assert next(iter(RELEASES)) == NEWEST
    of_zookeeper = {name for name, release in RELEASES.items() if release.has_zookeeper}
    assert of_zookeeper == {"3.9.2-zookeeper", "2.8.2", "2.4.1", "2.0.0"}
    without_expiry = {name for name, one in RELEASES.items() if not one.has_producer_expiry}
    assert without_expiry == {"3.3.2", "2.8.2", "2.4.1", "2.0.0"}
    levels = {name: one.levels for name, one in RELEASES.items() if not name.startswith("4.")}
    assert {name for name in levels if levels[name]} == {"3.9.2"}
    assert find_release("2.4.1").artifacts[0] == "org.apache.kafka:kafka_2.12:2.4.1"


def test_unknown_releases_and_levels_are_refused_with_what_there_is():
    with pytest.raises(UnknownRelease, match=NEWEST.replace(".", r"\.")):
        find_release("9.9.9")
    with pytest.raises(UnknownRelease, match=r"transaction\.version 3; it has \[0, 1, 2\]"):
        KafkaBroker(NEWEST, level=3)
    with pytest.raises(UnknownRelease, match=r"it has \[0\]"):
        KafkaBroker("3.3.2", level=1)


def test_an_unstable_level_is_asked_for_in_the_properties():
    name = "unstable.feature.versions.enable"
    release = find_release("3.9.2")
    assert properties_of(release, 2)[name] == "true"
    assert name not in properties_of(release, 0)


def test_properties_name_all_voters_and_overrides_win():
    properties = properties_of(find_release(NEWEST), 2, **{"num.io.threads": "9"})
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:1002,2@127.0.0.1:2002"
    assert "num.io.threads=9\n" in properties_text(properties)


def test_who_does_not_vote_is_no_controller():
    one, other = BrokerNode(1, 1001, 1002), BrokerNode(2, 2001, 2002)
    ensemble = Ensemble((one, other), voters=(1,))
    votes, serves = (
        server_properties(find_release(NEWEST), 2, node, ensemble, Path("/data"), {})
        for node in (one, other)
    )
    assert votes["controller.quorum.voters"] == "1@127.0.0.1:1002"
    assert serves["controller.quorum.voters"] == "1@127.0.0.1:1002"
    assert (votes["process.roles"], serves["process.roles"]) == ("broker,controller", "broker")
    assert serves["listeners"] == "PLAINTEXT://127.0.0.1:2001"


@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
def test_a_broker_has_either_a_quorum_or_a_zookeeper(release):
    properties = properties_of(release, release.default_level)
    assert ("zookeeper.connect" in properties) is release.has_zookeeper
    assert ("process.roles" in properties) is not release.has_zookeeper
    assert properties.get("zookeeper.connect", "127.0.0.1:3001") == "127.0.0.1:3001"


def test_zookeeper_listens_to_this_machine_alone():
    properties = zookeeper_properties(3001, Path("/data"))
    assert properties["clientPortAddress"] == "127.0.0.1"
    assert (properties["clientPort"], properties["dataDir"]) == ("3001", "/data")


def test_both_modes_of_a_release_are_one_version():
    modes = [find_release(name) for name in ("3.9.2", "3.9.2-zookeeper")]
    assert [mode.version for mode in modes] == ["3.9.2", "3.9.2"]
    assert [mode.artifacts for mode in modes] == [modes[0].artifacts] * 2
    assert [mode.has_zookeeper for mode in modes] == [False, True]


def test_the_cluster_id_has_the_form_of_a_uuid():
    assert len(CLUSTER_ID) == 22


def test_a_pom_depends_on_the_artifacts():
    root = ElementTree.fromstring(pom_of(["a.b:c:1.0", "d:e:2"]))
    fields = [[field.text for field in dependency] for dependency in root.iter("dependency")]
    assert fields == [["a.b", "c", "1.0"], ["d", "e", "2"]]


def test_ports_are_different_and_outside_the_systems_own_range():
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert set(ports) <= set(PORTS)


def test_missing_java_is_named_with_how_to_install_it(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(MissingTool, match=r"Java is missing.*apt-get install"):
        find_java()


def test_missing_maven_is_named_with_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("KAFKA_EOS_CACHE", str(tmp_path))
    with pytest.raises(MissingTool, match=r"Maven is missing.*apt-get install maven"):
        fetch(find_release(NEWEST))
    assert not list((tmp_path / "kafka" / NEWEST).glob("lib*/*"))


@pytest.mark.parametrize(("printed", "major"), [("17.0.15", 17), ("1.8.0_292", 1), ("21-ea", 21)])
def test_an_old_java_is_told_from_a_new_one(printed, major, tmp_path):
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{printed}\"' >&2\n")
    java.chmod(0o755)
    assert java_major(java) == major


def test_what_maven_printed_is_quoted(monkeypatch, tmp_path):
    mvn = tmp_path / "mvn"
    mvn.write_text("#!/bin/sh\necho no such artifact\nexit 1\n")
    mvn.chmod(0o755)
    monkeypatch.setattr("proofs.java.find_java", lambda: Path("/usr/bin/java"))
    monkeypatch.setattr("proofs.java.find_maven", lambda: mvn)
    with pytest.raises(FetchFailed, match="no such artifact"):
        download_jars(["a:b:1"], tmp_path)


def test_the_cache_is_where_the_environment_says(monkeypatch):
    monkeypatch.setenv("KAFKA_EOS_CACHE", "/somewhere")
    assert cache_folder() == Path("/somewhere")
    monkeypatch.delenv("KAFKA_EOS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/kafka-eos")


def test_a_folder_is_made_once_by_many(tmp_path):
    made: list[Path] = []

    def make(draft: Path) -> None:
        made.append(draft)
        (draft / "file").write_text("whole")

    threads = [
        threading.Thread(target=make_once, args=(tmp_path / "target", make)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert (tmp_path / "target" / "file").read_text() == "whole"


def test_a_folder_whose_making_failed_is_not_there(tmp_path):
    def make(draft: Path) -> None:
        (draft / "file").write_text("half")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError):
        make_once(tmp_path / "target", make)
    assert [path.name for path in tmp_path.iterdir()] == ["target.lock"]


@pytest.mark.kafka
@pytest.mark.xdist_group("kafka")
def test_a_broker_that_cannot_start_quotes_its_log(broker, tmp_path):
    properties = {"log.retention.ms": "not a number"}
    with (
        pytest.raises(BrokerFailed, match=r"exit code 1[\s\S]*not a number"),
        KafkaBroker(properties=properties, folder=tmp_path / "broken"),
    ):
        pass
    assert (tmp_path / "broken" / "server.log").exists()
