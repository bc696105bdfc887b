"""What was written to real topics, held to the model's own rules: gaps, duplicates, torn and
hanging transactions.

Theory of operation. Batch headers alone say all that idempotence and transactions are about.

1. `segments` finds partitions in log directories; `headers` reads the headers of a segment, and
   checks the checksum of each batch.
2. `leader_rules` holds the model's functions of a leader, as Python and lifted to expressions over
   arrays. `fold` guesses the state that a leader has of each producer before each batch, lets the
   lifted rules check all guesses at once, and asks the plain functions about what they refuse.
3. A partition is audited in one place, and gives findings and the ends of its transactions.
   `outcomes` compares these across partitions, and with what `decisions` reads in
   `__transaction_state`.
4. A finding is of one of the `kinds`: a defect, or what cannot be told from what is still known.
"""
