"""Directories that real brokers left: ours says of them what those brokers say.

`python -m conformance.campaigns.directories --record tests/impl/storage/recorded_directories`
makes them anew (Java 17 and Maven): `--scenario` and `--release` are patterns that choose some.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from conformance.campaigns.directories.comparison import read_known
from conformance.campaigns.directories.recorded import MAX_BYTES, SUFFIX, Recorded, unpack
from conformance.campaigns.directories.scenarios import read_scenarios
from conformance.campaigns.directories.verdict import DirectoryVerdict, judge

FOLDER = Path(__file__).with_name("recorded_directories")
PACKED = sorted(FOLDER.glob(f"*{SUFFIX}"))
SCENARIOS = read_scenarios()

pytestmark = pytest.mark.slow


def verdicts_of(
    recorded: Recorded, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[DirectoryVerdict]:
    """At the time at which the real broker was stopped: later, records and producers expire."""
    times = itertools.count(recorded.stopped_ms)
    monkeypatch.setattr("impl.broker.embedded.wall_clock_ms", lambda: next(times))
    scenario, release = SCENARIOS[recorded.scenario], recorded.release
    return [
        judge(
            scenario.name,
            release,
            recorded.answers,
            path,
            folder / f"ours-{path.name}",
            expected=scenario.refusal(release, path.name),
            since_ms=recorded.stopped_ms,
        )
        for path in recorded.folders
    ]


@pytest.mark.parametrize("packed", PACKED, ids=lambda path: path.name.removesuffix(SUFFIX))
def test_it_is_served_as_its_own_broker_serves_it_or_refused(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = unpack(packed, tmp_path)
    verdicts = verdicts_of(recorded, tmp_path, monkeypatch)
    assert all(verdict.is_right for verdict in verdicts), [each.lines() for each in verdicts]
    for verdict in verdicts:
        assert len(verdict.refusal.splitlines()) <= 1
        assert bool(verdict.refusal) == bool(verdict.expected)


def test_each_scenario_and_release_is_recorded_and_small() -> None:
    names = {path.name.removesuffix(SUFFIX) for path in PACKED}
    scenarios = SCENARIOS.values()
    assert names == {f"{each.name}-{name}" for each in scenarios for name in each.releases}
    assert max(path.stat().st_size for path in PACKED) < MAX_BYTES
    assert sum(path.stat().st_size for path in PACKED) < 10 * MAX_BYTES


def test_each_known_difference_has_a_reason() -> None:
    assert all(row.reason and row.path.startswith("/") for row in read_known())
