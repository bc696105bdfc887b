"""Applications that consume, transform and produce, while they crash and brokers fail."""
