"""Applications that consume, transform and produce, with crashes of clients."""
