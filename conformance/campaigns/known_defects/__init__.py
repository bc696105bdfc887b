"""Defects that releases of brokers and clients had: shown in the last release that has one, and
absent from the first that does not.

`table.toml` has a row for each. The evidence is one fact of a story
(`conformance.campaigns.stories`), played on both releases; what is right is what the story expects
of the release with the mend.
"""
