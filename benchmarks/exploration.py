"""Every state of two-phase commit: our C engine against SPIN and TLC, one core each.

    python -m benchmarks.exploration [--managers 8] [--json FILE]

One text is lifted to C for our engine and printed as TLA+ for TLC; SPIN reads two_phase_commit.pml,
which has the same steps. All three search exhaustively, keep whole states or (TLC) fingerprints,
check the same guarantee, and must report the same states and transitions, or nothing is printed.

The search is timed: ours from an empty engine to a freed one, SPIN's the whole process `pan`. The
set-up is listed separately: lifting and compiling without a cache for us, `spin -a` and the C
compiler for SPIN. TLC parses its module at each start; its time on the smallest graph counts as
set-up and is subtracted from the others. Java may collect garbage on a second core. TLC is slow, so
it runs in fewer rounds on large graphs: `--tlc-rounds`. Each peer is compared with our own searches
of the same rounds.

The last rows are our searches with symmetry, one state for all that differ by an exchange of
resource managers. They must count the same graph: with C, whose set-up is the compiler's time, and
with integers, which need no compiler.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from benchmarks.measuring import (
    Time,
    count_option,
    measure_time,
    median_time,
    processor_seconds,
    run_benchmark,
)
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
TLC_ROUNDS: Mapping[int, int] = {3: 5, 5: 5, 7: 5, 8: 1, 9: 0}
SPIN_FLAGS = ("-O2", "-DSAFETY", "-DNOREDUCE", "-DMEMLIM=8192")
SPIN_DEPTH = 1_000
_SPIN_STORED = re.compile(r"^\s*([\d.e+]+) states, stored", re.MULTILINE)
_SPIN_MATCHED = re.compile(r"^\s*([\d.e+]+) states, matched", re.MULTILINE)


class MissingSpin(RuntimeError):
    """SPIN is not installed; the message says how to install it."""


class Disagreement(RuntimeError):
    """Two checkers did not find the same graph, or a guarantee broken."""


class Found(NamedTuple):
    """What one search found, and how long it took; `transitions` includes self-loops."""

    seconds: float
    distinct: int
    transitions: int


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
        def build() -> tuple[Machine, Any]:
            with empty_cache():
                machine = machine_of(managers)
                return machine, load(prepare(machine))

        time, (self._machine, self._library) = measure_time(build)
        self.prepared = time.seconds

    def search(self) -> Found:
        """Find all states once. Raises Disagreement if the guarantee is broken."""
        time, found = measure_time(self._search)
        if found.violations:
            raise Disagreement(f"kafka-eos finds {', '.join(found.violations)} broken")
        return Found(time.seconds, found.distinct, found.transitions)

    def _search(self) -> Any:
        engine = NativeSearch(self._library, workers=1, with_edges=False)
        try:
            run = ExplorationRun(self._machine, "c", engine, None)
            return searched(run, lambda: None, stop=False, max_depth=None)
        finally:
            engine.close()


class Spin:
    """SPIN's verifier, compiled from the Promela text; needs a folder to work in."""

    name = "SPIN"

    def __init__(self, managers: int, folder: Path) -> None:
        spin = shutil.which("spin")
        if spin is None:
            raise MissingSpin("SPIN is missing. Type: sudo apt-get install spin (Debian)")
        text = FOLDER / "two_phase_commit.pml"
        generate = [spin, f"-DN={managers}", "-a", str(text)]
        build = [*compiler_command(), *SPIN_FLAGS, "-o", "pan", "pan.c"]
        time, _ = measure_time(lambda: [_output(step, folder) for step in (generate, build)])
        self.prepared = time.seconds
        slots = DISTINCT[managers].bit_length()  # of its hash table, the next power of two
        self._command = [str(folder / "pan"), f"-m{SPIN_DEPTH}", f"-w{max(slots, 16)}"]
        self._folder = folder

    def search(self) -> Found:
        """Find all states once. Raises Disagreement at any error that SPIN counts."""
        time, said = measure_time(lambda: _output(self._command, self._folder))
        if "errors: 0" not in said or "max search depth too small" in said:
            raise Disagreement(f"SPIN gives up:\n{said}")
        distinct = _count(_SPIN_STORED, said)
        # To SPIN the step to the first state is one as well.
        return Found(time.seconds, distinct, distinct + _count(_SPIN_MATCHED, said) - 1)


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


def time_search(checker: Checker) -> tuple[Time, Found]:
    """One search: the seconds that it counts, and the processor time that it took."""
    time, found = measure_time(checker.search, processor_seconds)
    return time._replace(seconds=found.seconds), found


def agree(name: str, found: Found, distinct: int, transitions: int) -> None:
    """Refuse a search of another graph. Raises Disagreement."""
    close = abs(found.transitions - transitions) <= transitions * 1e-6
    if found.distinct != distinct or not close:
        raise Disagreement(
            f"{name} finds {found.distinct:,} states and {found.transitions:,} transitions;"
            f" there are {distinct:,} and {transitions:,}"
        )


