"""Judging of the idempotent producer: its actors, their tables, judge and observed world."""
