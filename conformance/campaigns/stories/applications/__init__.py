"""Applications of clients that are not Apache Kafka's own, for stories: one source file a product.

Each answers the calls of `Application.java` that its stories make, and takes Kafka's names of
settings.
"""
