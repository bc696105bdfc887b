"""Engine "spark", for machines with Spark; the other engines are in `proofs/explore/engines.py`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from conformance.backends.exploration import successors
from conformance.backends.exploration.spark_search import SparkSearch
from conformance.backends.exploration.state_table import StateTable
from conformance.backends.spark import default_partitions, open_backend
from conformance.judging.backend import BackendFailed, Options, WorkerTask
from proofs.explore.checkpoint import (
    CheckpointError,
    Restored,
    Snapshot,
    key_of,
    snapshot_from,
    snapshot_json,
)
from proofs.explore.engines import EngineCounts, EngineJob, counted, lifted
from proofs.explore.explorer import ExplorationRun, prepare, searched
from proofs.say import note

NAME: Final = "spark"
EXACT_WORDS: Final = 2
"""States with at most this many words have fingerprints without collisions."""


@dataclass(frozen=True, slots=True)
class TableCheckpoint:
    """The table as the checkpoint of a search: each level is written when it is found."""

    search: SparkSearch
    table: StateTable
    key: str
    buckets: int

    def load(self, restored: Restored) -> Snapshot | None:
        """Continue with the stored states, or begin; the table itself needs no restoring.

        Raises CheckpointError.
        """
        found = self.table.last_counts()
        if found is None:
            self.search.begin(self.buckets)
            return None
        try:
            key, noted, buckets = (found[name] for name in ("key", "noted", "buckets"))
            snapshot = snapshot_from(found)
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"counts in {self.table.place} are damaged: {error!r}") from error
        if key != self.key:
            note(f"the model has changed since the search in {self.table.place}: beginning again")
            self.search.begin(self.buckets)
            return None
        self.search.resume(snapshot, noted, buckets)
        return snapshot

    def level_done(self, snapshot: Snapshot) -> None:
        """Make a level count; its states are in the table already."""
        noted = self.search.noted()
        more = {"key": self.key, "buckets": self.table.buckets, "noted": noted}
        self.table.write_counts(self.search.level, {**snapshot_json(snapshot), **more})

    def write(self) -> None:
        """Nothing: all levels are written."""


def collision_bound(distinct: int, words: int) -> float:
    """Bounds the probability that two states of a search had the same fingerprint."""
    return 0.0 if words <= EXACT_WORDS else distinct**2 / 2**129


def explore_on_spark(job: EngineJob, options: Options, place: str) -> EngineCounts:
    """Explore on Spark, with the levels in `place`, a folder or a URI.

    Raises BackendError, CheckpointError, RangeBroken, NoCompiler, CompilerFailed.
    """
    machine = lifted(job)
    prepared = prepare(machine)
    directory = successors.write_machine(prepared, options.log.parent / "prepared")
    compiled = successors.load(directory)
    words = prepared.layout.words
    spark = open_backend(WorkerTask(successors.__name__, directory), options)
    search = None
    try:
        table = StateTable(spark.session, place, words)
        search = SparkSearch(spark, table, prepared, compiled)
        key = key_of(prepared.machine, prepared.layout, job.stop, job.max_depth, None)
        kept = TableCheckpoint(
            search, table, key, options.partitions or default_partitions(spark.cores)
        )
        driver = ExplorationRun(machine, NAME, search, job.progress, kept)
        counts = counted(
            lambda: searched(driver, lambda: None, job.stop, job.max_depth),
            [(rule.rule, rule.choice) for rule in machine.rules],
        )
        return replace(counts, collision_bound=collision_bound(counts.distinct, words))
    finally:
        with suppress(BackendFailed):  # a closed session has no table
            if search is not None:
                search.close()
        spark.close()
