"""The leader of one partition."""
