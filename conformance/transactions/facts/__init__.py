"""Small named experiments: what a real broker answers, beside what is expected of its release.

An experiment is a function of a `Lab`; `@experiment` puts it into EXPERIMENTS. Each thing that it
finds out is a `Fact`. Brokers decide: where a fact is not as expected, the expectation is wrong, or
the release has a defect.
"""
