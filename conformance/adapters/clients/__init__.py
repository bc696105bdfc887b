"""Real clients under test: a proxy plays their network, and the model of a client judges them."""
