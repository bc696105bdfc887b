"""What producer and consumer share at the edge: connections, versions, metadata."""
