"""The faults of a simulated world, as one value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Faults:
    """Rates are probabilities, times milliseconds, ranges inclusive. The default has no faults.

    `delay_ms`: message delay; `broker_delay_ms`: the same between brokers. `break_rate`: a
    connection breaks when a message is sent; each message in transit to the broker is lost with
    `loss_rate`, or arrives later by `late_ms`. `stop_every_ms`: the mean time between node failures
    (0 for never); a node is down for `down_ms`, and its partitions move. `coordinator_lag_ms`,
    `coordinator_load_ms`: see `NodeConfig`. `crash_step`: the client dies before this step (-1 for
    never); a step is a message that it sends or receives. `is_zombie`: instead it pauses for
    `pause_ms`, and resumes while another client has taken its place.
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
