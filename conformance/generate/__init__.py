"""Where traces come from: covers of an explored scope, pct, and hunts, which may be aimed."""
