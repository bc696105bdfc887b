"""The scopes whose transitions are compared with the steps of theorems about transactions."""

from __future__ import annotations

from collections.abc import Mapping

SIMULATED_SCOPES: Mapping[str, tuple[str, str]] = {
    "transaction_epochs": ("transactions-log/begun=0", "v2"),
    "partition_is_sound": ("transactions-small/begun=1/unheard=0/delays=0", "v1"),
    "all_or_none": ("transactions-small/begun=1/unheard=0/delays=0", "v2"),
    "stored_once": ("transactions-readers/begun=1/delays=0/unheard=0", "v1"),
    "all_or_none_on_time": ("transactions-readers/begun=1/delays=0/unheard=0", "v1"),
    "markers_are_taken": ("transactions-readers/begun=1/delays=0/unheard=0", "v1"),
    "no_false_fencing": ("transactions-tiny", "v2"),
}
"""The scope and variant in which each transition is compared with the steps of a theorem about
transactions: one scope for each kind of steps."""

MORE_SIMULATED: Mapping[str, tuple[tuple[str, str], ...]] = {
    "all_or_none": (
        ("transactions-log/begun=0", "v2"),
        ("transactions-forgotten/begun=0", "v2"),
        ("transactions-offsets/begun=1/timeouts=0", "v2"),
        ("transactions-markers/begun=1", "v2"),
        ("transactions-readers/begun=1/delays=0/unheard=0", "v2"),
        ("transactions-tiny", "v2"),
        ("transactions-rejection/begun=1", "v2"),
        ("transactions-small/begun=1/unheard=0/delays=0", "v2"),
        ("transactions-late-batch/begun=1/delays=1", "v2"),
        ("transactions-markers/begun=1/moves=0", "v2"),
        ("transactions-offsets/begun=1/timeouts=0/delays=0", "v2"),
    ),
}
"""The additional scopes that `prove --simulate` checks."""
