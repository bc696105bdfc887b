"""Keeps solvers' answers by question, so that proving after an edit asks only what has changed.

An answer belongs to a text and to one version of a solver, whoever asks. Definite answers are kept.
"Unknown" is kept only if the solver had less than the usual time; no verdict that something holds
rests on such an answer. Each row has a checksum. A row with a wrong checksum is asked anew, and a
file that is no longer a database is replaced. Deleting the file is always safe.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path

from proofs.cache import cache_folder
from proofs.prove.engine.solvers import RESULTS, TIMEOUT_S, SolverAnswer, version_of
from proofs.say import note

MAX_ANSWERS = 1_000_000
"""Some 200 MB; the oldest answers are removed first."""
BUSY_S = 60

_SCHEMA = "CREATE TABLE IF NOT EXISTS answers (question TEXT PRIMARY KEY, answer TEXT, sum TEXT)"
_PRUNE = "DELETE FROM answers WHERE rowid <= (SELECT max(rowid) FROM answers) - ?"


def answers_folder() -> Path:
    """Return the folder in which answers are kept if none is named."""
    return cache_folder() / "answers"


class AnswerCache:
    """Answers in a folder, shared by any number of processes; without a folder no answer is
    kept."""

    def __init__(self, folder: Path | None) -> None:
        self._file = None if folder is None else folder / "answers.sqlite"
        self._database: sqlite3.Connection | None = None

    def get(self, solver: str, text: str, timeout_s: float = TIMEOUT_S) -> SolverAnswer | None:
        """Return the answer of a solver to a text; None if no trustworthy answer is kept."""
        found = self._row(_question(solver, text))
        if found is None and timeout_s < TIMEOUT_S:
            found = self._row(_question(solver, text, timeout_s))
        return found

    def _row(self, question: str) -> SolverAnswer | None:
        rows = self._execute("SELECT answer, sum FROM answers WHERE question = ?", question)
        for answer, checksum in rows:
            if checksum == _checksum(question, answer):
                name, result, seconds, core = json.loads(answer)
                return SolverAnswer(name, result, seconds, tuple(core))
        return None

    def add(self, text: str, answer: SolverAnswer, timeout_s: float = TIMEOUT_S) -> None:
        """Keep an answer if it is definite, or if `timeout_s` was less than usual."""
        is_definite = answer.result in RESULTS.values()
        if not is_definite and timeout_s >= TIMEOUT_S:
            return
        asked_for = () if is_definite else (timeout_s,)
        question = _question(answer.solver, text, *asked_for)
        row = json.dumps([answer.solver, answer.result, round(answer.seconds, 4), answer.core])
        checksum = _checksum(question, row)
        self._execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", question, row, checksum)

    def _execute(self, command: str, *values: str) -> list[tuple[str, str]]:
        """Return the rows that the database answers. A damaged database is removed, and the result
        is empty."""
        if self._file is None:
            return []
        try:
            self._database = self._database or _opened(self._file)
            return self._database.execute(command, values).fetchall()
        except sqlite3.OperationalError as error:
            note(f"answers are not kept in {self._file}: {error}")
            self._file = None
            return []
        except sqlite3.DatabaseError as error:
            note(f"{self._file} is damaged ({error}): its answers are asked anew")
            self._forget(self._file)
            return []

    def _forget(self, file: Path) -> None:
        if self._database is not None:
            self._database.close()
        self._database = None
        for suffix in ("", "-wal", "-shm"):
            file.with_name(file.name + suffix).unlink(missing_ok=True)


def _opened(file: Path) -> sqlite3.Connection:
    file.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(file, timeout=BUSY_S, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute(_SCHEMA)
    database.execute(_PRUNE, (MAX_ANSWERS,))
    return database


def _question(solver: str, text: str, *asked_for: float) -> str:
    said = " ".join([solver, version_of(solver), *map(str, asked_for), text])
    return hashlib.sha256(said.encode()).hexdigest()


def _checksum(question: str, answer: str) -> str:
    return hashlib.sha256(f"{question} {answer}".encode()).hexdigest()
