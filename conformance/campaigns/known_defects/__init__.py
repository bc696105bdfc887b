"""Known defects of broker and client releases: shown in the last release that has one, and absent
from the next.

`table.toml` has a row for each. The evidence is one fact of a story
(`conformance.campaigns.stories`), played on both releases; the right answer is the story's
expectation for the fixed release.
"""
