"""Campaigns: many runs as one task: stories, kills, tables of brokers and clients, planted bugs."""
