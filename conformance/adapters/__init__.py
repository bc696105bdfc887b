"""Systems under test, each behind the interface that judges know."""
