"""Every state of two-phase commit: our C engine against SPIN and TLC, one core each.

    python -m benchmarks.exploration [--managers 8] [--json FILE]

One text is lifted to C for us and printed as TLA+ for TLC; SPIN's is two_phase_commit.pml, whose
steps are the same ones. All three search exhaustively, keep whole states or (TLC) fingerprints,
test the same guarantee, and must report the same states and transitions, or nothing is printed.

What is timed is the search: ours from an empty engine to a freed one, SPIN's the whole process
`pan`. What comes before is listed apart: lifting and compiling without a cache for us, `spin -a`
and the C compiler for SPIN. TLC reads its module at each start; its time on the smallest graph is
listed as that, and taken off the others; Java may collect its garbage on a second core. TLC is
slow, so that it takes part in fewer rounds where the graph is large: `--tlc-rounds` says in how
many. Each peer is compared with our own searches of the same rounds; `benchmarks.peers` times
calls, and here each search tells its own time and what it found.

Beside the peers stands our search of one state for all that differ by an exchange of resource
managers, which must count the same graph: by C, whose set-up is the compiler's time, and by
integers, which need no compiler.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

if not __package__:
    sys.path[0] = str(Path(__file__).parents[1])

from proofs.explore.explorer import ENGINES, ExplorationRun, explore, load, prepare, searched
from proofs.explore.native import NativeSearch
from proofs.explore.symmetry import symmetry_of
from proofs.export.tla import export_tla
from proofs.export.tlc import run_tlc
from proofs.lift.build import lift
from proofs.lift.compiler import compiler_command
from proofs.lift.machine import Machine
from proofs.lift.source import Model, load_package

FOLDER = Path(__file__).parent / "two_phase_commit"
DISTINCT: Mapping[int, int] = {3: 288, 5: 8_832, 7: 296_448, 8: 1_745_408, 9: 10_340_352}
"""States by the number of resource managers."""

SMALLEST = min(DISTINCT)
ROUNDS = 5
TLC_ROUNDS: Mapping[int, int] = {3: 5, 5: 5, 7: 5, 8: 1, 9: 0}
SPIN_FLAGS = ("-O2", "-DSAFETY", "-DNOREDUCE", "-DMEMLIM=8192")
SPIN_DEPTH = 1_000
_SPIN_STORED = re.compile(r"^\s*([\d.e+]+) states, stored", re.MULTILINE)
_SPIN_MATCHED = re.compile(r"^\s*([\d.e+]+) states, matched", re.MULTILINE)


class MissingSpin(RuntimeError):
    """SPIN is not installed; the message says how to install it."""


class Disagreement(RuntimeError):
    """Two checkers did not find the same graph, or a guarantee broken."""


@dataclass(frozen=True, slots=True)
class Found:
    """One search: how long it took, and what it found. `transitions` includes self-loops.

    `processor_seconds` is what all its threads used, 0 if that was not measured.
    """

    seconds: float
    distinct: int
    transitions: int
    processor_seconds: float = 0.0


class Checker(Protocol):
    """A checker that is ready to search; `prepared` is how long that took."""

    name: str
    prepared: float

    def search(self) -> Found:
        """Find all states once."""


@functools.cache
def model() -> Model:
    """Two-phase commit, as text and as running modules."""
    return load_package("benchmarks.two_phase_commit")


def configuration_of(managers: int) -> Any:
    """Two-phase commit of so many resource managers."""
    configuration = model().configuration
    return configuration.Configuration(bounds=configuration.Bounds(managers=managers))


def machine_of(managers: int) -> Machine:
    """The same, lifted."""
    return lift(model(), configuration_of(managers), f"two-phase-commit-{managers}").machine


@contextmanager
def empty_cache() -> Iterator[None]:
    """While it lasts, nothing was compiled before."""
    kept = os.environ.get("KAFKA_EOS_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["KAFKA_EOS_CACHE"] = folder
        try:
            yield
        finally:
            del os.environ["KAFKA_EOS_CACHE"]
            if kept is not None:
                os.environ["KAFKA_EOS_CACHE"] = kept


class Ours:
    """The lifted text as C, with one worker."""

    name = "kafka-eos"

    def __init__(self, managers: int) -> None:
        begun = time.perf_counter()
        self._machine = machine_of(managers)
        with empty_cache():
            self._library = load(prepare(self._machine))
        self.prepared = time.perf_counter() - begun

    def search(self) -> Found:
        """Find all states once. Raises Disagreement if the guarantee is broken."""
        begun = time.perf_counter()
        engine = NativeSearch(self._library, workers=1, with_edges=False)
        try:
            run = ExplorationRun(self._machine, "c", engine, None)
            found = searched(run, lambda: None, stop=False, max_depth=None)
        finally:
            engine.close()
        seconds = time.perf_counter() - begun
        if found.violations:
            raise Disagreement(f"kafka-eos finds {', '.join(found.violations)} broken")
        return Found(seconds, found.distinct, found.transitions)


class Spin:
    """SPIN's verifier, compiled from the Promela text; needs a folder to work in."""

    name = "SPIN"

    def __init__(self, managers: int, folder: Path) -> None:
        spin = shutil.which("spin")
        if spin is None:
            raise MissingSpin("SPIN is missing. Type: sudo apt-get install spin (Debian)")
        begun = time.perf_counter()
        text = FOLDER / "two_phase_commit.pml"
        _output([spin, f"-DN={managers}", "-a", str(text)], folder)
        _output([*compiler_command(), *SPIN_FLAGS, "-o", "pan", "pan.c"], folder)
        self.prepared = time.perf_counter() - begun
        slots = DISTINCT[managers].bit_length()  # of its hash table, the next power of two
        self._command = [str(folder / "pan"), f"-m{SPIN_DEPTH}", f"-w{max(slots, 16)}"]
        self._folder = folder

    def search(self) -> Found:
        """Find all states once. Raises Disagreement at any error that SPIN counts."""
        begun = time.perf_counter()
        said = _output(self._command, self._folder)
        seconds = time.perf_counter() - begun
        if "errors: 0" not in said or "max search depth too small" in said:
            raise Disagreement(f"SPIN gives up:\n{said}")
        distinct = _count(_SPIN_STORED, said)
        # To SPIN the step to the first state is one as well.
        return Found(seconds, distinct, distinct + _count(_SPIN_MATCHED, said) - 1)


