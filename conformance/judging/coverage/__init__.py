"""What traces meet of impl and of the model's text, and what they never do."""
