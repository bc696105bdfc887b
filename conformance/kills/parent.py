"""A process that ends when the one that started it has ended, however that was."""

from __future__ import annotations

import os
import threading
import time
from typing import Final

LOOK_S: Final = 1.0


def end_with_parent() -> None:
    """From now on: exit at once when the parent process is another one."""
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(1)
