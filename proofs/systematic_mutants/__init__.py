"""Small changes of the model, made by operators: who notices each."""
