"""Commands of `kafka-eos` as jobs: a table of them, done wherever traces are judged."""
