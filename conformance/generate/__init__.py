"""Sources of traces: covers of an explored scope, PCT, and hunts, which may be aimed."""
