"""Groups whose members consume, transform and produce: nodes of `impl`, their network, and
producers."""
