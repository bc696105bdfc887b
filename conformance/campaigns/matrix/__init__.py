"""The table of brokers, levels and clients; each cell is judged by a `run` of its own."""
