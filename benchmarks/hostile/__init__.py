"""Frames and connections that no honest client makes."""
