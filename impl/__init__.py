"""The production implementation: Kafka's wire, the leader of a partition, a broker node."""
