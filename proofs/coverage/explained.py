"""Points that no setting meets, each with the reason why that is right.

The reason is a sentence about the protocol or about the text, never "not reached": that a point is
not met is checked anew each time, and a row whose point is met, or is no point any more, is an
error. A proof that a point cannot be met (`evidence` in the report) needs a row too: text that
nothing can reach is a fault until someone says what it stands there for.
"""

from __future__ import annotations

from collections.abc import Mapping

EXPLAINED: Mapping[str, Mapping[str, str]] = {"": {}, "producer_ids": {}}
"""By composition ("" is the model itself), then by what the report calls `says`:
`module.function: condition: outcome`, a rule, an error code, `a+b`."""
