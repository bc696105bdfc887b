"""The producer: its core takes values and the time, and returns what is to be sent."""
