"""A running server of transactions, held to the model of its coordinator and leaders together."""
