"""Stories as judges of impl: its broker must give the answers that real brokers gave.

A story is played on impl's broker, on a socket. That takes real time, so an unexpected answer
counts only if a new broker repeats it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from conformance.adapters.brokers.kafka.releases import NEWEST
from conformance.campaigns.stories.player import play
from conformance.campaigns.stories.remote import implementation, why_not
from conformance.campaigns.stories.story import FOLDER, SUFFIX, Experiment, stories

LEVEL: Final = 2
TOO_LONG: Final = "exhaustion"
"""Stories that use up 32,767 epochs; scopes begin near the last epoch instead."""
LONGEST_S: Final = 300
"""The longest real time of a story: a broker with a bug may never answer."""


def story_files() -> dict[str, Path]:
    """The stories that one broker of impl can play, by name."""
    names = sorted({one.story for one in stories().values() if is_playable(one)})
    return {f"story {name}": FOLDER / f"{name}{SUFFIX}" for name in names}


def is_playable(experiment: Experiment) -> bool:
    """Whether one broker of impl can play it soon, without a Java client."""
    is_long = experiment.story.startswith(TOO_LONG) or experiment.has_client
    return not is_long and not why_not(experiment, is_ours=True)


def differences_in(file: Path, *, to_the_first: bool) -> list[str]:
    """The unexpected answers in a story; ends this process if the story takes too long."""
    signal.alarm(LONGEST_S)
    try:
        return list(_confirmed(file, to_the_first=to_the_first))
    finally:
        signal.alarm(0)


def _confirmed(file: Path, *, to_the_first: bool) -> Iterator[str]:
    for one in stories().values():
        if one.story != file.stem or not is_playable(one):
            continue
        first = _differences(one)
        if first and (again := [what for what in _differences(one) if what in first]):
            yield from again
            if to_the_first:
                return


def _differences(experiment: Experiment) -> list[str]:
    """The unexpected answers at a broker of its own."""
    testbed: Any  # as in the verb: Kafka does not start this testbed
    with implementation(LEVEL, experiment.brokers) as testbed:
        if not experiment.fits(testbed.release.version, testbed.level, testbed.can_use):
            return []
        facts, failure = play(experiment, testbed, None, {"client": NEWEST})
    found = [f"{experiment.name}: {fact.name}" for fact in facts if not fact.agrees]
    # The text has ports and correlation ids, which differ when the answer comes again.
    kind = failure.partition(":")[0]
    return found + ([f"{experiment.name}: {kind}"] if kind else [])
