"""The coordinators: transactions, group offsets. Decisions without I/O."""
