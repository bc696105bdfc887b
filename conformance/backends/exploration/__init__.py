"""Explores a scope on Spark, breadth first: a query for each level, a partition of a table for
each.

Three rules:

1. A state is identified by its fingerprint of 128 bits (`proofs/explore/batch.c`). The table is
   bucketed by fingerprint, so that a level costs one exchange: candidates are sent to the buckets,
   where known fingerprints are read in place.
2. A level counts when its file in `counts` is written, after its states. States that a killed
   driver left of a later level are removed. Counts are those of the table and of the tasks' own
   tallies, one for each partition however often Spark tried it.
3. No report depends on the order of rows: of several states the least is noted, and of several
   parents the least is kept.
"""
