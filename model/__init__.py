"""Kafka's exactly-once protocol, written once: actors, their rules, and what they guarantee."""
