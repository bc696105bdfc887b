"""Lockstep: compiles the model's own events so that both sides execute each call of an actor's
rule."""
