"""`impl`'s brokers and controller, which allocate producer ids."""
