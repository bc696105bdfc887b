"""The adapter of the idempotent producer."""

from __future__ import annotations

from conformance.adapters.impl.idempotent.system import judge_of_impl
from conformance.adapters.impl.shared.composition_adapter import CompositionAdapter
from conformance.judging.idempotent.observed_world import observed_world
from conformance.judging.idempotent.tables import Tables

ADAPTER = CompositionAdapter(Tables, judge_of_impl, observed_world)
