"""Judging of the idempotent producer: its actors, their tables, its judge, and observed worlds."""
