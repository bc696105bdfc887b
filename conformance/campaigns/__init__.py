"""Runs of many runs: stories, kills, tables of brokers and clients, planted bugs."""
