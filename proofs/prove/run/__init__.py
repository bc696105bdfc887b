"""All theorems as a job: planned, asked, looked at in scopes, reported."""
