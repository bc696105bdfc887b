"""Judging: the interface of systems under test, lockstep with the model, plans, findings."""
