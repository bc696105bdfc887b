"""Lockstep: the model's own events, each call of an actor's rule made on both sides."""
