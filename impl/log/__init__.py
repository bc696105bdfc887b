"""Files of the log: producer snapshots, their bytes and their folder."""
