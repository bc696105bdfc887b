# Requests to a broker that coordinates nothing.
requests: v1
brokers: 3

p = begin
a = topic
g = fresh group
"InitProducerId": InitProducerId p to=idle -> NOT_COORDINATOR
"AddPartitionsToTxn": AddPartitionsToTxn p a to=idle -> NOT_COORDINATOR
"AddOffsetsToTxn": AddOffsetsToTxn p {g} to=idle -> NOT_COORDINATOR
"EndTxn": EndTxn p commit to=idle -> NOT_COORDINATOR
