"""Systems under test, each behind the interface of `base`."""
