"""The traces that tell rules apart: read, and played beside a run's own."""
