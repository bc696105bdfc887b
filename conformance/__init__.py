"""The judge: systems under test, generated traces, and whether they agree with the model."""
