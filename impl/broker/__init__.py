"""A broker node: requests to answers."""
