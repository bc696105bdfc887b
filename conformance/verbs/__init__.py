"""The verbs that judge systems, one module each: `add_arguments(parser)` and `execute(options)`."""
