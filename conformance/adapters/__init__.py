"""Adapters: each gives a system under test the interface that judges use."""
