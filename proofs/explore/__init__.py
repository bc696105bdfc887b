"""Every reachable state of a scope: one engine that runs the text, others that are compiled."""
