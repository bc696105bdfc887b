"""Sends the same requests to a real Kafka and to our broker, and compares the answers field by
field.

`scenes` has the valid requests of each API, and the broker's state for them. `cases` derives
further requests for each version from the table of schemas. `conversation` asks one broker;
`recording` keeps the answers of a real one; `comparison` names the differences.
"""
