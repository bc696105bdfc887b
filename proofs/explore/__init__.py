"""Finds every reachable state of a scope: one engine runs the model's source, others are
compiled."""
