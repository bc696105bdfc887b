"""Log directories of real brokers, served by ours.

`scenarios.toml` says what a broker does before it stops, and how it stops. `script.py` does that
over the wire, and `kafka_directory.py` keeps the files of a real broker. `questions.py` asks a
broker everything about its files: the real broker, restarted on a copy, and ours on another copy
(`served_directory.py`). `comparison.py` compares both, field by field, and the files before and
after; `verdict.py` has the outcome. `recorded.py` packs a directory with its answers, for tests
without Java.
"""
