"""Kafka's exactly-once protocol, written once: actors, their rules, and what they guarantee.

Each composition is a folder: `idempotent`, `transactions`, `producer_ids`, `processing`. The
modules beside them hold what all compositions share: the language, faults, scopes, releases, and
the names of variants. docs/reference/limits.md lists what no composition models.
"""
