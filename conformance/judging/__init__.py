"""Judging: the interface of systems, lockstep with the model, plans, findings."""
