"""The judge: systems under test, generated traces, and a verdict on how they agree with the model."""
