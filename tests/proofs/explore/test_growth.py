"""What a search of 1e9 states needs, at a size for tests: a set that grows by eighths, and keys
that are given back once their states are expanded."""

from dataclasses import replace
from pathlib import Path

import pytest

from proofs.explore import native
from proofs.explore.explorer import explore
from proofs.explore.result import Exploration, Interrupted, SearchProgress
from proofs.lift.machine import Machine
from tests.proofs.lift.toys import crowd, two_phase_commit

OUTGROWING = crowd(40, 250)
"""Its fields are laid out again while most of its segments are forgotten."""


def facts(found: Exploration) -> Exploration:
    return replace(found, engine="", seconds=0.0, peak_bytes=0)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = (*native._RUNTIME_FLAGS, "-DDOUBLED_BYTES=65536", "-DSEGMENT_BITS=12")
    monkeypatch.setattr(native, "_RUNTIME_FLAGS", flags)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_set_that_grows_by_eighths_finds_every_state_once(workers: int) -> None:
    found = explore(two_phase_commit(7), workers=workers)
    assert (found.distinct, found.transitions) == (296_448, 2_744_705)


def test_a_key_that_growing_loses_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: growing leaves out what stands in a shard's last slot."""
    text = native.runtime_text()
    whole = "for (uint64_t from = 0; from < x->room; from++)"
    assert text.count(whole) == 1
    planted = text.replace(whole, whole.replace("x->room", "x->room - 1"))
    monkeypatch.setattr(native, "runtime_text", lambda: planted)
    assert explore(two_phase_commit(7)).distinct > 296_448


@pytest.mark.parametrize("workers", [1, 2])
def test_fields_are_laid_out_again_when_keys_are_forgotten(workers: int) -> None:
    assert facts(explore(OUTGROWING, workers=workers)) == facts(explore(OUTGROWING, "ints"))


def interrupt(machine: Machine, folder: Path) -> None:
    """Ctrl-C once 6,000 states are found."""

    def press(progress: SearchProgress) -> None:
        if progress.distinct > 6_000:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        explore(machine, checkpoint=folder, progress=press)


@pytest.mark.parametrize("machine", [two_phase_commit(7), OUTGROWING], ids=lambda m: m.name)
def test_an_interrupted_search_goes_on(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proofs.explore.checkpoint.INTERVAL_SECONDS", 0.0)
    monkeypatch.setattr("proofs.explore.explorer.PROGRESS_SECONDS", 0.0)
    interrupt(machine, tmp_path)
    monkeypatch.undo()
    assert (tmp_path / "rules.bin").stat().st_size > 2 * 5_000
    assert facts(explore(machine, checkpoint=tmp_path)) == facts(explore(machine))
