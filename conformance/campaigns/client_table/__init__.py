"""Clients against features, on real Kafka and on this project's broker, as one table."""
