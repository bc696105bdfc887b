"""Transactions on real brokers: typed requests, and what a server shows of itself.

`KafkaTestbed` starts a broker or a cluster; `Conversation` builds requests, `Wire` sends them;
`observe` reads all that a server shows. Experiments and the judge of brokers stand on these.
"""
