"""Log directories of real brokers, served by ours.

`scenarios.toml` says what a broker does before it stops, and how it stops. `script.py` does that
over the wire, `making.py` with a real broker whose files it keeps. `answers.py` is everything that
a broker says about its files: the real one, started again on a copy, and ours, on another one.
`comparison.py` compares both, field by field, and the names of files before and after.
`recorded.py` packs a directory with its answers, for tests without Java.
"""
