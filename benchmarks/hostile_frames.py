"""Hostile frames, played at a broker without sockets: `python -m benchmarks.hostile_frames`.

Requests of every API and version are filled by the table of schemas, then mutated: bits, lengths,
varints, counts of nested arrays, tagged fields, headers, record batches, bombs of each codec. A
frame is a function of `--seed` and its number, so that `--first` goes on where a run ended. Each
must be answered in the form of its version, or its connection closed with a reason; what was
refused must have changed nothing. Exit code 1 if one was not.
"""

from __future__ import annotations

import resource
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from benchmarks.hostile.playing import Report, play_frames
from benchmarks.measuring import count_option, processor_seconds, round_figures, run_benchmark

PROGRESS_FRAMES = 100_000


class HostileFrame(Exception):
    """Frames after which the broker was not as it must be."""


def play_all(first: int, count: int, seed: int) -> Report:
    """Play, and say on stderr how far it is."""
    total = Report()
    for chapter in play_frames(first, count, seed):
        before = total.frames
        total.add(chapter)
        if before // PROGRESS_FRAMES < total.frames // PROGRESS_FRAMES:
            print(
                f"{total.frames:,} frames; the next is --first {first + total.frames}",
                file=sys.stderr,
            )
    return total


def measure(asked: Namespace) -> Mapping[str, Any]:
    """Play, and print what became of the frames. Raises HostileFrame."""
    begun = processor_seconds()
    report = play_all(asked.first, asked.frames, asked.seed)
    seconds = processor_seconds() - begun
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{report.frames:,} frames in {seconds:,.0f} s of processors, at most {peak_mib:,.0f} MiB"
    )
    for name, count in report.outcomes.most_common():
        print(f"  {name:<16} {count:>10,}")
    print(f"  refused again    {report.refused_again:>10,}, nothing changed")
    slowest, number, mutation = report.slowest
    print(
        f"slowest {slowest * 1e3:,.1f} ms (frame {number}, {mutation}),"
        f" bomb {report.slowest_bomb * 1e3:,.0f} ms"
    )
    if report.findings:
        lines = [f"frame {f.number} ({f.mutation}): {f.problem}" for f in report.findings[:20]]
        raise HostileFrame("\n".join([f"{len(report.findings)} findings", *lines]))
    return {
        "frames": report.frames,
        "first": asked.first,
        "seed": asked.seed,
        "cpu_seconds": round_figures(seconds),
        "peak_mib": round_figures(peak_mib),
        "outcomes": dict(report.outcomes),
        "mutations": dict(report.mutations),
        "refused_again": report.refused_again,
        "slowest_ms": round_figures(slowest * 1e3),
        "slowest_bomb_ms": round_figures(report.slowest_bomb * 1e3),
    }


OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "--frames": count_option(100_000, "frames"),
    "--first": {"type": int, "default": 0, "help": "number of the first one (0)"},
    "--seed": {"type": int, "default": 0, "help": "of the random source (0)"},
}


def main(words: list[str] | None = None) -> int:
    """Run the command."""
    return run_benchmark("hostile_frames", __doc__, OPTIONS, measure, (HostileFrame,), words)


if __name__ == "__main__":
    sys.exit(main())
