"""The same requests at a real Kafka and at our broker, their answers compared field by field.

`scenes` says which requests stand for an API and in which state of the broker they are sent;
`cases` derives from the table of schemas what else is asked of each version; `conversation` asks
one broker; `recording` keeps what a real one answered; `comparison` names what differs.
"""
