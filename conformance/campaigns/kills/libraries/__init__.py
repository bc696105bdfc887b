"""Client libraries behind the interface of `roles.ClientLibrary`, a module each.

Each has `open_library(address)`. Settings are a library's defaults but for short backoffs, timeouts
of sessions and transactions, and where a group begins to read.
"""
