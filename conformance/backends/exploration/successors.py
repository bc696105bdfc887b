"""The work of Spark's workers: the compiled machine computes the successors of a level's states."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from proofs.explore.batch import Expansion, Fingerprint, LevelCounts, MachineShape
from proofs.explore.explorer import PreparedMachine
from proofs.explore.native import build_machine
from proofs.run.files import digest, pretty, write_whole

OBJECT: Final = "machine.so"
SHAPE: Final = "machine.json"

KEYS: Final = ("hi", "lo")
"""The fingerprint of a state, two signed 64-bit numbers."""

PARENT: Final = "parent"
"""The least `hi` of a state of the previous level that leads to this state."""

TALLY: Final = "tally"
"""In a row that is not a state: the counters of its task, as JSON."""

Machine = tuple[Path, MachineShape]


def write_machine(prepared: PreparedMachine, folder: Path) -> Path:
    """Compile the machine into a new folder from which workers load it. A worker loads a folder
    only once, and its content must not change. Raises NoCompiler, CompilerFailed.
    """
    machine = prepared.machine
    tests = len(machine.guarantees) + len(machine.witnesses)
    inputs = tuple(machine.inputs.values())
    shape = MachineShape(prepared.layout.words, len(machine.rules), tests, inputs)
    built = build_machine(machine, prepared.layout)
    text = pretty(asdict(shape))
    directory = folder / digest(f"{built.stem} {text}")[:16]
    if not (directory / SHAPE).exists():
        directory.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(built, directory / OBJECT)
        write_whole(directory / SHAPE, text)
    return directory


def load(directory: Path) -> Machine:
    """The machine that `write_machine` wrote."""
    given = json.loads((directory / SHAPE).read_text("utf-8"))
    return directory / OBJECT, MachineShape(**{**given, "inputs": tuple(given["inputs"])})


def word_columns(words: int) -> tuple[str, ...]:
    """The columns of a state's words."""
    return tuple(f"w{n}" for n in range(words))


def schema_of(words: int) -> pa.Schema:
    """The columns of a task's result: successors, and one tally."""
    numbers = [(name, pa.int64()) for name in (*KEYS, PARENT, *word_columns(words))]
    return pa.schema([*numbers, (TALLY, pa.string())])


def map_batches(
    machine: Machine, closed: Sequence[bool], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Successors of the states whose words are in the batches, and the task's tally at the end;
    `closed` says of each test whether its first state is known already."""
    path, shape = machine
    schema = schema_of(shape.words)
    expansion = Expansion(path, shape, closed)
    for batch in batches:
        columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
        for high, low, parent, words in expansion.expand(np.column_stack(columns).view(np.uint64)):
            numbers = (high, low, parent, *words.view(np.int64).T)
            arrays = [pa.array(np.ascontiguousarray(column)) for column in numbers]
            yield pa.RecordBatch.from_arrays([*arrays, pa.nulls(len(high), pa.string())], schema)
    tally = json.dumps([partition_number(), asdict(expansion.tally)])
    yield pa.RecordBatch.from_pylist([dict.fromkeys(schema.names, 0) | {TALLY: tally}], schema)


def partition_number() -> int:
    """The number of the task's part of the level; it stays the same if Spark tries the task
    again."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def counts_from(data: Mapping[str, Any]) -> LevelCounts:
    """The counters in a tally; JSON has no tuples."""
    first = [None if state is None else (state[0], state[1]) for state in data["first"]]
    broken = data["broken"] and ((data["broken"][0][0], data["broken"][0][1]), data["broken"][1])
    return LevelCounts(data["transitions"], data["deadlocks"], data["firings"], first, broken)


def merge_counts(texts: Sequence[str], shape: MachineShape) -> LevelCounts:
    """The tally of a level. A task that Spark tried again has returned the same tally again."""
    parts = [counts_from(tally) for tally in dict(json.loads(text) for text in texts).values()]
    broken = [part.broken for part in parts if part.broken is not None]
    return LevelCounts(
        sum(part.transitions for part in parts),
        sum(part.deadlocks for part in parts),
        [sum(part.firings[rule] for part in parts) for rule in range(shape.rules)],
        [least(part.first[test] for part in parts) for test in range(shape.tests)],
        min(broken, default=None),
    )


def least(states: Iterable[Fingerprint | None]) -> Fingerprint | None:
    """The least of the states that are given."""
    return min((state for state in states if state is not None), default=None)
