"""Applications of clients that are not Apache Kafka's own, for stories: one source file a product.

Each understands the calls that `Application.java` understands, and takes Kafka's names of settings.
"""
