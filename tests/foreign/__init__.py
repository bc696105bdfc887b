"""Test suites of other projects, run against `kafka-eos serve`.

`python -m tests.foreign SUITE ...` fetches a suite through the ordinary client of its registry,
runs it, and compares each outcome with `outcomes.toml`. `suites.toml` is the table of suites.
"""
