"""Proofs about one idempotent producer at one partition."""
