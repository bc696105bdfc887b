"""aiokafka; `features.py` says what each verb does."""

import asyncio
import sys
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    ProducerFenced,
    TopicAuthorizationFailedError,
)
from aiokafka.helpers import create_ssl_context

VERB, TOPIC, ADDRESS, *GIVEN = sys.argv[1:]
OPTIONS = dict(option.split("=", 1) for option in GIVEN)
READING = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 300}
WAIT_S = 20


def settings():
    """To be made on the event loop."""
    if "mechanism" not in OPTIONS:
        return {"bootstrap_servers": ADDRESS}
    return {
        "bootstrap_servers": ADDRESS,
        "security_protocol": "SASL_SSL",
        "ssl_context": create_ssl_context(cafile=OPTIONS["ca"]),
        "sasl_mechanism": OPTIONS["mechanism"],
        "sasl_plain_username": OPTIONS["user"],
        "sasl_plain_password": OPTIONS["password"],
    }


async def until(is_true):
    """Wait; what does not come true is seen in the facts."""
    end = time.monotonic() + WAIT_S
    while not await is_true() and time.monotonic() < end:
        await asyncio.sleep(0.1)


def value(letter):
    """Long enough for a codec to be worth it."""
    return letter.encode() * 100


def letters(records):
    return " ".join(record.value[:1].decode() for record in records)


async def take(consumer, count):
    async with asyncio.timeout(WAIT_S):
        return [await consumer.getone() for _ in range(count)]


async def read(topic, count, **more):
    consumer = AIOKafkaConsumer(**settings(), **READING, **more)
    consumer.assign([TopicPartition(topic, 0)])
    await consumer.start()
    found = await take(consumer, count)
    await consumer.stop()
    return letters(found)


async def metadata():
    producer = AIOKafkaProducer(**settings())
    await producer.start()
    print(f"partitions {len(await producer.partitions_for(TOPIC))}")
    await producer.stop()


async def admin():
    client = AIOKafkaAdminClient(**settings())
    await client.start()

    async def partitions():
        [found] = await client.describe_topics([TOPIC])
        return len(found["partitions"])

    async def retention():
        asked = ConfigResource(ConfigResourceType.TOPIC, TOPIC)
        [answer] = await client.describe_configs([asked])
        entries = answer.resources[0][-1]
        return next(entry[1] for entry in entries if entry[0] == "retention.ms")

    async def has_partitions(count):
        return await partitions() == count

    async def is_changed():
        return await retention() == "120000"

    async def is_gone():
        return TOPIC not in await client.list_topics()

    await client.create_topics([NewTopic(TOPIC, 2, 1, topic_configs={"retention.ms": "60000"})])
    await until(lambda: has_partitions(2))
    print(f"partitions {await partitions()}")
    print(f"retention.ms {await retention()}")
    resource = ConfigResource(ConfigResourceType.TOPIC, TOPIC, {"retention.ms": "120000"})
    await client.alter_configs([resource])
    await until(is_changed)
    print(f"retention.ms {await retention()}")
    await client.create_partitions({TOPIC: NewPartitions(3)})
    await until(lambda: has_partitions(3))
    print(f"partitions {await partitions()}")
    await client.delete_topics([TOPIC])
    await until(is_gone)
    print("deleted" if await is_gone() else "still there")
    await client.close()


async def round_trip():
    codec = OPTIONS.get("codec", "none")
    producer = AIOKafkaProducer(
        **settings(),
        enable_idempotence="idempotent" in OPTIONS,
        compression_type=None if codec == "none" else codec,
        linger_ms=100,
    )
    await producer.start()
    sent = [await producer.send(TOPIC, value(letter), partition=0) for letter in "abc"]
    await asyncio.gather(*sent)
    await producer.stop()
    print(f"read {await read(TOPIC, 3)}")


async def group():
    producer = AIOKafkaProducer(**settings())
    await producer.start()
    for number in range(20):
        await producer.send_and_wait(TOPIC, value("a"), partition=number % 4)
    await producer.stop()

    async def join():
        member = AIOKafkaConsumer(
            TOPIC, **settings(), **READING, group_id=TOPIC, enable_auto_commit=False
        )
        await member.start()
        return member

    def share(*members):
        return [len(member.assignment()) for member in members]

    async def is_shared(members, counts):
        return share(*members) == counts

    one = await join()
    found = await take(one, 20)
    print(f"alone {share(one)[0]}")
    print(f"read {len(found)}")
    await one.commit()
    two = await join()
    await until(lambda: is_shared((one, two), [2, 2]))
    print("shared", *share(one, two))
    await one.stop()
    await until(lambda: is_shared((two,), [4]))
    print(f"after {share(two)[0]}")
    await two.stop()


async def transactional():
    producer = AIOKafkaProducer(**settings(), transactional_id=TOPIC)
    await producer.start()
    return producer


async def transactions():
    producer = await transactional()
    for letter, end in (
        ("a", producer.commit_transaction),
        ("b", producer.abort_transaction),
        ("c", producer.commit_transaction),
    ):
        await producer.begin_transaction()
        await producer.send_and_wait(TOPIC, value(letter), partition=0)
        await end()
    await producer.stop()
    print(f"read {await read(TOPIC, 2, isolation_level='read_committed')}")


async def fencing():
    old = await transactional()
    await old.begin_transaction()
    await old.send_and_wait(TOPIC, value("a"), partition=0)
    new = await transactional()
    try:
        await old.commit_transaction()
    except ProducerFenced:
        print("fenced")
    await new.begin_transaction()
    await new.send_and_wait(TOPIC, value("b"), partition=0)
    await new.commit_transaction()
    await new.stop()
    print(f"read {await read(TOPIC, 1, isolation_level='read_committed')}")


async def process():
    source = AIOKafkaProducer(**settings())
    await source.start()
    for letter in "ab":
        await source.send_and_wait(TOPIC, value(letter), partition=0)
    await source.stop()
    consumer = AIOKafkaConsumer(
        TOPIC, **settings(), **READING, group_id=TOPIC, enable_auto_commit=False
    )
    await consumer.start()
    found = await take(consumer, 2)
    producer = await transactional()
    await producer.begin_transaction()
    for record in found:
        await producer.send(f"{TOPIC}-out", record.value.upper(), partition=0)
    offsets = {TopicPartition(TOPIC, 0): found[-1].offset + 1}
    await producer.send_offsets_to_transaction(offsets, TOPIC)
    await producer.commit_transaction()
    await producer.stop()
    print(f"processed {letters(found)}")
    await consumer.stop()
    print(f"read {await read(f'{TOPIC}-out', 2, isolation_level='read_committed')}")


async def refused():
    producer = AIOKafkaProducer(**settings())
    await producer.start()
    try:
        await producer.send_and_wait(TOPIC, value("a"), partition=0)
    except TopicAuthorizationFailedError:
        print("topic refused")
    await producer.stop()
    consumer = AIOKafkaConsumer(OPTIONS["open"], **settings(), **READING, group_id=TOPIC)
    try:
        await consumer.start()
        await take(consumer, 1)
    except GroupAuthorizationFailedError:
        print("group refused")
    await consumer.stop()


asyncio.run(globals()[VERB]())
