"""What goes wrong in a simulated world, as one value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Faults:
    """Rates are probabilities, times milliseconds, ranges inclusive. Without arguments: none.

    `delay_ms`: how long a message travels, `broker_delay_ms` one between brokers, as markers are.
    `break_rate`: a connection breaks as a message is put on it; of what was on its way to a broker
    each message is lost with `loss_rate`, or arrives later by `late_ms`. `stop_every_ms`: a node
    stops about so often (0 never), returns after `down_ms`, and its partitions move meanwhile.
    `coordinator_lag_ms` and `coordinator_load_ms`: as long as coordinators do not hear of that, and
    as long as a new one reads its log. `crash_step`: the client dies before this step of its life
    (-1 never); a step is a message that it sends or receives. `is_zombie`: it does not die then; it
    hears and says nothing for `pause_ms`, and goes on beside whoever has taken its place.
    """

    delay_ms: tuple[int, int] = (1, 5)
    broker_delay_ms: tuple[int, int] = (1, 5)
    break_rate: float = 0.0
    loss_rate: float = 0.5
    late_ms: tuple[int, int] = (5, 300)
    stop_every_ms: int = 0
    down_ms: tuple[int, int] = (50, 1_000)
    coordinator_lag_ms: int = 0
    coordinator_load_ms: int = 0
    crash_step: int = -1
    is_zombie: bool = False
    pause_ms: tuple[int, int] = (200, 3_000)
