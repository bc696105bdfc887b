"""What tells two Kafkas apart that differ in one rule, and what nothing tells apart.

1. `alternatives` pairs a variant with those that differ from it in one rule.
2. `product` searches the pairs of states to which the same events lead two variants, breadth first,
   for the shortest trace on which what an observer sees differs (`observers`).
3. What was found is kept in `traces.json` (`known`): a run plays these traces beside its own, and
   names the rules that it could not have told apart (`play`).
"""
