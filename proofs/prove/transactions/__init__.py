"""Proofs about transactions of any length: coordinator and partition, from the text of their
rules."""
