"""A broker: requests to answers.

`node` is a broker without sockets, `server` runs it on them, `cluster` is the metadata that nodes
share, `embedded` a cluster for users, `serve` its verb. `*_requests` and `reads` hold the handlers;
`coordinators` drives the transaction and group coordinators, `memberships` that of members,
`verification` asks those of other nodes. Tests use `faults`, which stand between connections and
nodes, `timeline`, which records requests there, and `log_view`.
"""
