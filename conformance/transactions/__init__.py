"""Transactions on real brokers: typed requests, what a server shows of itself, and experiments.

`Testbed` starts a broker or a cluster; `Conversation` builds requests; `Wire` asks them; `observe`
reads all that a server shows; the stories and facts stand on these.
"""
