"""Brokers, levels and clients, each judged by a `run` of its own, as one table."""
