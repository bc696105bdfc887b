"""Real Apache Kafka brokers: their jars, their processes, connections to them.

`KafkaBroker("4.3.1", level=2)` is a context manager; its `connect()` gives a `BrokerConnection`.
"""
