"""What the idempotent producer adds: its actors, their tables and views, its judge."""