def measure_pairs(
    ours: Checker, peers: Sequence[tuple[Checker, int]], managers: int
) -> tuple[dict[str, list[tuple[Time, Time]]], int]:
    """For each peer its rounds, our search and then its own; and the graph's transitions.

    Raises Disagreement.
    """
    expected = ours.search()
    agree(ours.name, expected, DISTINCT[managers], expected.transitions)
    pairs: dict[str, list[tuple[Time, Time]]] = {peer.name: [] for peer, _ in peers}

    def timed(checker: Checker) -> Time:
        time, found = time_search(checker)
        agree(checker.name, found, expected.distinct, expected.transitions)
        return time

    for number in range(max(rounds for _, rounds in peers)):
        for peer, rounds in peers:
            if number < rounds:
                pairs[peer.name].append((timed(ours), timed(peer)))
    return pairs, expected.transitions


def summarise(
    ours: Checker, peer: Checker, pairs: Sequence[tuple[Time, Time]], distinct: int
) -> dict[str, Any]:
    """Medians of one peer's rounds, and how many times as fast we are: the medians' ratios.

    `processor_ratio` compares what the threads used, which says more where others use the machine;
    a peer's includes its start. None if ours was too short to be measured.
    """
    mine, its = map(median_time, zip(*pairs, strict=True))
    return {
        "peer": peer.name,
        "rounds": len(pairs),
        "ours_seconds": mine.seconds,
        "peer_seconds": its.seconds,
        "ratio": its.seconds / mine.seconds,
        "processor_ratio": its.cpu_seconds / mine.cpu_seconds if mine.cpu_seconds else None,
        "ours_states_per_second": round(distinct / mine.seconds),
        "peer_states_per_second": round(distinct / its.seconds),
        "ours_prepared_seconds": ours.prepared,
        "peer_prepared_seconds": peer.prepared,
    }


def search_orbits(managers: int, engine: str, transitions: int) -> dict[str, Any]:
    """One state for all that differ by an exchange of managers: seconds of the search alone.

    `prepared_seconds` is what the engine took before it, without a cache. Raises Disagreement if
    the orbits do not stand for all states.
    """
    machine = machine_of(managers)
    symmetry = symmetry_of(model(), configuration_of(managers), machine, "managers")
    with empty_cache():
        time, found = measure_time(lambda: explore(machine, engine, symmetry=symmetry))
    counted = Found(found.seconds, found.distinct, found.transitions)
    agree(f"{engine} by symmetry", counted, DISTINCT[managers], transitions)
    return {
        "engine": engine,
        "orbits": found.orbits,
        **counted._asdict(),
        "prepared_seconds": time.seconds - found.seconds,
    }


def compare(managers: int, rounds: int, tlc_rounds: int) -> dict[str, Any]:
    """All rounds, then the orbits. Raises MissingSpin, Disagreement, and what TLC's tools raise."""
    distinct = DISTINCT[managers]
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(managers)
        peers: list[tuple[Checker, int]] = [(Spin(managers, Path(folder)), rounds)]
        if tlc_rounds:
            peers.append((Tlc(managers), tlc_rounds))
        pairs, transitions = measure_pairs(ours, peers, managers)
    return {
        "managers": managers,
        "distinct": distinct,
        "peers": [summarise(ours, peer, pairs[peer.name], distinct) for peer, _ in peers],
        "orbits": [search_orbits(managers, engine, transitions) for engine in ENGINES],
    }


def format_report(report: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a report."""
    managers, distinct = report["managers"], report["distinct"]
    yield f"two-phase commit, {managers} resource managers: {distinct:,} states each"
    for r in report["peers"]:
        cpu = r["processor_ratio"]
        share = "" if cpu is None else f" ({cpu:.1f} in processor time)"
        yield (
            "{peer}: ratio {ratio:.1f}{share}, medians of {rounds} alternated pairs:"
            " {ours_seconds:.3f} s ({ours_states_per_second:,} states/s)"
            " against {peer_seconds:.3f} s ({peer_states_per_second:,} states/s);"
            " set-up {ours_prepared_seconds:.1f} s against {peer_prepared_seconds:.1f} s"
        ).format(share=share, **r)
    for r in report["orbits"]:
        yield (
            "by symmetry, {engine}: {orbits:,} orbits of {distinct:,} states,"
            " {transitions:,} transitions, {seconds:.3f} s; set-up {prepared_seconds:.1f} s"
        ).format(**r)


def measure(asked: Namespace) -> Mapping[str, Any]:
    """All searches of one size. Raises MissingSpin, Disagreement."""
    few = TLC_ROUNDS[asked.managers] if asked.tlc_rounds is None else asked.tlc_rounds
    report = compare(asked.managers, asked.rounds, few)
    print("\n".join(format_report(report)))
    return report


OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--managers": {"type": int, "default": 8, "choices": tuple(DISTINCT)},
    "--rounds": count_option(5, "pairs with SPIN"),
    "--tlc-rounds": {"type": int, "help": "pairs with TLC; 0 leaves it out"},
}

main = partial(run_benchmark, "exploration", __doc__, OPTIONS, measure, (MissingSpin,))

if __name__ == "__main__":
    sys.exit(main())
