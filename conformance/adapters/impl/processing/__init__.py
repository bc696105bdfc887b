"""Members that process in a group: whole nodes of `impl`, their network, and real producers."""
