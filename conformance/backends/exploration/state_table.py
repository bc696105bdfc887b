"""The table of all states, with a partition for each level, bucketed by fingerprint; and the
counters."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession

from conformance.backends.exploration.successors import KEYS, PARENT, word_columns
from conformance.judging.file_systems import find_folder
from proofs.explore.checkpoint import CheckpointError

STATES: Final = "states"
COUNTS: Final = "counts"
LEVEL: Final = "level"


class StateTable:
    """The states of a search below `place`, a folder or a URI that Spark and Arrow know."""

    def __init__(self, session: SparkSession, place: str, words: int) -> None:
        self._session = session
        self._files, self._folder = find_folder("--out", place)
        self.place = place
        self._uri = place if "://" in place else f"file://{self._folder}"
        self._columns = (*KEYS, PARENT, *word_columns(words))
        self._words = word_columns(words)
        self.name = f"kafka_eos_{uuid4().hex[:8]}"
        self.buckets = 0

    # Counts

    def last_counts(self) -> dict[str, Any] | None:
        """The counters of the last whole level; None if there is none. Raises CheckpointError."""
        names = sorted(info.path for info in self._inside(COUNTS))
        if not names:
            return None
        with self._files.open_input_file(names[-1]) as file:
            text = bytes(file.read())
        try:
            counts: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise CheckpointError(f"{names[-1]} is damaged: {error}") from error
        return counts

    def write_counts(self, level: int, counts: Mapping[str, Any]) -> None:
        """Make a level count. Its states are in the table already."""
        self._files.create_dir(f"{self._folder}/{COUNTS}")
        with self._files.open_output_stream(f"{self._folder}/{COUNTS}/{level:05}.json") as file:
            file.write(json.dumps(counts).encode())

    # States

    def open(self, buckets: int, levels: int) -> None:
        """Make the first `levels` known to Spark, and remove files of later ones; with 0 levels,
        all files."""
        for info in self._inside(COUNTS) if not levels else ():
            self._files.delete_file(info.path)
        for info in self._inside(STATES):
            name, _, number = info.base_name.partition("=")
            if name == LEVEL and int(number) >= levels:
                self._files.delete_dir(info.path)
        self._files.create_dir(f"{self._folder}/{STATES}")
        numbers = ", ".join(f"{name} BIGINT" for name in self._columns)
        self.buckets = buckets
        self._session.sql(
            f"CREATE TABLE {self.name} ({numbers}, {LEVEL} INT) USING parquet"
            f" PARTITIONED BY ({LEVEL}) CLUSTERED BY ({', '.join(KEYS)}) INTO {buckets} BUCKETS"
            f" LOCATION '{self._uri}/{STATES}'"
        )
        if levels:
            self._session.sql(f"ALTER TABLE {self.name} RECOVER PARTITIONS")

    def close(self) -> None:
        """Make Spark forget the table; its files stay."""
        self._session.sql(f"DROP TABLE IF EXISTS {self.name}")

    def add(self, level: int, states: DataFrame) -> int:
        """Write the states of a level; returns the number of states in its files."""
        view = f"{self.name}_{LEVEL}"
        states.select(*self._columns).createOrReplaceTempView(view)
        self._session.sql(
            f"INSERT INTO {self.name} PARTITION ({LEVEL}={level}) SELECT * FROM {view}"
        )
        self._session.catalog.dropTempView(view)
        return self._count(level)

    def words_of(self, level: int) -> DataFrame:
        """The words of a level's states."""
        return self._session.table(self.name).where(f"{LEVEL} = {level}").select(*self._words)

    def keys(self) -> DataFrame:
        """The fingerprints of all states."""
        return self._session.table(self.name).select(*KEYS)

    def rows(self, level: int, high: Collection[int]) -> list[tuple[int, ...]]:
        """The rows of a level whose `hi` is one of these: few, and read without a job of Spark. If
        part of a file has none of them, only this column is read."""
        wanted = pa.array(high, pa.int64())
        found: list[tuple[int, ...]] = []
        for path in self._files_of(level):
            with pq.ParquetFile(path, filesystem=self._files) as file:
                for part in range(file.num_row_groups):
                    column = file.read_row_group(part, [KEYS[0]]).column(0)
                    has = pc.is_in(column, value_set=wanted)
                    if pc.any(has).as_py():
                        rows = file.read_row_group(part, list(self._columns)).filter(has)
                        found += zip(*rows.to_pydict().values(), strict=True)
        return found

    def _count(self, level: int) -> int:
        """The number of states of a level, from the metadata at the ends of its files."""
        total = 0
        for path in self._files_of(level):
            with pq.ParquetFile(path, filesystem=self._files) as file:
                total += file.metadata.num_rows
        return total

    def _files_of(self, level: int) -> list[str]:
        names = (info.path for info in self._inside(f"{STATES}/{LEVEL}={level}"))
        return sorted(name for name in names if name.endswith(".parquet"))

    def _inside(self, name: str) -> list[fs.FileInfo]:
        where = fs.FileSelector(f"{self._folder}/{name}", allow_not_found=True)
        return list(self._files.get_file_info(where))
