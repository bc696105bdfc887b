"""Proofs about the brokers that give producer ids."""
