"""A consumer of assigned partitions: what a transaction reads before it writes."""
