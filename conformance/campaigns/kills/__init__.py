"""Kills a broker with files on disk at random moments, while clients of several libraries continue.

`client.py` is one process of the load. It plays a role (`roles.py`) with a library (`libraries/`),
and writes its results into its journal (`journal.py`). `load.py` starts these processes, and
restarts those that end or stand still. `killing.py` kills the broker. `stored.py` reads the files,
and `checks.py` compares them with the journals. `planted.py` has defects that a run must find.
"""
