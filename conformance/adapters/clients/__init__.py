"""Real clients under test: a proxy is their network, the model of a client is their judge."""
