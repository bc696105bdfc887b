"""Liveness: fair loops in the complete graph of a scope whose runs go on for ever."""
