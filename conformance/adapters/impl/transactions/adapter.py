"""The adapter of the composition `transactions`."""

from __future__ import annotations

from conformance.adapters.impl.shared.composition_adapter import CompositionAdapter
from conformance.adapters.impl.transactions.judge import judge_of_impl, observed_world
from conformance.adapters.impl.transactions.tables import tables_of

ADAPTER = CompositionAdapter(tables_of, judge_of_impl, observed_world)
