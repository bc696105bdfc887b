"""A process that ends when the run that it is a part of has ended, however that was."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import Final

LOOK_S: Final = 1.0


def end_with(pid: int) -> None:
    """From now on: exit at once when there is no process `pid` any more."""
    threading.Thread(target=_watch, args=(pid,), daemon=True).start()


def _watch(pid: int) -> None:
    with suppress(ProcessLookupError):
        while True:
            os.kill(pid, 0)
            time.sleep(LOOK_S)
    os._exit(1)
