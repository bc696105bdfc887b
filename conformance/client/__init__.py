"""Real clients as systems under test: a proxy is their network, the model of a client their judge."""
