"""Where traces come from: covers of an explored scope, and hunts, which may be aimed."""
