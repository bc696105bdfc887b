"""The faults of a broker: which are active, and which of them affects a request."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from impl.broker.cluster import Cluster
from impl.broker.listeners import Answer, Handle
from impl.broker.plain_errors import ends_at_the_call
from impl.clock import SharedClock

if TYPE_CHECKING:
    from impl.broker.faults import Fault, RequestView


NoteFault = Callable[[object], None]
"""Is told of the fault that affects a request."""


class UnusedFault(UserWarning):
    """A fault was added, and affected no request."""


class ActiveFault:
    """A fault that was added to a broker, and how often it has affected a request so far.

    `with` removes it at the end of the block.
    """

    __slots__ = ("_faults", "_selected", "count", "fault")

    def __init__(self, fault: Fault, faults: InjectedFaults) -> None:
        self.fault = fault
        self.count = 0
        self._selected = 0
        self._faults = faults

    def __enter__(self) -> ActiveFault:
        return self

    def __exit__(self, *_: object) -> None:
        self._faults.remove(self)

    def is_next(self, request: RequestView) -> bool:
        """Whether the fault affects this request; counts those that it selects."""
        is_selected = self.fault.selects(request)
        self._selected += is_selected
        return is_selected and self.fault.affects(self._selected)


class InjectedFaults:
    """The faults of a broker: `with kafka.faults.add(CutFault("Produce")):`."""

    def __init__(self, cluster: Cluster, clock: SharedClock) -> None:
        self._cluster, self._clock = cluster, clock
        self._active: tuple[ActiveFault, ...] = ()
        self._all: list[ActiveFault] = []

    @ends_at_the_call
    def add(self, fault: Fault) -> ActiveFault:
        """Add a fault, from now on and until it is removed; may be called on any thread.

        Raises `InvalidFault`.
        """
        from impl.broker.faults import check_fault  # most brokers have none

        check_fault(fault)
        added = ActiveFault(fault, self)
        self._all.append(added)
        self._active = (*self._active, added)
        return added

    def remove(self, added: ActiveFault) -> None:
        """Remove a fault; requests that it holds back stay so."""
        self._active = tuple(other for other in self._active if other is not added)

    def warn_unused(self) -> None:
        """Warn with `UnusedFault` of each fault that affected no request."""
        for added in self._all:
            if not added.count:
                warnings.warn(f"{added.fault} affected no request", UnusedFault, stacklevel=3)

    def intercept(self, payload: bytes, note: NoteFault, *, handle: Handle) -> Answer:
        """Handle a request, with the fault that affects it, of which `note` is told."""
        added = self._find(payload) if self._active else None
        if added is None:
            return handle(payload)
        from impl.broker.faults import FaultTarget, RequestView

        added.count += 1
        note(added.fault)
        target = FaultTarget(self._cluster, self._clock)
        affected = added.fault.apply(RequestView(payload), handle, target)
        return asyncio.ensure_future(affected)

    def _find(self, payload: bytes) -> ActiveFault | None:
        from impl.broker.faults import RequestView
        from impl.protocol.errors import DecodeError

        try:
            request = RequestView(payload)
        except DecodeError:
            return None
        affecting = [added for added in self._active if added.is_next(request)]
        return affecting[0] if affecting else None
