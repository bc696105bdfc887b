"""Small changes of the model, made by mutation operators, and the check that notices each."""
