"""`python -m conformance.campaigns.kills.client`: one process of the load, until SIGTERM.

SIGUSR1 makes it print where its threads are, SIGUSR2 where its tasks wait (on asyncio).
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import logging
import os
import signal
import sys
from collections.abc import Sequence
from logging.handlers import RotatingFileHandler
from pathlib import Path
from threading import Event
from typing import Final

from conformance.campaigns.kills.journal import SUFFIX, EventJournal
from conformance.campaigns.kills.parent import end_with
from conformance.campaigns.kills.roles import Load

NICER: Final = 5
"""Clients wait for the broker, not the other way round: on a busy machine it starts first."""
LOG_BYTES: Final = 4 << 20
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def main(arguments: Sequence[str] | None = None) -> None:
    """Play one role of one library."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("library")
    parser.add_argument("role")
    parser.add_argument("session", type=int, help="the number of this process among those before")
    parser.add_argument("address", help="HOST:PORT of the broker")
    parser.add_argument("folder", type=Path, help="where the journal and the log are written")
    parser.add_argument("--log-level", default="WARNING")
    asked = parser.parse_args(arguments)
    end_with(os.getppid())
    os.nice(NICER)
    stopped = Event()
    faulthandler.register(signal.SIGUSR1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    name = f"{asked.library}-{asked.role}-{asked.session}"
    log = RotatingFileHandler(asked.folder / f"{name}.log", maxBytes=LOG_BYTES, backupCount=1)
    logging.basicConfig(level=asked.log_level, handlers=[log], format=LOG_FORMAT)
    module = importlib.import_module(f"conformance.campaigns.kills.libraries.{asked.library}")
    journal = EventJournal(asked.folder / f"{name}{SUFFIX}")
    Load(
        module.open_library(asked.address),
        (asked.library, asked.role),
        asked.session,
        journal,
        stopped,
    ).run()
    sys.exit(0)


if __name__ == "__main__":
    main()
