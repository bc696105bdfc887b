"""Evidence that travels: the bytes that show a difference, as a script and as pages."""
