"""A cluster and its clients in one thread, on virtual time, determined by a seed."""

from impl.simulator.faults import Faults
from impl.simulator.world import ClientHost, World

__all__ = ["ClientHost", "Faults", "World"]
