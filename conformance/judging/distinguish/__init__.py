"""Traces that tell a variant from others that differ in one rule; a run plays them beside its own.

1. `alternatives` pairs a variant with those that differ from it in one rule.
2. `product` searches pairs of states that two variants reach by the same events. It searches
   breadth first for the shortest trace on which an observer sees a difference.
3. `known` keeps the traces that were found, in `traces.json`. `play` plays them, and names the
   rules that a run could not have told apart.
"""
