"""Traces: the file format, replay on the model, shrinking, pictures."""
