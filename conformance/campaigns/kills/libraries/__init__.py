"""Client libraries behind the interface of `roles.ClientLibrary`, a module each.

Each has `open_library(address)`. Settings are a library's defaults, except for short backoffs,
timeouts of sessions and transactions, and the position at which a group begins to read.
"""
