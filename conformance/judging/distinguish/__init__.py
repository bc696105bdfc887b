"""Traces that tell a variant from others that differ in one rule, played beside a run's own.

1. `alternatives` pairs a variant with those that differ from it in one rule.
2. `product` searches the pairs of states to which the same events lead two variants, breadth first,
   for the shortest trace on which an observer sees a difference.
3. The traces that were found are kept in `traces.json` (`known`). `play` plays them, and names the
   rules that a run could not have told apart.
"""
