"""Programs of the client table, one for each client; see `features.py`."""
