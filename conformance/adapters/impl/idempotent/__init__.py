"""`impl`'s producers and leaders as actors that take one input."""
