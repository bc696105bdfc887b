"""A scope explored on Spark: breadth first, a level a query, each level a partition of a table.

Three rules:

1. A state is known by its fingerprint, of 128 bits (`proofs/explore/batch.c`). The table is
   bucketed by it, so that a level costs one exchange: its candidates go to the buckets, where what
   is known of the fingerprint is read in place.
2. A level counts when its file in `counts` is written, after its states. What a killed driver left
   of a later level is removed. Counts are of what is in the table, and of the tasks' own tallies,
   one for each partition however often it was tried.
3. Nothing that is reported depends on the order of rows: of several states the least is noted, of
   several parents the least is kept.
"""
