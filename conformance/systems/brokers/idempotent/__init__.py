"""Three brokers that are frozen, killed and started again, held to the model of transactions."""
