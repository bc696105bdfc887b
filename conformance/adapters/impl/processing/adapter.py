"""The adapter of the composition `processing`."""

from __future__ import annotations

from conformance.adapters.impl.processing.world_judge import judge_of_impl, observed_world
from conformance.adapters.impl.processing.worlds import tables_of
from conformance.adapters.impl.shared.composition_adapter import CompositionAdapter

ADAPTER = CompositionAdapter(tables_of, judge_of_impl, observed_world)
