"""Real Apache Kafka brokers as judges: get their jars, start and stop them, talk to them.

`KafkaBroker("4.3.1", level=2)` is a context manager; `connect()` gives a pipelining `BrokerConnection`.
"""
