"""Evidence for a few pages of each kind: gathered in seconds, where all of it takes minutes."""

from __future__ import annotations

import pytest

from proofs.explore.expected import EXPECTED
from proofs.lift.source import COMPOSITIONS, load_model
from proofs.pages import gather, subjects, writing
from proofs.pages.evidence import Evidence

DEFECTS = ("any_first_sequence", "window_of_one_after_restart", "late_produce_hangs")
"""The last one is linked from the table of what no scope shows."""
UNBOUNDED = "live-restarts/records=3"
WITHOUT = ("no_wrap", "message_lifetime")


def smallest_scope(composition: str) -> tuple[str, ...]:
    """The scope of a composition with the fewest states."""
    names = [name for name in load_model(composition).scopes.SCOPES if name in EXPECTED]
    return (min(names, key=lambda name: EXPECTED[name].distinct),)


def reduce(patch: pytest.MonkeyPatch) -> None:
    """Let a gathering look at one scope of each composition, under the newest release."""
    newest = {composition: subjects.columns(composition)[:1] for composition in COMPOSITIONS}
    places = tuple(place for place in gather.unbounded_places() if place[1] == UNBOUNDED)
    defects = [mutant for mutant in subjects.known_defects() if mutant.name in DEFECTS]
    patch.setattr(gather, "small_scopes", smallest_scope)
    patch.setattr(gather, "columns", newest.__getitem__)
    patch.setattr(gather, "unbounded_places", lambda: iter(places))
    dropped = {name: gather.DROPPED[name] for name in WITHOUT}
    for module in (gather, writing):
        patch.setattr(module, "known_defects", lambda: defects)
        patch.setattr(module, "DROPPED", dropped)


def gathered() -> Evidence:
    """The reduced evidence."""
    with pytest.MonkeyPatch.context() as patch:
        reduce(patch)
        return gather.gather_evidence(Evidence(), lambda *told: None)
