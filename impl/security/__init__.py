"""Who a connection belongs to, and what it may do: TLS, SASL and access control lists.

Nothing here knows a broker or a client: both use it.
"""
