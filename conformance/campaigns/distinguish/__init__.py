"""Searches for traces that tell two Kafkas apart, and writes the page of all known answers.

`observers` and `leaders` define what a test sees of a system; `product_search` selects the scopes
to search, smallest first; `rules_table` writes the page.
"""
