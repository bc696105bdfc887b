"""Running brokers, compared with a model over their wire.

`KafkaTestbed` starts a broker or a cluster; `Conversation` builds requests, `CoordinatorConnection`
sends them; `observed` reads everything that a server shows. `backend` plays the traces of a plan.
"""
