"""Brokers that run, held to a model over their wire."""
