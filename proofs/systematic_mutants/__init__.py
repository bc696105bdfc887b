"""Small changes of the model, made by operators, and which check notices each."""
