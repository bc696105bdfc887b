"""A broker on disk that is killed at random moments, while clients of several libraries go on.

`client.py` is one process of the load. It plays a role (`roles.py`) with a library (`libraries/`),
and writes what it was told into its journal (`journal.py`). `load.py` starts these processes, and
those again that end or stand still. `killing.py` kills the broker. `stored.py` reads what is on the
disk, and `checks.py` holds it to the journals. `planted.py` has defects that a run must find.
"""
