"""The table of clients and features, on real Kafka and on this project's broker."""
