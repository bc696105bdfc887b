"""Bytes to values and back: messages, record batches, error codes. No sockets, no clocks."""
