"""Jobs: a table of `kafka-eos` commands, run on any backend that judges traces."""
