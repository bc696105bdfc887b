"""The adapter of the composition `producer_ids`."""

from __future__ import annotations

from conformance.adapters.impl.producer_ids.producer_blocks import (
    judge_of_impl,
    observed_world,
    tables_of,
)
from conformance.adapters.impl.shared.composition_adapter import CompositionAdapter

ADAPTER = CompositionAdapter(tables_of, judge_of_impl, observed_world)