class Tlc:
    """TLC with one worker on the exported text."""

    name = "TLC"

    def __init__(self, managers: int) -> None:
        self._module = _module(managers)
        self.prepared = run_tlc(_module(SMALLEST)).seconds
        self._start = self.prepared if managers > SMALLEST else 0.0

    def search(self) -> Found:
        """Find all states once. Raises Disagreement if the guarantee is broken."""
        found = run_tlc(self._module)
        if found.violation is not None:
            raise Disagreement(f"TLC finds {found.violation} broken")
        # To TLC the first state is generated as well.
        return Found(found.seconds - self._start, found.distinct, found.generated - 1)


def _module(managers: int) -> Any:
    return export_tla(model(), configuration_of(managers), "two_phase_commit")


def _output(command: Sequence[str], folder: Path) -> str:
    """What a command prints. Raises RuntimeError, with the output, if it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def _count(pattern: re.Pattern[str], said: str) -> int:
    """A number that SPIN prints; from 1e8 on it prints seven digits only."""
    number = pattern.search(said)
    if number is None:
        raise Disagreement(f"SPIN does not say what it counted:\n{said}")
    return int(float(number[1]))


def processor_seconds() -> float:
    """What this process and its finished children have used until now."""
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def searched_by(checker: Checker) -> Found:
    """One search with the processor time it took."""
    before = processor_seconds()
    found = checker.search()
    return replace(found, processor_seconds=processor_seconds() - before)


def agree(name: str, found: Found, distinct: int, transitions: int) -> None:
    """Refuse a search of another graph. Raises Disagreement."""
    close = abs(found.transitions - transitions) <= transitions * 1e-6
    if found.distinct != distinct or not close:
        raise Disagreement(
            f"{name} finds {found.distinct:,} states and {found.transitions:,} transitions;"
            f" there are {distinct:,} and {transitions:,}"
        )


def measured(
    ours: Checker, peers: Sequence[tuple[Checker, int]], managers: int
) -> dict[str, list[tuple[Found, Found]]]:
    """For each peer its rounds: our search, then its own. Raises Disagreement."""
    expected = ours.search()
    agree(ours.name, expected, DISTINCT[managers], expected.transitions)
    pairs: dict[str, list[tuple[Found, Found]]] = {peer.name: [] for peer, _ in peers}
    for number in range(max(rounds for _, rounds in peers)):
        for peer, rounds in peers:
            if number >= rounds:
                continue
            pair = searched_by(ours), searched_by(peer)
            for name, found in zip((ours.name, peer.name), pair, strict=True):
                agree(name, found, expected.distinct, expected.transitions)
            pairs[peer.name].append(pair)
    return pairs


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one peer: medians of seconds, and how many times as fast we are.

    `processor_ratio` compares what the threads used, which says more where others use the machine;
    a peer's includes its start. None if ours was too short to be measured.
    """

    peer: str
    rounds: int
    ours_seconds: float
    peer_seconds: float
    ratio: float
    processor_ratio: float | None
    ours_states_per_second: int
    peer_states_per_second: int
    ours_prepared_seconds: float
    peer_prepared_seconds: float


