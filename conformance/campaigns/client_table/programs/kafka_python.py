"""kafka-python; `features.py` says what each verb does."""

import sys
import time
from uuid import uuid4

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import (
    GroupAuthorizationFailedError,
    InvalidProducerEpochError,
    ProducerFencedError,
    TopicAuthorizationFailedError,
)
from kafka.structs import OffsetAndMetadata

VERB, TOPIC, ADDRESS, *GIVEN = sys.argv[1:]
OPTIONS = dict(option.split("=", 1) for option in GIVEN)
SETTINGS = {"bootstrap_servers": ADDRESS}
if "mechanism" in OPTIONS:
    SETTINGS |= {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": OPTIONS["ca"],
        "sasl_mechanism": OPTIONS["mechanism"],
        "sasl_plain_username": OPTIONS["user"],
        "sasl_plain_password": OPTIONS["password"],
    }
READING = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 300}
WAIT_S = 20


def until(is_true):
    """Wait; what does not come true is seen in the facts."""
    end = time.monotonic() + WAIT_S
    while not is_true() and time.monotonic() < end:
        time.sleep(0.1)


def value(letter):
    """Long enough for a codec to be worth it."""
    return letter.encode() * 100


def letters(records):
    return " ".join(record.value[:1].decode() for record in records)


def read(topic, count, **more):
    consumer = KafkaConsumer(**SETTINGS, **READING, **more)
    consumer.assign([TopicPartition(topic, 0)])
    found = take(consumer, count)
    consumer.close()
    return found


def take(consumer, count):
    found = []
    end = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < end:
        for records in consumer.poll(timeout_ms=200).values():
            found += records
    if len(found) < count:
        raise TimeoutError(f"{len(found)} of {count} records after {WAIT_S} s")
    return found


def metadata():
    consumer = KafkaConsumer(**SETTINGS)
    print(f"partitions {len(consumer.partitions_for_topic(TOPIC))}")


def admin():
    client = KafkaAdminClient(**SETTINGS)
    resource = ConfigResource(ConfigResourceType.TOPIC, TOPIC, {"retention.ms": "120000"})

    def partitions():
        found = client.describe_topics([TOPIC])
        return len(found[0]["partitions"]) if found else 0

    def retention():
        asked = [ConfigResource(ConfigResourceType.TOPIC, TOPIC)]
        return client.describe_configs(asked)["topic"][TOPIC]["retention.ms"]["value"]

    client.create_topics([NewTopic(TOPIC, 2, 1, topic_configs={"retention.ms": "60000"})])
    until(lambda: partitions() == 2)
    print(f"partitions {partitions()}")
    print(f"retention.ms {retention()}")
    client.alter_configs([resource])
    until(lambda: retention() == "120000")
    print(f"retention.ms {retention()}")
    client.create_partitions({TOPIC: 3})
    until(lambda: partitions() == 3)
    print(f"partitions {partitions()}")
    client.delete_topics([TOPIC])
    until(lambda: TOPIC not in client.list_topics())
    print("deleted" if TOPIC not in client.list_topics() else "still there")


def round_trip():
    codec = OPTIONS.get("codec", "none")
    producer = KafkaProducer(
        **SETTINGS,
        acks="all",
        enable_idempotence="idempotent" in OPTIONS,
        compression_type=None if codec == "none" else codec,
        linger_ms=100,
    )
    sent = [producer.send(TOPIC, value(letter), partition=0) for letter in "abc"]
    for future in sent:
        future.get(WAIT_S)
    producer.close()
    print(f"read {letters(read(TOPIC, 3))}")


def group():
    producer = KafkaProducer(**SETTINGS)
    for number in range(20):
        producer.send(TOPIC, value("a"), partition=number % 4).get(WAIT_S)

    def join():
        return KafkaConsumer(
            TOPIC,
            **SETTINGS,
            **READING,
            group_id=TOPIC,
            enable_auto_commit=False,
            client_id=uuid4().hex,
        )

    def share(*members):
        return [len(member.assignment()) for member in members]

    def poll(*members):
        for member in members:
            member.poll(timeout_ms=100)

    one = join()
    found = take(one, 20)
    print(f"alone {share(one)[0]}")
    print(f"read {len(found)}")
    one.commit()
    two = join()
    until(lambda: poll(one, two) or share(one, two) == [2, 2])
    print("shared", *share(one, two))
    one.close()
    until(lambda: poll(two) or share(two) == [4])
    print(f"after {share(two)[0]}")
    two.close()


def transactional():
    producer = KafkaProducer(**SETTINGS, transactional_id=TOPIC)
    producer.init_transactions()
    return producer


def transactions():
    producer = transactional()
    for letter, end in (
        ("a", producer.commit_transaction),
        ("b", producer.abort_transaction),
        ("c", producer.commit_transaction),
    ):
        producer.begin_transaction()
        producer.send(TOPIC, value(letter), partition=0).get(WAIT_S)
        end()
    print(f"read {letters(read(TOPIC, 2, isolation_level='read_committed'))}")


def fencing():
    old = transactional()
    old.begin_transaction()
    old.send(TOPIC, value("a"), partition=0).get(WAIT_S)
    new = transactional()
    try:
        old.commit_transaction()
    except (ProducerFencedError, InvalidProducerEpochError):
        print("fenced")
    new.begin_transaction()
    new.send(TOPIC, value("b"), partition=0).get(WAIT_S)
    new.commit_transaction()
    print(f"read {letters(read(TOPIC, 1, isolation_level='read_committed'))}")


def process():
    source = KafkaProducer(**SETTINGS)
    for letter in "ab":
        source.send(TOPIC, value(letter), partition=0).get(WAIT_S)
    consumer = KafkaConsumer(TOPIC, **SETTINGS, **READING, group_id=TOPIC, enable_auto_commit=False)
    found = take(consumer, 2)
    producer = transactional()
    producer.begin_transaction()
    for record in found:
        producer.send(f"{TOPIC}-out", record.value.upper(), partition=0)
    offsets = {TopicPartition(TOPIC, 0): OffsetAndMetadata(found[-1].offset + 1, "", -1)}
    producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
    producer.commit_transaction()
    print(f"processed {letters(found)}")
    consumer.close()
    print(f"read {letters(read(f'{TOPIC}-out', 2, isolation_level='read_committed'))}")


def refused():
    producer = KafkaProducer(**SETTINGS, max_block_ms=5_000)
    try:
        producer.send(TOPIC, value("a"), partition=0).get(WAIT_S)
    except TopicAuthorizationFailedError:
        print("topic refused")
    consumer = KafkaConsumer(OPTIONS["open"], **SETTINGS, **READING, group_id=TOPIC)
    try:
        take(consumer, 1)
    except GroupAuthorizationFailedError:
        print("group refused")


globals()[VERB]()
