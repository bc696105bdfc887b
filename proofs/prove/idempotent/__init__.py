"""What is proved of one idempotent producer at one partition."""
