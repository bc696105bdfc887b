"""Looks at scopes: their worker processes."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from proofs.prove.run.scope_jobs import ScopeJob, look_at


def is_held_back() -> bool:
    """Whether Ctrl-C waits; processes inherit this as they start."""
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_ctrl_c_does_not_concern_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[bool] = []

    def look(_look: Callable[..., object], places: Iterable[list[ScopeJob]]) -> Iterator[object]:
        for jobs in places:
            held.append(is_held_back())
            yield [None for _ in jobs]

    @contextmanager
    def entered() -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(imap=look)

    def start(_processes: int) -> object:
        held.append(is_held_back())
        return entered()

    monkeypatch.setattr(multiprocessing, "get_context", lambda _: SimpleNamespace(Pool=start))
    look_at([ScopeJob("excluded")], 2, lambda done, total: None)
    assert held == [True, False]
