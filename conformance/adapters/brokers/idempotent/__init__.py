"""Leaders, held to the model of the idempotent protocol."""
