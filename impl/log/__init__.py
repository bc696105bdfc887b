"""Files of the log: producer snapshots."""
