"""`impl`'s brokers and controller, where producer ids come from."""
