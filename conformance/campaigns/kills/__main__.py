"""`python -m conformance.campaigns.kills`:
a broker on disk that is killed at random moments, under load.

`kafka-eos serve --dir D --flush-messages 1` is killed (SIGKILL) and started again, while clients of
four libraries go on: idempotent and transactional producers, groups, and applications that consume,
transform and produce. What is on the disk is held to what the clients were told.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from conformance.adapters.brokers.kafka.errors import BrokerFailed
from conformance.campaigns.kills.killing import SECONDS, Killing, KillPlan, KillResult
from conformance.campaigns.kills.planted import DEFECTS
from conformance.campaigns.kills.report import lines_of, report_of
from conformance.campaigns.kills.served_broker import serve_directory
from conformance.campaigns.kills.workload import LIBRARIES
from proofs.run import BAD_USE, EXIT_CODES
from proofs.run.files import write_json
from proofs.run.progress import CountDisplay
from proofs.say import note, say


def parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    described = argparse.ArgumentParser(
        prog="python -m conformance.campaigns.kills",
        description=(__doc__ or "").split("\n\n", maxsplit=1)[0],
    )
    described.add_argument("--moments", type=int, default=500, help="number of kills (500)")
    described.add_argument("--seed", type=int, default=1, help="of the moments (1)")
    described.add_argument(
        "--clients",
        default=",".join(LIBRARIES),
        metavar="NAMES",
        help=f"libraries of {', '.join(LIBRARIES)} (all)",
    )
    described.add_argument(
        "--seconds",
        type=float,
        nargs=2,
        default=SECONDS,
        metavar=("LEAST", "MOST"),
        help="that a broker lives (%(default)s)",
    )
    described.add_argument(
        "--check-every", type=int, default=100, metavar="N", help="moments; 0: at the end (100)"
    )
    described.add_argument(
        "--stall-seconds",
        type=float,
        default=90.0,
        metavar="S",
        help="a client without progress for so long is replaced, and told (90)",
    )
    described.add_argument(
        "--plant", choices=DEFECTS, help="a defect of the broker, which must be found"
    )
    described.add_argument("--log-level", default="WARNING", help="of the clients' logs (WARNING)")
    described.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="keep directory, journals and logs there; an interrupted run goes on in DIR",
    )
    described.add_argument("--json", type=Path, metavar="FILE", help="write the report")
    return described


def plan_of(options: argparse.Namespace) -> KillPlan:
    """The plan that the options describe. Raises ValueError."""
    libraries = tuple(name for name in options.clients.split(",") if name)
    unknown = [name for name in libraries if name not in LIBRARIES]
    if unknown or not libraries:
        raise ValueError(f"--clients: invalid {unknown}; valid: {', '.join(LIBRARIES)}")
    least, most = options.seconds
    if not 0 <= least <= most:
        raise ValueError(f"--seconds {least} {most}: write the least before the most, from 0 on")
    if options.moments < 1:
        raise ValueError(f"--moments is {options.moments}; write 1 or more")
    return KillPlan(
        libraries,
        options.moments,
        options.seed,
        (least, most),
        options.check_every,
        options.stall_seconds,
        log_level=options.log_level,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if everything is right, 1 if not, 2 for bad use, 3 if it was interrupted or a client
    hung."""
    options = parser().parse_args(arguments)
    try:
        plan = plan_of(options)
    except ValueError as error:
        note(str(error))
        return BAD_USE
    folder = options.keep or Path(tempfile.mkdtemp(prefix="kafka-eos-kills-"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    serves = DEFECTS[options.plant] if options.plant else serve_directory
    with CountDisplay("kills", plan.moments) as progress:
        killing = Killing(folder, plan, main=serves, show=lambda result: show(result, progress))
        stopped = run(killing)
    report = report_of(killing.result, plan, stopped)
    write_json(options.json, report)
    for line in lines_of(report):
        say(line)
    if options.keep is None and report["verdict"] == "holds":
        shutil.rmtree(folder)
    else:
        say(f"directory, journals and logs: {folder}")
    return EXIT_CODES[report["verdict"]]


def run(killing: Killing) -> str | None:
    """Run the plan; returns the reason if it ended too early."""
    try:
        asyncio.run(killing.run())
    except KeyboardInterrupt:
        note("interrupted: what was done until now is checked")
        killing.check()
        return "interrupted"
    except BrokerFailed as error:
        killing.result.wrong.append(str(error))
    return None


def show(result: KillResult, progress: CountDisplay) -> None:
    """Print the progress."""
    progress(
        result.moments,
        f"clients replaced {len(result.standstills) + len(result.ended)}",
        f"wrong {len(result.wrong)}",
    )


if __name__ == "__main__":
    sys.exit(main())
