"""Leaders, compared with the model of the idempotent protocol."""
