"""A coordinator that moves while nobody knows: what V2 keeps, what V1 loses, and planted bugs."""

import pytest

from proofs.explore.scope import explore_scope
from proofs.lift.patch import Patch

SCOPE = "transactions-moves/unheard=0"
TO_WHO_IS_ALONE = {"no_false_fencing", "untroubled_commits"}


def broken(scope: str, variant: str, *patches: Patch) -> dict[str, int]:
    """The guarantees that are not kept, with the steps of the shortest trace."""
    violations = explore_scope(scope, variant, patches=patches).violations
    return {violation.property: len(violation.trace.steps) for violation in violations}


def test_v2_keeps_all_but_what_is_guaranteed_to_who_is_alone():
    assert broken(SCOPE, "v2").keys() == TO_WHO_IS_ALONE


def test_v1_leaves_something_open_because_a_former_coordinator_is_believed():
    assert broken(SCOPE, "v1")["no_write_outside"] == 16
    assert "no_write_outside" not in broken(f"{SCOPE}/moves=0", "v1")
    assert "no_write_outside" not in broken(f"{SCOPE}/delays=0", "v1")


PLANTED = {
    "who was replaced still writes": (
        Patch("coordinator.changed", "c.leadership == CoordinatorLeadership.REPLACED", "False"),
        {"no_aborted_read", "no_write_outside"},
    ),
    "who loads finds nothing": (
        Patch("coordinator_leadership.finish_loading", "c.log", "nothing_known(k)"),
        {"no_write_outside", "coordinator_knows_its_log"},
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_breaks_a_guarantee(name):
    patch, guarantees = PLANTED[name]
    assert broken(SCOPE, "v2", patch).keys() == TO_WHO_IS_ALONE | guarantees
