"""A broker: requests to answers.

`node` is the front door, without sockets; `server` puts it on one. What several nodes share is a
`cluster`. Requests are served in `produce_requests`, `reads`, `metadata_requests`,
`transaction_requests` and `group_requests`; `coordinating` carries out what the coordinators want,
`verification` asks those of other nodes.
"""
