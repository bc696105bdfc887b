"""`impl` under test, in this process: its actors behind the interface that judges know."""
