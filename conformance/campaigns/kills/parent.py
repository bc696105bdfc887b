"""Ends a process when the run to which it belongs has ended, for whatever reason."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import Final

LOOK_S: Final = 1.0


def end_with(pid: int) -> None:
    """From now on, exit at once when the process `pid` is gone."""
    threading.Thread(target=_watch, args=(pid,), daemon=True).start()


def _watch(pid: int) -> None:
    with suppress(ProcessLookupError):
        while True:
            os.kill(pid, 0)
            time.sleep(LOOK_S)
    os._exit(1)
