"""The search for traces that tell two Kafkas apart, and the page of all that is known.

`observers` and `leaders` say what is seen of a system, `product_search` which scopes are searched,
smallest first; `rules_table` writes the page.
"""