def row(ours: Checker, peer: Checker, pairs: list[tuple[Found, Found]], distinct: int) -> Row:
    """Medians of one peer's rounds; the ratios are those of the medians."""
    mine, its = (
        statistics.median(f.seconds for f in column) for column in zip(*pairs, strict=True)
    )
    my_share, its_share = (
        statistics.median(f.processor_seconds for f in column)
        for column in zip(*pairs, strict=True)
    )
    return Row(
        peer=peer.name,
        rounds=len(pairs),
        ours_seconds=mine,
        peer_seconds=its,
        ratio=its / mine,
        processor_ratio=its_share / my_share if my_share else None,
        ours_states_per_second=round(distinct / mine),
        peer_states_per_second=round(distinct / its),
        ours_prepared_seconds=ours.prepared,
        peer_prepared_seconds=peer.prepared,
    )


@dataclass(frozen=True, slots=True)
class Orbits:
    """One state for all that differ by an exchange of managers: seconds of the search alone.

    `prepared_seconds` is what the engine took before it, without a cache.
    """

    engine: str
    orbits: int
    distinct: int
    transitions: int
    seconds: float
    prepared_seconds: float


def of_orbits(managers: int, engine: str, transitions: int) -> Orbits:
    """Search the orbits. Raises Disagreement if they do not stand for all states."""
    machine = machine_of(managers)
    symmetry = symmetry_of(model(), configuration_of(managers), machine, "managers")
    with empty_cache():
        begun = time.perf_counter()
        found = explore(machine, engine, symmetry=symmetry)
        seconds = time.perf_counter() - begun
    assert found.orbits is not None
    counted = Found(found.seconds, found.distinct, found.transitions)
    agree(f"{engine} by symmetry", counted, DISTINCT[managers], transitions)
    return Orbits(
        engine=engine,
        orbits=found.orbits,
        distinct=found.distinct,
        transitions=found.transitions,
        seconds=found.seconds,
        prepared_seconds=seconds - found.seconds,
    )


def compare(managers: int, rounds: int, tlc_rounds: int) -> tuple[list[Row], list[Orbits]]:
    """All rounds, then the orbits. Raises MissingSpin, Disagreement, and what TLC's tools raise."""
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(managers)
        peers: list[tuple[Checker, int]] = [(Spin(managers, Path(folder)), rounds)]
        if tlc_rounds:
            peers.append((Tlc(managers), tlc_rounds))
        pairs = measured(ours, peers, managers)
        rows = [row(ours, peer, pairs[peer.name], DISTINCT[managers]) for peer, _ in peers]
    transitions = pairs[Spin.name][0][0].transitions
    return rows, [of_orbits(managers, engine, transitions) for engine in ENGINES]


def shown_orbits(r: Orbits) -> str:
    """A line of a report."""
    return (
        f"by symmetry, {r.engine}: {r.orbits:,} orbits of {r.distinct:,} states,"
        f" {r.transitions:,} transitions, {r.seconds:.3f} s; set-up {r.prepared_seconds:.1f} s"
    )


def shown(managers: int, rows: Sequence[Row]) -> Iterator[str]:
    """The lines of a report."""
    yield f"two-phase commit, {managers} resource managers: {DISTINCT[managers]:,} states each"
    for r in rows:
        share = "" if r.processor_ratio is None else f" ({r.processor_ratio:.1f} in processor time)"
        yield (
            f"{r.peer}: ratio {r.ratio:.1f}{share},"
            f" medians of {r.rounds} alternated pairs:"
            f" {r.ours_seconds:.3f} s ({r.ours_states_per_second:,} states/s)"
            f" against {r.peer_seconds:.3f} s ({r.peer_states_per_second:,} states/s);"
            f" set-up {r.ours_prepared_seconds:.1f} s against {r.peer_prepared_seconds:.1f} s"
        )


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--managers", type=int, default=8, choices=tuple(DISTINCT))
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="pairs with SPIN")
    parser.add_argument("--tlc-rounds", type=int, help="pairs with TLC; 0 leaves it out")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args(words)
    few = TLC_ROUNDS[asked.managers] if asked.tlc_rounds is None else asked.tlc_rounds
    try:
        rows, orbits = compare(asked.managers, max(1, asked.rounds), few)
    except MissingSpin as missing:
        parser.exit(2, f"{missing}\n")
    for line in shown(asked.managers, rows):
        print(line)
    for reduced in orbits:
        print(shown_orbits(reduced))
    if asked.json is not None:
        content = {
            "benchmark": "exploration",
            "managers": asked.managers,
            "distinct": DISTINCT[asked.managers],
            "peers": [asdict(r) for r in rows],
            "orbits": [asdict(reduced) for reduced in orbits],
        }
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
